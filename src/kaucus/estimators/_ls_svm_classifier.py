"""The least-squares support vector classifier."""

import numpy as np

from kaucus.backend import to_numpy
from kaucus.contract import on_host
from kaucus.estimators._base import LSSVMBase
from kaucus.estimators._blockwise import BlockwiseFit, validation_pair
from kaucus.estimators._predictions import SetPredictions
from kaucus.estimators._validation import (
    check_weights,
    weights_with_classes,
)
from kaucus.machines import all_classes, one_vs_rest_targets


class LSSVMClassifier(SetPredictions, BlockwiseFit, LSSVMBase):
    """Least-squares support vector classifier.

    Fits f_j(x) = Σᵢ a_ij k(x, xᵢ) + b_j to targets ±1, one column for each class, by
    solving one linear system for all of them:

        [ 0   1ᵀ     ] [ b ]   [ 0 ]
        [ 1   K + I/C ] [ A ] = [ Y ]

    The class is the one of largest f_j. Unlike :class:`~sklearn.svm.SVC` every training
    row takes part in the model, and probabilities are there without another fit.

    Parameters
    ----------
    random_state : int, RandomState or Generator, default=None
        Draws the rows on which the temperature is fitted, where there are more than
        2,000, the preconditioner of ``"cg"`` and the blocks of rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        A; n_targets is 1 for two classes, else n_classes.

    See Also
    --------
    LSSVMClassifierCV : The same with C, and gamma if asked, chosen by leave-one-out.
    LSSVMRegressor : The same for numbers.

    References
    ----------
    J. A. K. Suykens, J. Vandewalle, "Least squares support vector machine classifiers",
    Neural Processing Letters 9, 293 (1999).

    M. Andrecut, "Randomized kernel methods for least-squares support vector machines"
    (2016), Sec. 2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVMClassifier(C=10).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    >>> model.predict_proba(X[:1]).round(1)
    array([[1., 0., 0.]])
    """

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        class_weight=None,
        probability="softmax",
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        block_size=None,
        n_runs=1,
        warm_start=False,
        callback=None,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.probability = probability
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.block_size = block_size
        self.n_runs = n_runs
        self.warm_start = warm_start
        self.callback = callback
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None):
        """Fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. A factor of
            all weights is one of C; a weight of 0 leaves the row out.
        X_val : array-like or CSR matrix of shape (n_val, n_features), default=None
            Rows that are not fitted, whose error goes into ``history_`` after each
            step of an iterative solver. With ``kernel="precomputed"``: k(X_val, X).
        y_val : array-like, default=None
            Their targets.

        Returns
        -------
        self : LSSVMClassifier
        """
        self._check_parameters()
        C = float(self.C)
        X, indices = self._validate_labels(X, y)
        weight = weights_with_classes(
            check_weights(sample_weight, X), self.class_weight, self.classes_, indices
        )
        Y = one_vs_rest_targets(indices, len(self.classes_))
        unseen = validation_pair(self, X_val, y_val, self._validation_error)
        with self._keeping_iterate():
            fitted = self._fit_core(
                X,
                Y,
                C,
                weight,
                leave_one_out=self.probability == "softmax",
                options=self._block_options(X, Y, unseen),
            )
        self._store(X, fitted.solution)
        self._remember_fit(X, indices, C, weight)
        self._keep_history(fitted)
        if self.probability == "softmax":
            rows = fitted.loo_rows
            self._calibrate(
                fitted.solution.loo_decision,
                indices[rows],
                None if weight is None else weight[rows],
            )
        return self

    def _n_columns(self, y) -> int:
        """Return the right-hand sides of a fit to ``y``."""
        n_classes = 10 if y is None else len(np.unique(on_host(y)))
        n_targets = 1 if n_classes == 2 else n_classes
        return (1 + n_targets) * (2 if self.probability == "softmax" else 1)

    def _validation_error(self, y_val):
        """Return what turns decision values into a share of wrong classes."""
        y_val = np.asarray(y_val)

        def error(decision) -> float:
            values = all_classes(to_numpy(decision))
            return float(np.mean(self.classes_[np.argmax(values, axis=1)] != y_val))

        return error
