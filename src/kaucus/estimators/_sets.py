"""Prediction sets of classifiers: the classes that cannot be ruled out."""

import numpy as np

from kaucus.backend import as_like, astype, to_numpy
from kaucus.contract import rowwise
from kaucus.estimators._left_out import (
    KnowsLeftOut,
    check_calibrated,
    checked_predictions,
    levels_of,
    refuse_dask,
)
from kaucus.estimators._parameters import one_of
from kaucus.estimators._predictions import ClassifierPredictions
from kaucus.estimators._ranges import check_results
from kaucus.estimators._validation import check_known_labels
from kaucus.machines import all_classes, one_vs_rest_targets
from kaucus.solvers import class_scores, left_out_sets, split_sets

SET_SCORES = ("lac", "aps")
SET_METHODS = ("plus", "split")


class SetPredictions(KnowsLeftOut, ClassifierPredictions):
    """Classes and probabilities, and the classes that cannot be ruled out."""

    def predict_set(self, X, confidence_level=0.9, score="lac", method="plus"):
        """Return sets that hold the classes of new rows with a probability.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).
        confidence_level : float or sequence of float, default=0.9
            1 − α: the share of rows whose class shall be in the set.
        score : {"lac", "aps"}, default="lac"
            By what classes are compared. ``"lac"``: their probability; the smallest
            sets on average, which may be empty where no class is likely enough.
            ``"aps"``: the probability of all classes that are more probable; sets that
            are the larger the harder a row is, and never empty.
        method : {"plus", "split"}, default="plus"
            ``"plus"``: cross-conformal, by the exact leave-one-out model of every
            training row. ``"split"``: by the rows that :meth:`conformalize` was given.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_classes, n_levels)
            Which classes of ``classes_`` are in the set.

        Notes
        -----
        For rows drawn as the training rows were, ``"plus"`` holds at least 1 − 2α of
        the classes, in practice about 1 − α, if kernel, C, metric and representatives
        were chosen without looking at these rows; ``"split"`` holds 1 − α in any case.
        The representatives of :class:`KMeansKernelClassifier` are chosen class by class
        and know the labels: with fewer than 30 rows for each, ``"plus"`` was measured
        to hold up to a tenth less than the level.
        """
        levels = levels_of(confidence_level)
        one_of(*SET_SCORES).check("score", score)
        one_of(*SET_METHODS).check("method", method)
        model = self._for_rows(X, method)
        return model._sets(X, levels=levels, score=score, method=method)

    def conformalize(self, X, y, predictions=None):
        """Take rows that were not fitted, for sets with ``method="split"``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows held out. With ``kernel="precomputed"``: k(X, X_fit).
        y : array-like of shape (n_samples,)
            Their labels.
        predictions : array-like of shape (n_samples,) or (n_samples, n_classes), \
                default=None
            Values of ``decision_function`` by models that were not fitted to these
            rows, where this one was: those of
            ``cross_val_predict(..., method="decision_function")``, or of a model of
            fewer rows. None: the values of this model.

        Returns
        -------
        self : object
            Only decision values are kept; the next fit forgets them.
        """
        refuse_dask(X)
        if predictions is None:
            values = to_numpy(check_results(self._decision_values(X)))
        else:
            values = checked_predictions(predictions)
        decision = all_classes(values).astype(np.float64)
        _, y = self._validate(X, y, reset=False)
        _, labels = check_known_labels(y, None, self.classes_)
        wanted = len(labels), len(self.classes_)
        if decision.shape != wanted:
            raise ValueError(
                f"predictions are those of {decision.shape[0]} rows and "
                f"{decision.shape[1]} classes, and y has {wanted[0]} and the model "
                f"{wanted[1]}; pass decision_function of the same rows and classes."
            )
        self._calibration = decision, labels
        return self

    @property
    def _temperature(self) -> float:
        return getattr(self, "temperature_", 1.0)

    def _target_columns(self, values: np.ndarray) -> np.ndarray:
        return one_vs_rest_targets(values, len(self.classes_))

    @rowwise
    def _sets(self, X, *, levels, score, method):
        if method == "plus":
            return self._cross_conformal(X, levels, score)
        decision = all_classes(check_results(self._decision_values(X)))
        check_calibrated(self._calibration)
        seen, labels = self._calibration
        own = class_scores(seen, self._temperature, score)
        own = as_like(own[np.arange(len(labels)), labels], decision)
        scores = class_scores(astype(decision, "float64"), self._temperature, score)
        return split_sets(scores, own, None, levels)

    def _cross_conformal(self, X, levels, score):
        values = to_numpy(self._left_out_models().left_out.values)
        numbers = self._left_out.left_out.numbers
        labels = self._training.values
        labels = labels if numbers is None else labels[numbers]

        def score_of(decision):
            return class_scores(all_classes(decision), self._temperature, score)

        own = to_numpy(score_of(values))[np.arange(len(labels)), labels]

        def sets(f, models, x, K):
            return left_out_sets(
                check_results(f),
                models.influence(K),
                models.left_out.residuals,
                as_like(own, f),
                self._counts(models),
                levels,
                score_of,
            )

        return self._over_left_out(X, sets)
