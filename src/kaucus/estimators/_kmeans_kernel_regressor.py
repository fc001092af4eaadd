"""The k-means kernel regressor: representatives, and least squares of all rows."""

from typing import ClassVar

import numpy as np

from kaucus.backend import (
    NotPositiveDefiniteError,
    generator_from,
    products_in,
    to_numpy,
)
from kaucus.estimators._base import indefinite_kernel
from kaucus.estimators._kernel_input import beside, fitting_rows
from kaucus.estimators._kmeans_kernel_base import FitTask, RepresentativesBase
from kaucus.estimators._kmeans_kernel_growth import Growth
from kaucus.estimators._kmeans_kernel_stream import StreamMixin
from kaucus.estimators._parameters import count, one_of
from kaucus.estimators._predictions import RegressorPredictions
from kaucus.estimators._validation import (
    check_weights,
    left_out_shares,
)
from kaucus.representatives import allocate
from kaucus.solvers import random_hardness, regression_score, residual_hardness


class KMeansKernelRegressor(RegressorPredictions, StreamMixin, RepresentativesBase):
    """Kernel regressor in which a few representatives speak for all rows.

    Rows with like targets are clustered by k-means; the centres z_q,
    ``n_representatives`` of them in all, become the kernel's columns:

        f(x) = Σ_q a_q k(x, z_q) + b,

    fitted to all rows by regularised least squares. The model has the size you choose,
    whatever the number of rows, and it is fitted in one pass over them.

    Parameters
    ----------
    n_representatives : "auto" or int, default="auto"
        How many representatives; where there are no more rows, all of them.
        ``"auto"``: as many as ``target`` says.
    target : {"fastest", "balanced", "best"}, default="balanced"
        As in :class:`KMeansKernelClassifier`, by the squared error of rows held out.
    n_bins : int, default=5
        The rows are clustered in so many groups, from low to high targets, by itself
        each; 1 clusters all of them together. Several outputs are grouped by their
        first principal component.
    metric : {"euclidean", "cosine"}, default="euclidean"
        k-means by distance, or by angle, as in :class:`KMeansKernelClassifier`.
    refine : {None, "residual", "random", "auto"}, default=None
        ``"residual"``: training rows that the fit so far finds hardest, those of the
        largest residual, become representatives too. Better where the targets have
        little noise, worse where they have much. ``"random"``: any rows. ``"auto"``:
        the better of both in the first round, by rows held out, as in
        :class:`KMeansKernelClassifier`.
    n_refine : int, default=None
        How many hard rows are added in all; None: twice as many as there are
        representatives. Rows that repeat a representative are passed over.
    refine_rounds : int, default=2
        In how many rounds they are added, with a fit after each.
    C : "auto" or float, default="auto"
        Inverse strength of the regularisation, as in :class:`LSSVMRegressor`; the
        papers' γ or 1/ε. ``"auto"``: of 0.01 ... 10,000 the one with the least squared
        leave-one-out error, on at most 5,000 of the rows.
    kernel : str, kernel object or callable, default="auto"
        ``"auto"``: ``"rbf"`` or ``"exponential"``, chosen as C and gamma are.
        As in :class:`KMeansKernelClassifier`.
    gamma : {"tune", "scale", "auto", "median"} or float, default="tune"
        Width of the kernel; ``"scale"`` is 1 / (n_features X.var()), ``"auto"`` is
        1 / n_features, as in scikit-learn; ``"tune"`` chooses, as C, among 1/16 ... 16
        times ``"scale"`` (1/4 ... 4 times its root for ``"exponential"`` and
        ``"laplacian"``, which are functions of the distance, not of its square).
    degree : int, default=3
        Degree of ``"poly"``.
    coef0 : float, default=0.0
        Constant of ``"poly"`` and ``"sigmoid"``.
    init : {"random", "k-means++"}, default="random"
        Where k-means begins.
    n_init : int, default=1
        Starts of k-means, of which the best is kept.
    max_iter : int, default=100
        Most steps of k-means.
    tol : float, default=1e-4
        k-means stops when the centres move by no more, as in
        :class:`KMeansKernelClassifier`.
    device : str, default=None
        None computes where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes there and
        gives results back as the kind of ``X``. Needs torch.
    precision : {None, "float64", "float32", "tf32"}, default=None
        What rows are cast to; None works in their own precision. Results have it, sums
        and solves that need more are in float64. ``"tf32"`` is float32 with faster,
        coarser products of rows in the kernel on CUDA, where C allows it.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free. The
        kernel matrix of all rows is never held; blocks of it are.
    random_state : int, RandomState or Generator, default=None
        Draws where k-means begins.
    verbose : int, default=0
        1 shows progress on a terminal.

    Attributes
    ----------
    representatives_ : ndarray of shape (n_representatives, n_features)
        The representatives, and after them the hard rows.
    representative_weights_ : ndarray of shape (n_representatives,)
        How many rows each stands for, with their weights.
    refine_ : str or None
        How rows were chosen that became representatives; None: there are none.
    hard_rows_ : ndarray of shape (n_hard_rows,)
        Numbers of the training rows that ``refine`` made representatives; they are the
        last of them.
    dual_coef_ : ndarray of shape (n_representatives, n_outputs)
        a.
    intercept_ : ndarray of shape (n_outputs,)
        b.
    kernel_ : kernel object
        The kernel, with its parameters as numbers.
    C_ : float
        The C that was used.
    gamma_ : float or None
        The gamma that was used; None for a kernel without one.
    search_results_ : dict of ndarrays
        What was tried for C and gamma, a row for each pair: ``kernel``, ``gamma``,
        ``C`` and ``score``, minus the leave-one-out loss; empty where all were given.
        For ``pandas.DataFrame(model.search_results_)``.
    n_iter_ : int
        Steps of k-means.
    solver_ : str
        How the least squares were solved.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had names that are all strings.

    See Also
    --------
    KMeansKernelClassifier : The same for classes.
    LSSVMRegressor : The same with every training row as representative.

    Notes
    -----
    Five bins of the target or none, root mean squared error of test rows over the
    targets' standard deviation, 300 representatives, three seeds: 0.151 and 0.179
    (Friedman 1), 0.028 and 0.028 (Friedman 2), 0.360 and 0.360 (Friedman 3), 0.183 and
    0.183 (a column of satimage from the others), 0.219 and 0.211 (of pendigits); with
    60 representatives bins were better on four of the five.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import KMeansKernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(2000, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> model = KMeansKernelRegressor(20, random_state=0).fit(X, y)
    >>> model.representatives_.shape
    (20, 1)
    >>> round(model.score(X, y), 2)
    0.98
    """

    _what_is_clustered, _takes_matrices = "bin", "LSSVMRegressor"

    _parameters: ClassVar = {
        "n_representatives": count() | one_of("auto"),
        "n_bins": count(),
    }

    def __init__(
        self,
        n_representatives="auto",
        *,
        target="balanced",
        n_bins=5,
        metric="euclidean",
        refine=None,
        n_refine=None,
        refine_rounds=2,
        C="auto",
        kernel="auto",
        gamma="tune",
        degree=3,
        coef0=0.0,
        init="random",
        n_init=1,
        max_iter=100,
        tol=1e-4,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.n_representatives = n_representatives
        self.target = target
        self.n_bins = n_bins
        self.metric = metric
        self.refine = refine
        self.n_refine = n_refine
        self.refine_rounds = refine_rounds
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Choose representatives, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for k-means and for the least squares.

        Returns
        -------
        self : KMeansKernelRegressor
        """
        self._check_parameters()
        X, Y = self._validate_outputs(X, y)
        weight = check_weights(sample_weight, X)
        self._stream = None
        return self._learn(X, Y, weight, stream=False)

    def partial_fit(self, X, y, sample_weight=None):
        """Take in more rows.

        While there are no more than 10,000 rows, or ten for each representative that is
        asked for, all are kept, and the model is chosen from them anew whenever they
        have doubled: that is a ``fit`` of all rows so far. Between, and afterwards, the
        representatives stay, and the coefficients are those of the least squares of all
        rows seen on these: their normal equations are kept, m × m numbers for m
        representatives.

        After a ``fit``, which keeps no rows, its representatives z_q of weight w_q
        count as the rows of it, with the targets

            t_q = f(z_q) + (a_q / w_q − Σ a / Σ w) / C,

        from which alone the model would be fitted again, or nearly so.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            More rows; at least two at the first call.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : KMeansKernelRegressor
        """
        self._check_parameters()
        first = not hasattr(self, "representatives_")
        X, Y = self._validate_outputs(X, y, reset=first)
        weight = check_weights(sample_weight, X)
        n_outputs = Y.shape[1] if first else self.dual_coef_.shape[1]
        if Y.shape[1] != n_outputs:
            raise ValueError(
                f"y has {Y.shape[1]} outputs, and had {n_outputs} at the first call; "
                "pass as many, or fit a new model."
            )
        return self._take_in(X, Y, weight)

    def _learn(self, X, Y, weight, *, stream: bool, tune: bool = True):
        """Fit the rows alone; as a part of a stream, so that others may follow."""
        rng = generator_from(self.random_state)
        rows = fitting_rows(X, self.device, self.memory_budget)
        if tune:
            self._tune(X, rows, Y, weight, rng)
        bins = target_bins(Y, weight, self.n_bins)
        growth = self._growth(rows, bins, weight, stream=stream)
        held = self._hold_out(growth, weight, len(Y), rng)
        chosen = self._represent(rows, bins, growth.numbers, weight, rng=rng, held=held)
        self._solve_and_store(X, rows, Y, bins, weight, chosen, growth, held, rng)
        return self

    # What StreamMixin asks for: all rows are one group.
    _n_groups, _keeps_equations, _wants_unseen = 1, True, False

    def _as_targets(self, Y: np.ndarray) -> np.ndarray:
        return Y

    def _groups_of(self, Y: np.ndarray) -> np.ndarray:
        return np.zeros(len(Y), dtype=np.int64)

    def _judged(self, weight, Y):
        return weight

    def _targets_of(self, chosen, targets) -> np.ndarray:
        return targets

    def _representative_groups(self) -> np.ndarray:
        return np.zeros(self.representatives_.shape[0], dtype=np.int64)

    @property
    def _n_wanted(self) -> int:
        return self.n_representatives

    def _loss(self, Y, weight, values) -> float:
        unit = _spread(Y, weight)
        score = "neg_mean_squared_error"
        values = to_numpy(values) / unit
        return -regression_score(values, Y / unit, score, weight)[0]

    def _store_running(self, X, chosen, solution, some, weight) -> None:
        self._store_model(X, chosen, solution, to_numpy(self.hard_rows_))

    def _solve_and_store(
        self, X, rows, Y, bins, weight, chosen, growth, held, rng
    ) -> None:
        task = FitTask(
            Y,
            weight,
            growth,
            held,
            lambda values: self._score(values, Y, weight, held)[0],
            {
                "residual": _hardness(Y, weight, chosen),
                "random": random_hardness(rng),
            },
        )
        try:
            with products_in(self.precision):
                solution, hard_rows = self._least_squares(rows, chosen.points, task)
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, self.C_) from error
        chosen = self._with_hard_rows(chosen, rows, bins, weight, hard_rows)
        self._store_model(X, chosen, solution, hard_rows)

    def _tune(self, X, rows, Y, weight, rng) -> None:
        """Choose the kernel and C, where they were not given, for squared errors."""
        Y = Y / _spread(Y, weight)  # each output in its own unit
        self._choose_kernel(X, rows, Y, None, weight, left_out_shares(weight), rng)

    def _score(self, values, Y, weight, some):
        """Judge predictions of some of the rows, each output in its own unit."""
        judged = None if weight is None else weight[some]
        unit = _spread(Y, weight)
        return regression_score(
            values / unit, Y[some] / unit, "neg_mean_squared_error", judged
        )

    def _growth(self, rows, bins, weight, *, stream: bool) -> Growth:
        """Return how many representatives of each bin, and what is added to them."""
        sizes = np.bincount(bins if weight is None else bins[weight > 0])
        wanted, numbers = self.n_representatives, None
        if not isinstance(wanted, str):
            numbers = allocate(wanted, sizes, "proportional")
        growth = self._plan(numbers, sizes, "proportional", rows)
        return self._for_good(growth, rows) if stream else growth


def _hardness(Y: np.ndarray, weight: np.ndarray | None, chosen):
    """Return what orders rows by their residuals, each output in its own unit."""
    unit = beside(chosen.points, _spread(Y, weight))
    return lambda values, targets: residual_hardness(values / unit, targets / unit)


def _spread(Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the standard deviation of each output; 1 for a constant."""
    mean = np.average(Y, axis=0, weights=weight)
    spread = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
    return np.where(spread > 0, spread, 1.0)


def target_bins(Y: np.ndarray, weight: np.ndarray | None, n_bins: int) -> np.ndarray:
    """Return the bin of each row's target, (n,): equal weights in each, 0 is lowest.

    Several outputs are binned by the first principal component of their standardised
    values. Equal targets are in one bin, so that there may be fewer of them.
    """
    s = np.ones(len(Y)) if weight is None else weight
    centred = Y - np.average(Y, axis=0, weights=s)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=s))
    scaled = centred / np.where(spread > 0, spread, 1.0)
    _, directions = np.linalg.eigh(scaled.T @ (s[:, None] * scaled))
    first = directions[:, -1] * (1 if directions[0, -1] >= 0 else -1)
    order, groups = np.unique(scaled @ first, return_inverse=True)
    mass = np.bincount(groups, weights=s, minlength=len(order))
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    bins = np.minimum((n_bins * middle).astype(np.int64), n_bins - 1)
    return np.unique(bins, return_inverse=True)[1][groups]
