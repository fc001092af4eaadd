"""Tunability of kernels, and a grid search of gamma and C."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.svm import SVC
from sklearn.utils.validation import check_array, check_consistent_length

from kaucus._array.blocks import one_blas_thread
from kaucus._array.namespace import warn_user
from kaucus._base import step_counter, stored
from kaucus.estimators.cells import cell_kernels, sees_labels
from kaucus.evaluation.displays import Display, new_axes
from kaucus.kernels._cells import GammaPath, gamma_path
from kaucus.kernels._kernel import Kernel

# ----------------------------------------------------------------------------------
# Tunability of a model: P_f(α), the share of a grid of parameters that scores α.
#
# For a model whose score f depends on parameters out of a grid G (Czarnecki & Tabor,
# Sec. 5),
#
#     P_f(α) = #{g ∈ G : f(g) ≥ α} / #G,
#
# the share of the grid that is at least as good as α. As a ROC curve shows a
# classifier over all thresholds, it shows a model over all demands; its area is one
# number for comparing models.
# ----------------------------------------------------------------------------------


class TunabilityCurve(NamedTuple):
    """P_f(α) at some α.

    Examples
    --------
    >>> curve = tunability_curve([0.5, 0.9, 0.9, 0.7])
    >>> curve.probabilities.tolist()
    [1.0, 0.75, 0.5]
    """

    alphas: np.ndarray
    """Scores that are asked for, ascending, (m,)."""
    probabilities: np.ndarray
    """Share of the grid that reaches them, (m,)."""


def tunability_curve(scores, alphas=None) -> TunabilityCurve:
    """Return the share of a grid whose score is at least α, for each α.

    Parameters
    ----------
    scores : array-like, fitted search or dict
        One score for each point of the grid, in any shape; or a fitted
        ``GridSearchCV``, its ``cv_results_``, or the result of
        :func:`grid_search_gamma_C`, of which the mean test scores are taken.
    alphas : array-like of shape (m,), default=None
        None takes the scores themselves, where the curve steps.

    Returns
    -------
    TunabilityCurve
        ``alphas`` and ``probabilities``.

    Examples
    --------
    >>> curve = tunability_curve([0.5, 0.9, 0.9, 0.7])
    >>> curve.alphas.tolist(), curve.probabilities.tolist()
    ([0.5, 0.7, 0.9], [1.0, 0.75, 0.5])
    """
    values = np.sort(grid_scores(scores))
    alphas = np.unique(values) if alphas is None else _numbers(alphas, "alphas")
    below = np.searchsorted(values, alphas, side="left")
    return TunabilityCurve(alphas, 1 - below / len(values))


def tunability_auc(scores, *, lower=None, upper=1.0) -> float:
    """Return the area under P_f(α) for α from ``lower`` to ``upper``, exactly.

    That is the mean over the grid of how far a score lies above ``lower``. To compare
    models give all of them the same ``lower``; the paper takes the worst score of any
    model, below which every curve is 1.

    Parameters
    ----------
    scores : array-like, fitted search or dict
        As in :func:`tunability_curve`.
    lower : float, default=None
        None is the worst of these scores.
    upper : float, default=1.0
        The best score there can be; 1 for an accuracy.

    Returns
    -------
    float
        Between 0 and ``upper - lower``.

    Examples
    --------
    >>> round(tunability_auc([0.5, 0.9, 0.9, 0.7], lower=0.5), 3)
    0.25
    """
    values = grid_scores(scores)
    lower = float(values.min()) if lower is None else float(lower)
    if not lower <= upper:
        raise ValueError(
            f"lower={lower:g} exceeds upper={upper:g}; pass the worst score of all "
            "models as lower, and the best possible score as upper."
        )
    return float(np.mean(np.clip(values, lower, upper)) - lower)


def grid_scores(scores: Any) -> np.ndarray:
    """Return the mean score of each point of a grid, (n,)."""
    results = getattr(scores, "cv_results_", scores)
    if isinstance(results, Mapping):
        if "mean_test_score" not in results:
            raise ValueError(
                "scores has no 'mean_test_score'; pass the cv_results_ of a search "
                f"with one metric, or an array of scores. It has {sorted(results)}."
            )
        results = results["mean_test_score"]
    return _numbers(results, "scores")


def _numbers(values: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={values!r} must be numbers.") from error
    if array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name} has {array.size} values, {np.isnan(array).sum()} of them NaN; "
            "expected finite numbers, at least one. Leave out what failed."
        )
    return array


class TunabilityDisplay(Display):
    """Curves of P_f(α), in the manner of scikit-learn's displays.

    Make one with :meth:`from_scores` or :meth:`from_cv_results`, or from a curve.

    Parameters
    ----------
    alphas : ndarray of shape (m,)
        Scores that are asked for.
    probabilities : ndarray of shape (m,)
        Share of the grid that reaches them.
    auc : float, default=None
        Area under the curve, for the legend.
    name : str, default=None
        Name of the model, for the legend.

    Attributes
    ----------
    line_ : matplotlib Artist
        The curve, after :meth:`plot`.
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    See Also
    --------
    tunability_curve : The numbers alone.

    Examples
    --------
    >>> display = TunabilityDisplay.from_scores([0.5, 0.9, 0.7], name="RBF", plot=False)
    >>> round(display.auc, 3)
    0.2
    """

    @stored
    def __init__(self, alphas, probabilities, *, auc=None, name=None): ...

    @classmethod
    def from_scores(
        cls, scores, *, lower=None, upper=1.0, name=None, ax=None, plot=True, **style
    ) -> Self:
        """Make the display of one grid of scores, and draw it.

        Parameters
        ----------
        scores : array-like, fitted search or dict
            As in :func:`tunability_curve`.
        lower, upper : float, default=None, 1.0
            As in :func:`tunability_auc`.
        name : str, default=None
            Name of the model.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        plot : bool, default=True
            Whether to draw at once.
        **style : dict
            Passed on to matplotlib's ``step``.

        Returns
        -------
        TunabilityDisplay
        """
        curve = tunability_curve(scores)
        auc = tunability_auc(scores, lower=lower, upper=upper)
        start = curve.alphas[0] if lower is None else lower
        # P is 1 up to the worst score and 0 beyond the best.
        alphas = np.r_[min(start, curve.alphas[0]), curve.alphas, upper]
        shares = np.r_[1.0, curve.probabilities, 0.0]
        display = cls(alphas, shares, auc=auc, name=name)
        return display.plot(ax=ax, **style) if plot else display

    @classmethod
    def from_cv_results(cls, search, **options) -> Self:
        """Make the display of a fitted search, and draw it.

        Parameters
        ----------
        search : GridSearchCV, RandomizedSearchCV or dict
            A fitted search, or its ``cv_results_``.
        **options : dict
            As in :meth:`from_scores`.

        Returns
        -------
        TunabilityDisplay
        """
        if not isinstance(getattr(search, "cv_results_", search), Mapping):
            raise ValueError(
                f"{type(search).__name__} has no cv_results_; fit the search first, or "
                "pass an array of scores to from_scores."
            )
        return cls.from_scores(search, **options)

    def plot(self, ax=None, *, name=None, **style) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        name : str, default=None
            Name in the legend; None takes the display's own.
        **style : dict
            Passed on to matplotlib's ``step``.

        Returns
        -------
        TunabilityDisplay
            Itself, with ``line_``, ``ax_`` and ``figure_``.
        """
        ax = new_axes(ax)
        area = None if self.auc is None else f"AUC {self.auc:.3f}"
        parts = [part for part in (self.name if name is None else name, area) if part]
        style = {"where": "pre", "label": ", ".join(parts) or None, **style}
        [self.line_] = ax.step(self.alphas, self.probabilities, **style)
        ax.set_ylim(0, 1.02)
        labels = {"xlabel": "score α", "ylabel": "share of the grid with at least α"}
        return self._finish(ax, **labels)


