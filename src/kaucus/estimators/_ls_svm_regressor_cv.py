"""A least-squares SVM regressor that chooses its kernel, width and C by itself."""

import functools
from typing import ClassVar

import numpy as np

from kaucus.estimators._intervals import IntervalPredictions
from kaucus.estimators._leave_one_out import LeaveOneOutSearch, picked
from kaucus.estimators._parameters import one_of
from kaucus.estimators._validation import check_weights
from kaucus.machines import NumberTargets, Problem, enough_rows, left_out_shares
from kaucus.solvers import regression_score

REGRESSOR_SCORES = ("neg_mean_squared_error", "neg_mean_absolute_error")
# Of the targets: rows are not clustered here.
_BINS = 1


class LSSVMRegressorCV(IntervalPredictions, LeaveOneOutSearch):
    """Least-squares support vector regressor that chooses C by leave-one-out.

    By default, kernel, width, C and a metric of the columns are chosen by rows held
    out; the leave-one-out score of the model of all rows is then in closed form. For a
    named kernel, one eigendecomposition of its matrix gives the model for every C, and
    with it the prediction for each row by the model fitted without that row, one
    decomposition for each width.

    Parameters
    ----------
    Cs : array-like of float, default=None
        Values of C to choose from; None: 1e-5, 1e-4, ..., 1e9.
    gammas : "auto", array-like of float or None, default="auto"
        Values of gamma to choose from. None: ``gamma`` alone. ``"auto"``: with
        ``kernel="auto"`` as wide and as narrow as rows held out say; else ``gamma``
        times 4⁻³, 4⁻², ..., 4³.
    kernel : str, kernel object or callable, default="auto"
        ``"auto"``: ``"exponential"``, ``"rbf"`` or, up to 64 columns, ``"laplacian"``,
        chosen by rows held out, many times faster than all pairs by leave-one-out.
        Else as in :class:`LSSVMRegressor`, and C and gamma are those of the best
        leave-one-out score. ``"auto"`` does that too below 50 rows.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        As in :class:`LSSVMRegressor`; not used with ``kernel="auto"``.
    learn_metric : "auto" or bool, default="auto"
        Whether columns are scaled, weighed and mixed by a metric learned from ``y``, as
        in :class:`KMeansKernelRegressor`. ``"auto"``: with ``kernel="auto"``.
    degree : int, default=3
        Degree of ``"poly"``.
    coef0 : float, default=0.0
        Constant of ``"poly"`` and ``"sigmoid"``.
    scoring : {"neg_mean_squared_error", "neg_mean_absolute_error"}, \
default="neg_mean_squared_error"
        What leave-one-out predictions are judged by, averaged over the outputs.
    max_samples : int or None, default=5000
        With more rows than this, C and gamma are chosen on a random part of them, and
        the model is then fitted on all rows. None: always all rows.
    solver : {"auto", "cholesky", "cg"}, default="auto"
        Of the last fit, where there are more than ``max_samples`` rows.
    tol : float, default=1e-3
        Relative residual at which ``"cg"`` stops.
    max_iter : int, default=1000
        Most steps of ``"cg"``.
    device : str, default=None
        As in :class:`LSSVMRegressor`.
    precision : {None, "float64", "float32", "tf32"}, default=None
        As in :class:`LSSVMRegressor`.
    memory_budget : int or str, default=None
        As in :class:`LSSVMRegressor`.
    random_state : int, RandomState or Generator, default=None
        Draws the rows on which C is chosen, and what the solver draws.
    verbose : int, default=0
        As in :class:`LSSVMRegressor`.

    Attributes
    ----------
    C_ : float
        The C that was chosen.
    gamma_ : float or None
        The gamma that was chosen; None for a kernel without one.
    best_score_ : float
        Leave-one-out score of that choice.
    search_results_ : dict of ndarrays
        What was tried, a row for each pair: ``kernel``, ``gamma``, ``C`` and ``score``,
        the larger the better; NaN where Ctrl-C came before. Where rows held out judged,
        the score is minus their loss, and more columns tell of the metric, as in
        :class:`LearnedMetric`. For ``pandas.DataFrame(model.search_results_)``.
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        a.
    intercept_ : ndarray of shape (n_targets,)
        b.
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed. In a learned
        metric, that of rows which ``kernel_.row_map`` maps.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each column in the learned metric; absent where there is none.
    solver_ : str
        ``"eigh"``, or the solver of the last fit.
    n_iter_ : int
        Its steps.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had names that are all strings.

    See Also
    --------
    LSSVMRegressor : The same with a given C.

    References
    ----------
    G. C. Cawley, N. L. C. Talbot, "Fast exact leave-one-out cross-validation of sparse
    least-squares support vector machines", Neural Networks 17, 1467 (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 6, 80)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=80)
    >>> model = LSSVMRegressorCV(random_state=0).fit(X, y)
    >>> round((-model.best_score_) ** 0.5, 2)
    0.1
    """

    _parameters: ClassVar = {"scoring": one_of(*REGRESSOR_SCORES)}

    def __init__(
        self,
        Cs=None,
        *,
        gammas="auto",
        kernel="auto",
        gamma="scale",
        learn_metric="auto",
        degree=3,
        coef0=0.0,
        scoring="neg_mean_squared_error",
        max_samples=5000,
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.Cs = Cs
        self.gammas = gammas
        self.kernel = kernel
        self.gamma = gamma
        self.learn_metric = learn_metric
        self.degree = degree
        self.coef0 = coef0
        self.scoring = scoring
        self.max_samples = max_samples
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Choose C, and gamma if asked, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 counts as two equal rows.

        Returns
        -------
        self : LSSVMRegressorCV
        """
        self._check_parameters()
        Cs = self._grid_of_C()
        X, Y = self._validate_outputs(X, y)
        weight = check_weights(sample_weight, X)
        left_out = left_out_shares(weight)
        data = {"Y": Y, "sample_weight": weight, "left_out": left_out}

        def score(loo_decision, rows):
            targets, judged = picked(Y, rows), picked(weight, rows)
            return regression_score(loo_decision, targets, self.scoring, judged)

        if self._is_open and enough_rows(X.shape[0], weight):
            targets = NumberTargets(Y, _BINS)
            problem = Problem(self._placed(X), targets, weight, weight)
            losses = functools.partial(_number_losses, targets, weight, self.scoring)
            self._search_openly(X, problem, data, losses, score)
        else:
            rows = self._rows_for_search(X.shape[0])
            self._search_and_fit(X, data, Cs, score, rows, leave_one_out=False)
        self._remember_fit(X, Y, self.C_, weight, weight)
        return self


def _number_losses(targets: NumberTargets, weight, scoring: str, values, rows):
    """Return the loss of each row and model by a score of numbers, (r, c)."""
    if scoring == "neg_mean_squared_error":
        return targets.losses(values, weight, rows)
    Y, _ = targets.search(weight)
    return np.mean(np.abs(values - Y[rows][:, None, :]), axis=2)
