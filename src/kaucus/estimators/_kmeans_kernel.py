"""The k-means kernel classifier: a few representatives of each class, and an LS-SVM."""

import numbers
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    NotPositiveDefiniteError,
    as_like,
    concat_rows,
    epsilon,
    generator_from,
    is_sparse,
    take_rows,
)
from kaucus.estimators._base import indefinite_kernel
from kaucus.estimators._kernel_input import beside, on_device
from kaucus.estimators._kmeans_kernel_base import RepresentativesBase
from kaucus.estimators._kmeans_kernel_growth import Growth, choose_allocation
from kaucus.estimators._predictions import (
    PROBABILITIES,
    ClassifierPredictions,
    all_classes,
)
from kaucus.estimators._validation import (
    check_choice,
    check_count,
    check_known_labels,
    check_one_label_type,
    check_weights,
    left_out_shares,
    one_vs_rest_targets,
    weights_with_classes,
)
from kaucus.representatives import ALLOCATIONS, Representatives, allocate
from kaucus.solvers import (
    LSSVMSolution,
    classification_score,
    fit_ls_svm,
    margin_hardness,
    random_hardness,
)

FIT_ON = ("all", "representatives")
# Rows on whose decision values the temperature of the probabilities is fitted.
_TEMPERATURE_ROWS = 2000
# Representatives of each class, where a number is left open but all rows are too many.
_OPEN = 100


class _Fitted(NamedTuple):
    chosen: Representatives
    solution: LSSVMSolution
    hard_rows: np.ndarray
    unseen: tuple | None
    """Decision values of rows that the model has not seen, their labels, weights."""