# ----------------------------------------------------------------------------------
# Search over C and gamma of a support vector machine with distances computed once.
#
# Of the kernel matrix only an exponential depends on gamma, and on C nothing. So the
# distances of all rows are computed once; each gamma costs one exponential per entry;
# each fold takes its slices; and for a fold the SVMs are fitted from the smallest C on.
# A solution in which no coefficient has reached C is the solution for every larger C as
# well, and is not computed again.
# ----------------------------------------------------------------------------------

C_GRID = tuple(10.0**k for k in range(-1, 6))
GAMMA_GRID = tuple(10.0**k for k in range(-5, 3))


@dataclass(frozen=True)
class GammaCSearch:
    """Results of :func:`grid_search_gamma_C`, named as in ``GridSearchCV``.

    Attributes
    ----------
    Cs, gammas : ndarray of shape (n_C,) and (n_gamma,)
        The grid, ascending.
    scores : ndarray of shape (n_C, n_gamma, n_folds)
        Accuracy on the rows left out.
    capped : ndarray of shape (n_C, n_gamma, n_folds)
        Whether an SVM stopped at ``max_iter`` steps before it converged.
    n_fits : int
        SVMs that were fitted; the others had the solution of a smaller C.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> search = grid_search_gamma_C(Gaussian(), X, y, Cs=[1, 10], gammas=[0.1, 1])
    >>> search.mean_scores.shape
    (2, 2)
    >>> search.best_params_
    {'C': 10.0, 'gamma': 0.1}
    """

    Cs: np.ndarray
    gammas: np.ndarray
    scores: np.ndarray
    capped: np.ndarray
    n_fits: int

    @property
    def mean_scores(self) -> np.ndarray:
        """Mean accuracy over the folds, (n_C, n_gamma)."""
        return self.scores.mean(axis=2)

    @property
    def best_index_(self) -> int:
        """Place of the best point in ``cv_results_``; the first of equals."""
        return int(np.nanargmax(self.mean_scores))

    @property
    def best_score_(self) -> float:
        """Mean accuracy of the best point."""
        return float(np.nanmax(self.mean_scores))

    @property
    def best_params_(self) -> dict[str, float]:
        """``C`` and ``gamma`` of the best point."""
        return self.cv_results_["params"][self.best_index_]

    @property
    def cv_results_(self) -> dict[str, Any]:
        """The results in the form of ``GridSearchCV``, C in the outer loop."""
        n_folds = self.scores.shape[2]
        by_point = self.scores.reshape(-1, n_folds)
        C, gamma = (g.ravel() for g in np.meshgrid(self.Cs, self.gammas, indexing="ij"))
        pairs = zip(C.tolist(), gamma.tolist(), strict=True)
        mean = by_point.mean(axis=1)
        return {
            "param_C": C,
            "param_gamma": gamma,
            "params": [{"C": c, "gamma": g} for c, g in pairs],
            **{f"split{i}_test_score": by_point[:, i] for i in range(n_folds)},
            "mean_test_score": mean,
            "std_test_score": by_point.std(axis=1),
            "rank_test_score": rankdata(-mean, method="min").astype(np.int32),
        }


