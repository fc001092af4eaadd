"""Search over C and gamma of a support vector machine with distances computed once.

Of the kernel matrix only an exponential depends on gamma, and on C nothing. So the
distances of all rows are computed once; each gamma costs one exponential per entry;
each fold takes its slices; and for a fold the SVMs are fitted from the smallest C
on. A solution in which no coefficient has reached C is the solution for every larger C
as well, and is not computed again.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.svm import SVC
from sklearn.utils.validation import check_array, check_consistent_length

from kaucus.backend import one_blas_thread, warn_user
from kaucus.estimators import cell_kernels, sees_labels, step_counter
from kaucus.kernels import GammaPath, Kernel, gamma_path

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


class _Part(NamedTuple):
    """Rows that share an SVM: all of them, or those of one cell."""

    path: GammaPath
    rows: np.ndarray


class _Fold(NamedTuple):
    """One SVM's share of a fold, over all C: counts, (n_C,)."""

    correct: np.ndarray
    capped: np.ndarray
    n_fits: int


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
        Most steps of an SVM. Those that need more are counted in ``capped``, and a
        warning tells.
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
        return [_Part(gamma_path(model, X), np.arange(len(X)))]
    kernels = cell_kernels(model, X, labels, train)
    return [_Part(gamma_path(kernel, X[rows]), rows) for kernel, rows in kernels]


def _search(groups, labels, gammas, folds, options, n_jobs, verbose) -> GammaCSearch:
    shape = (len(options["Cs"]), len(gammas), len(folds))
    scores, capped = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    report = step_counter(verbose, len(gammas) * len(folds), "pair of gamma and fold")
    n_fits = [0]

    def run(g: int, f: int, parts: list[_Part], matrices: list[_Scaled]) -> None:
        train, test = folds[f]
        done = [
            _run_fold(K, part.rows, labels, train, test, **options)
            for K, part in zip(matrices, parts, strict=True)
        ]
        capped[:, g, f] = np.any([fold.capped for fold in done], axis=0)
        scores[:, g, f] = sum(fold.correct for fold in done) / len(test)
        n_fits[0] += sum(fold.n_fits for fold in done)
        report()

    def jobs(group: list[int], parts: list[_Part]) -> Iterator:
        for g, gamma in enumerate(gammas):
            matrices = [_unit_scale(part.path.matrix(gamma)) for part in parts]
            yield from (delayed(run)(g, f, parts, matrices) for f in group)

    with warnings.catch_warnings():  # around all threads: they share the filters
        warnings.simplefilter("ignore", ConvergenceWarning)
        for group in groups:
            threads = Parallel(n_jobs, prefer="threads", pre_dispatch="2*n_jobs")
            threads(jobs(*group))
    _warn_of_capped(capped, options["max_iter"])
    return GammaCSearch(options["Cs"], gammas, scores, capped, n_fits[0])


class _Scaled(NamedTuple):
    """A kernel matrix of moderate size, and the power of two it was divided by."""

    matrix: np.ndarray
    scale: float


def _unit_scale(K: np.ndarray) -> _Scaled:
    """Divide K by a power of two near its largest diagonal entry.

    (K, C) and (K/s, C s) are the same problem, bit for bit, but libsvm gives up where
    kernel values of 1e±160 make coefficients that are no numbers.
    """
    scale = float(2.0 ** np.round(np.log2(np.max(np.diagonal(K)))))
    K *= 1 / scale
    return _Scaled(K, scale)


def _run_fold(
    K: _Scaled, rows, labels, train, test, *, Cs, tol: float, max_iter: int
) -> _Fold:
    """Fit one SVM for each C to the training rows of a fold among ``rows``."""
    train_rows = np.flatnonzero(np.isin(rows, train))
    test_rows = np.flatnonzero(np.isin(rows, test))
    y_train, y_test = labels[rows[train_rows]], labels[rows[test_rows]]
    correct, capped = np.zeros(len(Cs)), np.zeros(len(Cs), dtype=bool)
    if len(test_rows) == 0:
        return _Fold(correct, capped, 0)
    if len(np.unique(y_train)) < 2:  # a cell of one class, or of none
        present = y_train if len(y_train) else labels[train]
        correct += np.sum(y_test == np.argmax(np.bincount(present)))
        return _Fold(correct, capped, 0)
    inside = np.ascontiguousarray(K.matrix[np.ix_(train_rows, train_rows)])
    across = K.matrix[np.ix_(test_rows, train_rows)]
    for i, C in enumerate(Cs * K.scale):
        model = SVC(
            C=C, kernel="precomputed", tol=tol, max_iter=max_iter, break_ties=True
        )
        model.fit(inside, y_train)
        correct[i:] = np.sum(model.predict(across) == y_test)
        capped[i:] = np.max(model.n_iter_) >= max_iter
        if np.max(np.abs(model.dual_coef_), initial=0.0) < C * (1 - 1e-9):
            break  # no coefficient at its bound: the solution for all larger C
    return _Fold(correct, capped, i + 1)


def _warn_of_capped(capped, max_iter: int) -> None:
    if capped.any():
        warn_user(
            f"{capped.sum()} of {capped.size} SVMs stopped at max_iter={max_iter} "
            "steps before they converged; capped tells which. Their C is too large "
            "for their gamma; increase max_iter if the best one is among them.",
            ConvergenceWarning,
        )


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
