"""The least-squares support vector regressor."""

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


class LSSVMRegressor(IntervalPredictions, BlockwiseFit, LSSVMBase):
    """Least-squares support vector regressor: kernel ridge with an intercept.

    Fits f(x) = Σᵢ aᵢ k(x, xᵢ) + b by solving

        [ 0   1ᵀ     ] [ b ]   [ 0 ]
        [ 1   K + I/C ] [ a ] = [ y ]

    for all outputs at once. The intercept is not penalised, so that a constant added to
    ``y`` is added to the predictions and changes nothing else.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regularisation, H = K + I/C.
    kernel : str, kernel object or callable, default="rbf"
        ``"linear"``, ``"poly"``, ``"rbf"``, ``"exponential"``, ``"cauchy"``,
        ``"sigmoid"``, ``"cosine"``, ``"laplacian"``, ``"precomputed"``, an object from
        :mod:`kaucus.kernels`, or a function ``k(X, Y)`` that returns the matrix.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Width of the kernel; ``"scale"`` is 1 / (n_features X.var()), ``"auto"`` is
        1 / n_features, ``"median"`` is from the median distance between rows (see
        :func:`kaucus.kernels.median_gamma`).
    degree : int, default=3
        Degree of ``"poly"``.
    coef0 : float, default=0.0
        Constant of ``"poly"`` and ``"sigmoid"``.
    solver : str, default="auto"
        ``"cholesky"`` factors the kernel matrix; ``"cg"`` needs only products with it;
        ``"block_descent"``, ``"nystrom"``, ``"kaczmarz"``, ``"matching_pursuit"`` and
        ``"kaczmarz_mp"`` take random blocks of its rows. ``"auto"`` chooses by a cost
        model; :meth:`explain` tells the choice beforehand, ``solver_`` afterwards.
    tol : float, default=1e-3
        Relative residual at which an iterative solver stops. ``"kaczmarz"`` and
        ``"nystrom"`` stop where no step of a whole pass changes the weights by more
        than this, ``"matching_pursuit"`` and ``"kaczmarz_mp"`` also where a whole pass
        lowers the residual by less.
    max_iter : int, default=1000
        Most steps of an iterative solver. A ``"nystrom"`` committee is complete after
        n_samples / block_size steps.
    block_size : int, default=None
        Rows in a random block, the paper's J; None is 2,000, or as many as
        ``memory_budget`` allows.
    n_runs : int, default=1
        Runs of a randomized solver with different blocks, in parallel, whose weights
        are averaged.
    warm_start : bool, default=False
        Whether a fit on the same rows begins with the coefficients of the last one.
        For ``"kaczmarz"``, ``"matching_pursuit"``, ``"kaczmarz_mp"`` and
        ``"block_descent"``; others begin anew.
    callback : callable, default=None
        ``callback(step, state)`` after each step of an iterative solver; ``state`` has
        ``residual``, ``change``, ``seconds``, ``validation_error``, ``dual_coef`` and
        ``intercept``. A true result ends the fit, and what was learned is kept.
    checkpoint : path, default=None
        File in which a solver by random blocks keeps its state every few steps. A later
        fit of the same data with the same parameters goes on from it, also towards
        another ``tol`` or ``max_iter``. Needs a whole number as ``random_state``, and
        one of those solvers by name.
    device : str, default=None
        None computes where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes there and
        gives results back as the kind of ``X``. Needs torch.
    precision : {None, "float64", "float32", "tf32"}, default=None
        What rows are cast to; None works in their own precision. Results have it, sums
        and solves that need more are in float64. ``"tf32"`` is float32 with faster,
        coarser products of rows in the kernel on CUDA, where C allows it.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
        What does not fit is computed in blocks, again for every product.
    random_state : int, RandomState or Generator, default=None
        Draws the preconditioner of ``"cg"`` and the blocks of rows.
    verbose : int, default=0
        1 tells which solver was chosen and shows progress on a terminal.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        a.
    intercept_ : ndarray of shape (n_targets,)
        b.
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed.
    solver_ : str
        The solver that ran.
    n_iter_ : int
        Its steps; 1 for a factorisation without refinement.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution, and why an iteration ended.
    history_ : dict of list
        Of an iterative solver, a value for each step: ``"run"``, ``"step"``,
        ``"seconds"``, ``"residual"``, ``"change"`` and ``"validation_error"``; empty
        for a factorisation.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had names that are all strings.

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
        checkpoint=None,
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
        self.checkpoint = checkpoint
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
            A weight of 2 counts as two equal rows.
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
        unseen = validation_pair(self, X_val, y_val, self._validation_error)
        options = self._block_options(X, Y, unseen)
        fitted = self._fit_core(
            X, Y, C, weight, None, leave_one_out=False, options=options
        )
        self._store(X, fitted.solution)
        self._remember_fit(X, Y, C, weight, weight)
        self._keep_history(fitted)
        return self

    def _n_columns(self, y) -> int:
        """Return the right-hand sides of a fit to ``y``."""
        return 2 if y is None else 1 + int(np.prod(np.shape(on_host(y))[1:]))

    def _validation_error(self, y_val):
        """Return a function that gives the root mean squared error of predictions."""
        targets = numeric_targets(np.asarray(y_val))

        def error(predictions) -> float:
            return float(np.sqrt(np.mean((to_numpy(predictions) - targets) ** 2)))

        return error
