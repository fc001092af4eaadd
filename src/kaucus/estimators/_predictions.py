"""Predictions of classifiers: classes, probabilities, sets of classes."""

from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    array_namespace,
    as_like,
    astype,
    dtype_name,
    label_array,
    row_blocks,
    take_rows,
    to_numpy,
)
from kaucus.contract import HostAccuracy, rowwise
from kaucus.estimators._left_out import (
    KnowsLeftOut,
    check_calibrated,
    checked_predictions,
    levels_of,
    refuse_dask,
)
from kaucus.estimators._parameters import one_of
from kaucus.estimators._ranges import check_results
from kaucus.estimators._validation import (
    check_known_labels,
    check_one_label_type,
    encode_labels,
)
from kaucus.machines import all_classes, one_vs_rest_targets
from kaucus.solvers import (
    class_scores,
    fit_temperature,
    left_out_sets,
    softmax,
    split_sets,
    sum_of_exponentials,
)


def _has_probabilities(estimator) -> bool:
    if estimator.probability is False:
        raise AttributeError(
            "predict_proba is off: probability=False. Use probability='softmax'."
        )
    return True


def labels_at(classes, numbers, X):
    """Return the labels with the given numbers, in the kind of ``X`` if they can be."""
    labels = label_array(classes, X)
    if labels is classes and not isinstance(numbers, np.ndarray):
        numbers = to_numpy(numbers)  # texts are on the host
    return take_rows(labels, numbers)


class ClassifierPredictions(HostAccuracy, ClassifierMixin):
    """From decision values to classes and probabilities.

    Parameters
    ----------
    class_weight : dict or "balanced"
        Weights of the classes; ``"balanced"`` makes them inversely proportional to
        their numbers of rows.
    probability : {"softmax", "sum_exp", False}
        ``"softmax"``: softmax of the decision values, with a temperature fitted to
        leave-one-out values in closed form. ``"sum_exp"``: eq. (15) of Andrecut (2016)
        as printed. False: none.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    temperature_ : float
        By which decision values are divided before the softmax.
    """

    _parameters: ClassVar = {"probability": one_of("softmax", "sum_exp", False)}

    def _validate_labels(self, X, y):
        """Return ``X`` and the number of each row's class; store the classes."""
        check_one_label_type(y)
        X, y = self._validate(X, y, reset=True, ensure_min_samples=2)
        self.classes_, indices = encode_labels(y)
        return X, indices

    @rowwise
    def decision_function(self, X):
        """Return the decision values.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one value, positive for ``classes_[1]``.
        """
        values = check_results(self._decision_values(X))
        return values[:, 0] if len(self.classes_) == 2 else values

    @rowwise
    def predict(self, X):
        """Return the class of largest decision value.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        values = check_results(self._decision_values(X))
        return labels_at(self.classes_, largest(values), values)

    @available_if(_has_probabilities)
    @rowwise
    def predict_proba(self, X):
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``. With ``probability="softmax"`` the largest is
            that of the class that ``predict`` gives.
        """
        if self.probability == "sum_exp":
            return self._sum_of_exponentials(X)
        values = check_results(self._decision_values(X))
        return softmax(all_classes(values), self.temperature_)

    @available_if(_has_probabilities)
    @rowwise
    def predict_log_proba(self, X):
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        p = self.predict_proba(X)
        with np.errstate(divide="ignore"):  # log 0 = -inf is what is meant
            return array_namespace(p).log(p)

    def _sum_of_exponentials(self, X):
        check_is_fitted(self, "dual_coef_")
        X = self._validate(X, reset=False)
        # Targets of 0 and 1, as the paper has them, in place of ±1.
        A, b = to_numpy(self.dual_coef_), to_numpy(self.intercept_)
        signs = np.array([[-1.0, 1.0]]) if A.shape[1] == 1 else 1.0
        coef, intercept = A * signs / 2, (b * signs + 1) / 2
        support = None
        if not self._precomputed:
            support = astype(as_like(self._support_rows(), X), "float64")
        parts = []
        for rows in row_blocks(X.shape[0], 8 * coef.shape[0], 2**26):
            block = X[rows, :]
            # In float64: coefficients that cancel would show what float32 rounds.
            block = astype(block, "float64")
            K = block if self._precomputed else self.kernel_(block, support)
            parts.append(sum_of_exponentials(to_numpy(K), coef, np.ravel(intercept)))
        values = check_results(np.concatenate(parts))
        return astype(as_like(values, X), dtype_name(X))

    def _calibrate(self, loo_decision, indices, weight) -> None:
        """Fit the temperature of the probabilities on leave-one-out values."""
        decision = all_classes(to_numpy(loo_decision))
        self.temperature_ = fit_temperature(decision, indices, weight)


def largest(values):
    """Return the number of the class of largest decision value, for each row."""
    xp = array_namespace(values)
    if values.shape[1] == 1:
        return astype(values[:, 0] > 0, "int64")
    return xp.argmax(values, axis=1)


# ---- sets of classes -----------------------------------------------------------------


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
        return split_sets(scores, own, levels)

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
                levels,
                score_of,
            )

        return self._over_left_out(X, sets)