# Rows that share an SVM: all of them, or those of one cell.
_Part = tuple[GammaPath, np.ndarray]


def grid_search_gamma_C(
    model,
    X,
    y,
    *,
    Cs=C_GRID,
    gammas=GAMMA_GRID,
    cv=10,
    tol=1e-3,
    max_iter=100_000,
    n_jobs=None,
    verbose=0,
) -> GammaCSearch:
    """Cross-validate a support vector classifier over all pairs of C and gamma.

    Parameters
    ----------
    model : kernel object, ClusterRBFSVC or LocalSVC
        A kernel with a gamma, such as ``Gaussian()`` or a ``ClusterRBF``; or a
        classifier, whose partition and covariances are found once, on all rows of
        ``X`` without their labels (the paper's transductive use). Cells that are made
        with labels (``partition="tree"``) are made anew in every fold, with those of
        its training rows. Its own C, gamma, tol and max_iter play no part.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    Cs : sequence of float, default=(0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0)
        Values of C.
    gammas : sequence of float, \
default=(1e-05, 0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
        Values of gamma.
    cv : int, splitter or iterable, default=10
        Folds, as in scikit-learn; a number means stratified ones.
    tol : float, default=1e-3
        Tolerance of the solver, as in ``SVC``.
    max_iter : int, default=100000
        Most steps of an SVM. Fits that need more are marked in ``capped``, with a
        warning.
    n_jobs : int, default=None
        Folds at a time, in threads.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Returns
    -------
    GammaCSearch
        Also after Ctrl-C, with what was finished.

    Notes
    -----
    Memory: two matrices of n² numbers, and (1 − 1/n_folds)² of one for each job; with a
    partition that sees labels, three for each job.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import ClusterRBFSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ClusterRBFSVC(random_state=0)
    >>> search = grid_search_gamma_C(model, X, y, Cs=[1, 10], gammas=[0.1, 1], cv=5)
    >>> sorted(search.best_params_), search.best_score_ > 0.9
    (['C', 'gamma'], True)
    """
    Cs, gammas = _grid("Cs", Cs), _grid("gammas", gammas)
    X = check_array(X, dtype=np.float64)
    y = np.asarray(y)
    check_consistent_length(X, y)
    folds = list(check_cv(cv, y, classifier=True).split(X, y))
    classes, labels = np.unique(y, return_inverse=True)
    _check_classes(classes, labels, folds)
    groups = _fold_groups(model, X, labels, folds)
    options = {"Cs": Cs, "tol": tol, "max_iter": max_iter}
    return _search(groups, labels, gammas, folds, options, n_jobs, verbose)


def _fold_groups(model, X, labels, folds) -> Iterator[tuple[list[int], list[_Part]]]:
    """Yield the numbers of folds that have the same cells, and their parts."""
    groups = [list(range(len(folds)))]
    if not isinstance(model, Kernel) and sees_labels(model):
        groups = [[f] for f in groups[0]]
    for group in groups:
        with one_blas_thread():
            parts = _parts(model, X, labels, folds[group[0]][0])
        yield group, parts


