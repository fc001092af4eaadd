"""From decision values to classes and probabilities."""

from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
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
from kaucus.contract import HostAccuracy, HostR2, rowwise
from kaucus.estimators._parameters import one_of
from kaucus.estimators._ranges import check_results
from kaucus.estimators._validation import (
    check_one_label_type,
    encode_labels,
    numeric_targets,
)
from kaucus.machines import all_classes
from kaucus.solvers import fit_temperature, softmax, sum_of_exponentials


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


class RegressorPredictions(HostR2, MultiOutputMixin, RegressorMixin):
    """From decision values to predictions of one or several outputs."""

    @rowwise
    def predict(self, X):
        """Return f(x).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        values = check_results(self._decision_values(X))
        return values[:, 0] if self._single_output else values

    def _validate_outputs(self, X, y, *, reset: bool = True):
        """Return ``X`` and the outputs as columns, (n, t)."""
        X, y = self._validate(
            X,
            y,
            reset=reset,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2 if reset else 1,
        )
        if reset:
            self._single_output = y.ndim == 1
        return X, numeric_targets(y)