class KMeansKernelClassifier(ClassifierPredictions, RepresentativesBase):
    """Kernel classifier in which a few representatives speak for each class.

    Each class is clustered by k-means; its centres z_q, ``n_representatives`` of them,
    become the kernel's columns:

        f_j(x) = Σ_q a_qj k(x, z_q) + b_j,

    fitted to targets ±1 by regularised least squares, either of all training rows or,
    as in the paper, of the representatives alone. The model has the size you choose,
    whatever the number of rows, and it is fitted in one pass over them.

    Parameters
    ----------
    n_representatives : "auto", int or dict, default="auto"
        Representatives of each class, or ``{class: number}``. A class with fewer rows
        gives all of them. ``"auto"``: as many as ``target`` says; 100 of each class
        with ``fit_on="representatives"`` and in ``partial_fit``.
    target : {"fastest", "balanced", "best"}, default="balanced"
        With ``n_representatives="auto"``: at most 1,000, 4,000 or 12,000
        representatives in all, less where memory is short. Where there are no more rows
        than that, all of them; else an eighth, doubled with rows chosen as ``refine``
        says (None is ``"auto"``) while that lessens the log-loss of rows held out by
        more than 20, 5 or 0 %.
    allocation : {"auto", "equal", "proportional", "sqrt"}, default="auto"
        How representatives are shared out among the classes: as many of each, as in the
        paper, or in proportion to the classes' rows or to the root of these. The total
        is the same. ``"auto"`` decides by leave-one-out on 3,000 rows; it is
        ``"equal"`` where no class has more than twice the rows of another.
    metric : {"euclidean", "cosine"}, default="euclidean"
        k-means by distance, or by angle (spherical k-means, the paper's). By angle, a
        representative has the direction of its centre and the mean norm of its rows.
    fit_on : {"all", "representatives"}, default="all"
        ``"all"``: least squares of every training row on the representatives' kernel
        columns; more accurate. ``"representatives"``: the LS-SVM of the representatives
        alone, as in the paper; faster.
    refine : {None, "residual", "random", "auto"}, default=None
        ``"residual"``: training rows that the fit so far finds hardest, those of the
        smallest margin, become representatives too. Better where classes hardly
        overlap, worse where they do. ``"random"``: any rows. ``"auto"``: the better of
        both in the first round, by rows held out, a tenth but at most 5,000, which join
        the others in the end.
    n_refine : int, default=None
        How many hard rows are added in all; None: twice as many as there are
        representatives. Rows that repeat a representative are passed over.
    refine_rounds : int, default=2
        In how many rounds they are added, with a fit after each.
    C : "auto" or float, default="auto"
        Inverse strength of the regularisation, as in :class:`LSSVMClassifier`; the
        papers' γ or 1/ε. ``"auto"``: of 0.01 ... 10,000 the one with the least squared
        leave-one-out error, on at most 3,000 of the rows.
    kernel : str, kernel object or callable, default="auto"
        ``"auto"``: ``"rbf"`` or ``"exponential"``, chosen as C and gamma are.
        ``"linear"``, ``"poly"``, ``"rbf"``, ``"exponential"``, ``"cauchy"``,
        ``"sigmoid"``, ``"cosine"``, ``"laplacian"``, an object from
        :mod:`kaucus.kernels`, or a function ``k(X, Y)`` that returns the matrix.
    gamma : {"tune", "scale", "auto", "median"} or float, default="tune"
        Width of the kernel; ``"scale"`` is 1 / (n_features X.var()), ``"auto"`` is
        1 / n_features, as in scikit-learn; ``"tune"`` chooses, as C, among 1/16 ... 16
        times ``"scale"`` (1/4 ... 4 times its root for ``"exponential"`` and
        ``"laplacian"``, which are functions of the distance, not of its square).
    degree : int, default=3
        Degree of ``"poly"``.
    coef0 : float, default=0.0
        Constant of ``"poly"`` and ``"sigmoid"``.
    class_weight : dict or "balanced", default=None
        Weights of the classes in the least squares.
    probability : {"softmax", "sum_exp", False}, default="softmax"
        As in :class:`LSSVMClassifier`.
    init : {"random", "k-means++"}, default="random"
        Where k-means begins.
    n_init : int, default=1
        Starts of k-means, of which the best is kept.
    max_iter : int, default=100
        Most steps of k-means.
    tol : float, default=1e-4
        k-means stops when the centres move by no more: the alignment deviation δ with
        ``"cosine"``, the mean squared move over the variance with ``"euclidean"``.
    device : str, default=None
        None computes where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes there and
        gives NumPy arrays back. Needs torch.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free. The
        kernel matrix of all rows is never held; blocks of it are.
    random_state : int, RandomState or Generator, default=None
        Draws where k-means begins, and rows for the temperature of the probabilities.
    verbose : int, default=0
        1 shows progress on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    representatives_ : ndarray of shape (n_representatives_total, n_features)
        The representatives, class by class, and after them the hard rows.
    representative_labels_ : ndarray of shape (n_representatives_total,)
        Their classes.
    representative_weights_ : ndarray of shape (n_representatives_total,)
        How many rows each stands for, with their weights.
    allocation_ : str
        How representatives were shared out among the classes.
    refine_ : str or None
        How rows were chosen that became representatives; None: there are none.
    hard_rows_ : ndarray of shape (n_hard_rows,)
        Numbers of the training rows that ``refine`` made representatives; they are the
        last of them.
    dual_coef_ : ndarray of shape (n_representatives_total, n_targets)
        A; n_targets is 1 for two classes, else n_classes.
    intercept_ : ndarray of shape (n_targets,)
        b.
    kernel_ : kernel object
        The kernel, with its parameters as numbers.
    C_ : float
        The C that was used.
    temperature_ : float
        By which decision values are divided before the softmax.
    n_iter_ : int
        Most steps of k-means that a class needed.
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
    LSSVMClassifier : The same with every training row as representative.
    PatchVotingClassifier : For pictures: a vote of patches.

    Notes
    -----
    For n rows, m representatives, d features and s steps of k-means on K classes of
    equal size: s n m d / K multiplications for the clustering, n m d + n m²/2 for the
    least squares of all rows, m² d + m³/6 for those of the representatives; m d
    for the prediction of a row.

    The papers' classifier of digits is ``make_pipeline(UnitNormalizer(),
    KMeansKernelClassifier(1000, metric="cosine", fit_on="representatives",
    kernel="poly", degree=4, gamma=1, C=1e6))``.

    References
    ----------
    M. Andrecut, "K-means kernel classifier" (2020).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kaucus import KMeansKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KMeansKernelClassifier(30, random_state=0).fit(X[:1000], y[:1000])
    >>> model.representatives_.shape
    (300, 64)
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.97
    """

    _what_is_clustered, _takes_matrices = "class", "LSSVMClassifier"

    def __init__(
        self,
        n_representatives="auto",
        *,
        target="balanced",
        allocation="auto",
        metric="euclidean",
        fit_on="all",
        refine=None,
        n_refine=None,
        refine_rounds=2,
        C="auto",
        kernel="auto",
        gamma="tune",
        degree=3,
        coef0=0.0,
        class_weight=None,
        probability="softmax",
        init="random",
        n_init=1,
        max_iter=100,
        tol=1e-4,
        device=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.n_representatives = n_representatives
        self.target = target
        self.allocation = allocation
        self.metric = metric
        self.fit_on = fit_on
        self.refine = refine
        self.n_refine = n_refine
        self.refine_rounds = refine_rounds
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.probability = probability
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Choose representatives, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for k-means and for the least squares.

        Returns
        -------
        self : KMeansKernelClassifier
        """
        self._check_parameters()
        X, indices = self._validate_labels(X, y)
        weight = check_weights(sample_weight, X)
        # Before any long work: are there two classes with weight?
        weights_with_classes(weight, self.class_weight, self.classes_, indices)
        return self._learn(X, indices, weight, None, refine=True)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Take in more rows.

        The new rows are clustered together with the representatives so far, which count
        as the rows they stand for: these move, and a class that has fewer than its
        number gets more. Then the coefficients are solved for once; with
        ``fit_on="all"`` on the new rows and, for the earlier ones, the representatives.
        Nothing is refined here, but hard rows of an earlier ``fit`` stay.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            More rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed at the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : KMeansKernelClassifier
        """
        self._check_parameters()
        first = not hasattr(self, "representatives_")
        check_one_label_type(y)
        X, y = self._validate(X, y, reset=first)
        self.classes_, indices = check_known_labels(
            y, classes, None if first else self.classes_
        )
        weight = check_weights(sample_weight, X)
        old = None if first else self._so_far(X)
        return self._learn(X, indices, weight, old, refine=False)

    def _learn(self, X, indices, weight, old: Representatives | None, *, refine: bool):
        rng = generator_from(self.random_state)
        rows = on_device(X, self.device)
        if old is None:
            self._tune(X, rows, indices, weight, rng)
        growth = self._growth(rows, indices, weight, old, rng, stream=not refine)
        held = self._hold_out(growth, weight, len(indices), rng)
        chosen = self._represent(
            rows, indices, growth.numbers, weight, rng=rng, old=old, held=held
        )
        if old is not None:
            rows = concat_rows(beside(rows, old.points), rows)
            indices = np.concatenate([old.labels, indices])
            new = np.ones(len(indices) - len(old.labels)) if weight is None else weight
            weight = np.concatenate([old.weights, new])
        self._solve_and_store(rows, indices, weight, chosen, growth, held, rng)
        return self

    def _growth(self, rows, labels, weight, old, rng, *, stream: bool) -> Growth:
        """Return how many representatives of each class, and what is added to them."""
        if old is not None:  # hard rows among them stay, as centres that may move
            so_far = np.bincount(old.labels, minlength=len(self.classes_))
            return Growth(np.maximum(so_far, self._first_numbers).tolist(), [])
        present = labels if weight is None else labels[weight > 0]
        sizes = np.bincount(present, minlength=len(self.classes_))
        self.allocation_ = self.allocation
        if self.allocation == "auto":
            self.allocation_ = self._choose_allocation(rows, labels, weight, rng)
        numbers = self._numbers(sizes)
        if numbers is None and (stream or self.fit_on != "all"):
            numbers = [_OPEN] * len(self.classes_)
        growth = self._plan(numbers, sizes, self.allocation_, rows)
        self._first_numbers = growth.numbers
        return Growth(growth.numbers, []) if stream else growth

    def _choose_allocation(self, rows, labels, weight, rng) -> str:
        if isinstance(self.n_representatives, dict):
            return "equal"  # not used
        judged = self._with_class_weights(weight, labels)
        return choose_allocation(
            self.kernel_,
            self.C_,
            rows,
            one_vs_rest_targets(labels, len(self.classes_)),
            labels,
            lambda values, some: self._score(values, labels, judged, some),
            weight=judged,
            rng=rng,
        )

    def _score(self, values, labels, judged, some, scoring="neg_mean_squared_error"):
        """Judge decision values of some of the rows."""
        weight = None if judged is None else judged[some]
        return classification_score(all_classes(values), labels[some], scoring, weight)

    def _tune(self, X, rows, labels, weight, rng) -> None:
        """Choose the kernel and C, where they were not given, for squared errors.

        Accuracy is too coarse for a thousand rows: chosen by it, models of four UCI
        sets were right on 83.3 % of the test rows, by the squared error on 85.7 %.
        """
        judged = self._with_class_weights(weight, labels)

        def score(values, some):
            return self._score(values, labels, judged, some)

        Y = one_vs_rest_targets(labels, len(self.classes_))
        shares = left_out_shares(weight)
        self._choose_kernel(X, rows, Y, score, judged, shares, rng)

    def _solve_and_store(self, rows, labels, weight, chosen, growth, held, rng) -> None:
        try:
            if self.fit_on == "all":
                fitted = self._solve_all(
                    rows, labels, weight, chosen, growth, held, rng
                )
            else:
                fitted = self._solve_representatives(labels, chosen, rng)
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, self.C_) from error
        self._store_model(*fitted[:3])
        if self.probability == "softmax":
            unseen = fitted.unseen or self._nearly_unseen(rows, labels, weight, rng)
            self._calibrate(*unseen)

    def _solve_all(self, rows, labels, weight, chosen, growth, held, rng) -> "_Fitted":
        """Least squares of all rows; their leave-one-out values for the temperature."""
        softmax = self.probability == "softmax"
        order = rng.permutation(np.setdiff1d(np.arange(len(labels)), held))
        loo_rows = order[: _TEMPERATURE_ROWS if softmax else 0]
        judged = self._with_class_weights(weight, labels)
        solution, hard_rows = self._least_squares(
            rows,
            one_vs_rest_targets(labels, len(self.classes_)),
            chosen,
            judged,
            left_out_shares(weight),
            loo_rows,
            growth,
            held,
            lambda values: self._score(values, labels, judged, held, "neg_log_loss")[0],
            {"residual": margin_hardness, "random": random_hardness(rng)},
        )
        chosen = self._with_hard_rows(chosen, rows, labels, weight, hard_rows)
        loo_weight = None if judged is None else judged[loo_rows]
        unseen = (solution.loo_decision, labels[loo_rows], loo_weight)
        return _Fitted(chosen, solution, hard_rows, unseen)

    def _solve_representatives(self, labels, chosen, rng) -> "_Fitted":
        """LS-SVM of the representatives; leave-one-out where they are most rows."""
        points = chosen.points
        speak_for_others = len(labels) >= 2 * points.shape[0]
        weight = self._with_class_weights(None, chosen.labels)
        fitted = fit_ls_svm(
            self.kernel_,
            points,
            beside(points, one_vs_rest_targets(chosen.labels, len(self.classes_))),
            C=self.C_,
            sample_weight=beside(points, weight),
            memory_budget=self.memory_budget,
            leave_one_out=self.probability == "softmax" and not speak_for_others,
            # A tenth of what the rounding of the rows themselves comes to.
            refine_tol=epsilon(points) / 10,
            rng=rng,
        )
        solution, seen = fitted.solution, fitted.loo_rows
        self._report(solution.info, self.C_)
        unseen, none = None, np.empty(0, dtype=np.int64)
        if not speak_for_others:
            loo_weight = None if weight is None else weight[seen]
            unseen = (solution.loo_decision, chosen.labels[seen], loo_weight)
        return _Fitted(chosen, solution, none, unseen)

    def _nearly_unseen(self, rows, labels, weight, rng):
        """Return decision values of some rows that only representatives spoke for.

        Those of the representatives left out one by one are much too careful: a centre
        is far from the others. On MNIST with 100 representatives a class the log-loss
        of 10,000 test digits was 0.21 by them, 0.113 by 2,000 training rows; the least
        possible was 0.110.
        """
        some = rng.permutation(len(labels))[:_TEMPERATURE_ROWS]
        part = rows[some] if is_sparse(rows) else take_rows(rows, as_like(some, rows))
        values = self._values_on_device(part)
        return values, labels[some], None if weight is None else weight[some]

    def _with_class_weights(self, weight, labels):
        return weights_with_classes(
            weight, self.class_weight, self.classes_, labels, at_least=1
        )

    def _store_model(self, chosen, solution, hard_rows) -> None:
        super()._store_model(chosen, solution, hard_rows)
        self.representative_labels_ = self.classes_[chosen.labels]

    def _so_far(self, X) -> Representatives:
        """Return what earlier rows have left behind."""
        return Representatives(
            self.representatives_.astype(X.dtype, copy=False),
            np.searchsorted(self.classes_, self.representative_labels_),
            self.representative_weights_,
            n_iter=self.n_iter_,
            n_reseeded=0,
            converged=True,
            interrupted=False,
        )

    def _numbers(self, sizes) -> list[int] | None:
        """Return the number of representatives of each class; None leaves it open."""
        wanted = self.n_representatives
        if isinstance(wanted, str):
            return None
        if not isinstance(wanted, dict):
            if self.allocation_ == "equal":
                return [int(wanted)] * len(self.classes_)
            return allocate(wanted * len(self.classes_), sizes, self.allocation_)
        classes = self.classes_.tolist()
        if set(wanted) != set(classes):
            raise ValueError(
                f"n_representatives has the keys {sorted(wanted, key=str)}; expected "
                f"one for each class of y, {classes}."
            )
        return [check_count(f"n_representatives[{c!r}]", wanted[c]) for c in classes]

    def _check_parameters(self) -> None:
        """Check everything that can be wrong before the data is looked at."""
        super()._check_parameters()
        check_choice("fit_on", self.fit_on, FIT_ON)
        if self.refine is not None and self.fit_on != "all":
            raise ValueError(
                f"refine={self.refine!r} adds the rows that a fit of all rows finds "
                f"hard; fit_on={self.fit_on!r} is no such fit. Use fit_on='all'."
            )
        check_choice("probability", self.probability, PROBABILITIES)
        check_choice("allocation", self.allocation, (*ALLOCATIONS, "auto"))
        is_open = isinstance(self.n_representatives, str)
        if is_open:
            check_choice("n_representatives", self.n_representatives, ("auto",))
        elif not isinstance(self.n_representatives, dict | numbers.Integral):
            raise ValueError(
                f"n_representatives={self.n_representatives!r} must be 'auto', a whole "
                "number for every class, or a dict {class: number}."
            )
        if isinstance(self.n_representatives, numbers.Integral):
            check_count("n_representatives", self.n_representatives)
