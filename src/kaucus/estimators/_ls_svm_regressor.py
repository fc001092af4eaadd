"""The least-squares support vector regressor."""

import functools

import numpy as np

from kaucus.backend import to_numpy
from kaucus.contract import on_host
from kaucus.estimators._base import LSSVMBase
from kaucus.estimators._blockwise import BlockwiseFit, validation_pair
from kaucus.estimators._intervals import IntervalPredictions
from kaucus.estimators._validation import (
    check_weights,
    numeric_targets,
)
from kaucus.machines import TargetUnit


class LSSVMRegressor(IntervalPredictions, BlockwiseFit, LSSVMBase):
    """Least-squares support vector regressor: kernel ridge with an intercept.

    Fits f(x) = Σᵢ aᵢ k(x, xᵢ) + b by solving

        [ 0   1ᵀ     ] [ b ]   [ 0 ]
        [ 1   K + I/C ] [ a ] = [ y ]

    for all outputs at once. The intercept is not penalised, so that a constant added to
    ``y`` is added to the predictions and changes nothing else.

    Parameters
    ----------
    random_state : int, RandomState or Generator, default=None
        Draws the preconditioner of ``"cg"`` and the blocks of rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        a.

    See Also
    --------
    LSSVMRegressorCV : The same with C, and gamma if asked, chosen by leave-one-out.
    sklearn.kernel_ridge.KernelRidge : The same without an intercept.

    References
    ----------
    J. A. K. Suykens et al., "Least Squares Support Vector Machines", World Scientific
    (2002).

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMRegressor
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = LSSVMRegressor(C=100, gamma=1.0).fit(X, np.sin(X[:, 0]) + 10)
    >>> model.predict([[1.5]]).round(2)
    array([11.])
    """

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
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
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
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
        self : LSSVMRegressor
        """
        self._check_parameters()
        C = float(self.C)
        X, Y = self._validate_outputs(X, y)
        weight = check_weights(sample_weight, X)
        unit = TargetUnit.of(Y, weight)
        make_error = functools.partial(self._validation_error, unit=unit)
        unseen = validation_pair(self, X_val, y_val, make_error)
        Z = unit.standard(Y)
        options = self._block_options(X, Z, unseen, unit)
        with self._keeping_iterate(unit):
            fitted = self._fit_core(
                X, Z, C, weight, leave_one_out=False, options=options
            )
        self._store(X, unit.restored(fitted.solution))
        self._remember_fit(X, Z, C, weight, unit)
        self._keep_history(fitted)
        return self

    def _n_columns(self, y) -> int:
        """Return the right-hand sides of a fit to ``y``."""
        return 2 if y is None else 1 + int(np.prod(np.shape(on_host(y))[1:]))

    def _validation_error(self, y_val, unit: TargetUnit):
        """Return a function that gives the root mean squared error of predictions.

        These are in the unit of the fit, the error is in that of ``y``.
        """
        targets = unit.standard(numeric_targets(np.asarray(y_val)))

        def error(predictions) -> float:
            errors = (to_numpy(predictions) - targets) * unit.scale
            return float(np.sqrt(np.mean(errors**2)))

        return error
