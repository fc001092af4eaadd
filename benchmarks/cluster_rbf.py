"""A whole grid of C and gamma for the C_k RBF kernel, against the direct way.

The direct way is scikit-learn's ``GridSearchCV`` over ``SVC`` with the kernel as a
callable. Two callables: the kernel as one writes it down with NumPy (Algorithm 1 of the
paper), and the kernel object of kaucus. Same cells, folds, grid and ``max_iter``.
"""

import warnings
from typing import Any

import numpy as np

from benchmarks._runner import Content, Settings, Step, Table
from kaucus.evaluation.clustering import format_seconds
from papers import timed
from papers._svm_grid import load_scaled

TITLE = "C and gamma of the C_k RBF kernel"
DATASETS = ("uci/heart_statlog", "uci/breast_cancer_scale", "uci/splice_scale")
QUICK_DATASETS = ("uci/heart_statlog",)
OURS = "kaucus grid_search_gamma_C"
PLAIN = "GridSearchCV, NumPy callable"
OBJECT = "GridSearchCV, kaucus kernel as callable"
CONTENDERS = (OURS, PLAIN, OBJECT)
MAX_ITER, N_FOLDS, N_JOBS = 50_000, 10, 2
HEADERS = ("data set", "rows × columns", "contender", "grid", "best accuracy", "×")
ABOUT = (
    "C2 RBF (k-means, two cells, normalization='unit'), 7 values of C (10^-1..5) × 8 "
    f"of gamma (10^-5..2), {N_FOLDS} folds, max_iter {MAX_ITER}, {N_JOBS} jobs, cells "
    "from all rows and known to all contenders. Columns in [-1, 1]. ×: time over that "
    "of kaucus."
)


class PlainClusterRBF:
    """The kernel as one writes it down: a matrix inverse for each pair of cells.

    Parameters
    ----------
    centers : ndarray of shape (k, d)
    covariances : ndarray of shape (k, d, d)
    gamma : float
    """

    def __init__(self, centers, covariances, gamma):
        self.centers = centers
        self.covariances = covariances
        self.gamma = gamma

    def __call__(self, X, Y):
        """Return the kernel matrix."""
        from scipy.spatial.distance import cdist

        x_cells, y_cells = (cdist(Z, self.centers).argmin(axis=1) for Z in (X, Y))
        own = [self._root_det(S + S) for S in self.covariances]
        K = np.empty((len(X), len(Y)))
        for i, A in enumerate(self.covariances):
            for j, B in enumerate(self.covariances):
                rows, columns = x_cells == i, y_cells == j
                inverse = np.linalg.inv(A + B)
                D = self._distances(X[rows], Y[columns], inverse)
                n = np.sqrt(own[i] * own[j]) / self._root_det(A + B)
                K[np.ix_(rows, columns)] = n * np.exp(-self.gamma * D)
        return K

    def _distances(self, X, Y, inverse):
        XS, YS = X @ inverse, Y @ inverse
        squares = (XS * X).sum(axis=1)[:, None] + (YS * Y).sum(axis=1)[None, :]
        return squares - 2 * XS @ Y.T

    def _root_det(self, S):
        return np.sqrt(np.linalg.det(S))


def steps(settings: Settings) -> list[Step]:
    """List every data set with every contender.

    In this process: joblib's own, which the direct way starts, have been seen to wait
    for ever inside a process of another pool.
    """
    home = settings.data_home
    return [
        Step(
            "grids",
            f"{dataset}, {name}",
            measure_grid,
            (name, dataset, home),
            isolated=False,
        )
        for dataset in _datasets(settings)
        for name in CONTENDERS
    ]


def prepare(settings: Settings) -> None:
    """Load every set: where one is missing, say so at once."""
    for dataset in _datasets(settings):
        load_scaled(dataset, settings.data_home)


def _datasets(settings: Settings) -> tuple[str, ...]:
    return QUICK_DATASETS if settings.quick else DATASETS


def measure_grid(name: str, dataset: str, data_home: Any) -> dict[str, Any]:
    """Search the grid once."""
    from sklearn.model_selection import StratifiedKFold

    from kaucus import ClusterRBFSVC
    from kaucus.estimators.cells import cell_kernels

    X, y = load_scaled(dataset, data_home)
    model, rows = ClusterRBFSVC(random_state=0), np.arange(len(X))
    [(kernel, _)] = cell_kernels(model, X, rows, rows)  # it sees no labels
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # machines that do not converge, of all of them
        search, seconds = timed(_search, name, kernel, X, y, folds)
    return {
        "dataset": dataset,
        "shape": list(X.shape),
        "contender": name,
        "seconds": seconds,
        "best_score": float(search.best_score_),
    }


def _search(name: str, kernel: Any, X, y, folds) -> Any:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    from kaucus.evaluation import C_GRID, GAMMA_GRID, grid_search_gamma_C

    if name == OURS:
        return grid_search_gamma_C(
            kernel, X, y, cv=folds, max_iter=MAX_ITER, n_jobs=N_JOBS
        )
    centers, covariances = kernel.partition.centers, kernel.covariances
    kernels = [
        PlainClusterRBF(centers, covariances, gamma)
        if name == PLAIN
        else kernel.with_gamma(gamma)
        for gamma in GAMMA_GRID
    ]
    grid = {"C": C_GRID, "kernel": kernels}
    svc = SVC(max_iter=MAX_ITER)
    return GridSearchCV(svc, grid, cv=folds, n_jobs=N_JOBS, refit=False).fit(X, y)


def tables(content: Content) -> list[Table]:
    """Return the tables of the records so far."""
    grids = content["grids"]
    ours = {r["dataset"]: r["seconds"] for r in grids if r["contender"] == OURS}
    rows = [
        [
            record["dataset"],
            "{:,} × {}".format(*record["shape"]),
            record["contender"],
            format_seconds(record["seconds"]),
            f"{record['best_score']:.3f}",
            f"{record['seconds'] / ours[record['dataset']]:.1f}",
        ]
        for record in grids
    ]
    return [Table("A grid of C and gamma", HEADERS, rows)]