def _parts(model: Any, X: np.ndarray, labels, train: np.ndarray) -> list[_Part]:
    """Compute the distances of each SVM's rows, once."""
    if isinstance(model, Kernel):
        return [(gamma_path(model, X), np.arange(len(X)))]
    kernels = cell_kernels(model, X, labels, train)
    return [(gamma_path(kernel, X[rows]), rows) for kernel, rows in kernels]


def _search(groups, labels, gammas, folds, options, n_jobs, verbose) -> GammaCSearch:
    shape = (len(options["Cs"]), len(gammas), len(folds))
    scores, capped = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    report = step_counter(verbose, len(gammas) * len(folds), "pair of gamma and fold")
    n_fits = [0]

    def run(g: int, f: int, matrices: list) -> None:
        train, test = folds[f]
        done = [
            _run_fold(K, rows, labels, train, test, **options) for K, rows in matrices
        ]
        correct, stopped, fits = zip(*done, strict=True)
        capped[:, g, f] = np.any(stopped, axis=0)
        scores[:, g, f] = sum(correct) / len(test)
        n_fits[0] += sum(fits)
        report()

    def jobs(group: list[int], parts: list[_Part]) -> Iterator:
        for g, gamma in enumerate(gammas):
            matrices = [(path.matrix(gamma), rows) for path, rows in parts]
            yield from (delayed(run)(g, f, matrices) for f in group)

    with warnings.catch_warnings():  # around all threads: they share the filters
        warnings.simplefilter("ignore", ConvergenceWarning)
        for group in groups:
            threads = Parallel(n_jobs, prefer="threads", pre_dispatch="2*n_jobs")
            threads(jobs(*group))
    if capped.any():
        warn_user(
            f"{capped.sum()} of {capped.size} SVMs stopped at "
            f"max_iter={options['max_iter']} steps before they converged; capped marks "
            "them. Their C is too large for their gamma; increase max_iter if the "
            "best one is among them.",
            ConvergenceWarning,
        )
    return GammaCSearch(options["Cs"], gammas, scores, capped, n_fits[0])


def _run_fold(K, rows, labels, train, test, *, Cs, tol: float, max_iter: int):
    """Fit one SVM for each C to the training rows of a fold among ``rows``.

    Return rows that are right and whether a fit stopped early, (n_C,), and the fits.
    """
    train_rows = np.flatnonzero(np.isin(rows, train))
    test_rows = np.flatnonzero(np.isin(rows, test))
    y_train, y_test = labels[rows[train_rows]], labels[rows[test_rows]]
    correct, capped = np.zeros(len(Cs)), np.zeros(len(Cs), dtype=bool)
    if len(test_rows) == 0:
        return correct, capped, 0
    if len(np.unique(y_train)) < 2:  # a cell of one class, or of none
        present = y_train if len(y_train) else labels[train]
        correct += np.sum(y_test == np.argmax(np.bincount(present)))
        return correct, capped, 0
    # (K, C) and (K/s, C s) are the same problem, bit for bit where s is a power of two,
    # but libsvm gives up where kernel values of 1e±160 make coefficients that are NaN.
    scale = float(2.0 ** np.round(np.log2(np.max(np.diagonal(K)))))
    inside = np.ascontiguousarray(K[np.ix_(train_rows, train_rows)])
    across = K[np.ix_(test_rows, train_rows)]
    for part in (inside, across):
        part /= scale
    for i, C in enumerate(Cs * scale):
        model = SVC(
            C=C, kernel="precomputed", tol=tol, max_iter=max_iter, break_ties=True
        )
        model.fit(inside, y_train)
        correct[i:] = np.sum(model.predict(across) == y_test)
        capped[i:] = np.max(model.n_iter_) >= max_iter
        if np.max(np.abs(model.dual_coef_), initial=0.0) < C * (1 - 1e-9):
            break  # no coefficient at its bound: the solution for all larger C
    return correct, capped, i + 1


def _grid(name: str, values: Any) -> np.ndarray:
    """Return a grid, ascending and without repetitions."""
    try:
        grid = np.unique(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={values!r} must be positive numbers.") from error
    if grid.size == 0 or not (np.isfinite(grid) & (grid > 0)).all():
        raise ValueError(
            f"{name}={values!r} must be a non-empty sequence of positive, finite "
            "numbers."
        )
    return grid


def _check_classes(classes, labels, folds) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes.tolist()[0]!r}); a classifier needs at "
            "least two classes."
        )
    for i, (train, _) in enumerate(folds):
        if len(np.unique(labels[train])) < 2:
            raise ValueError(
                f"The training rows of fold {i} have one class only; use fewer or "
                "stratified folds."
            )
