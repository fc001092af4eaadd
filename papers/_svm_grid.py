"""Cross-validated accuracy of a support vector machine over C and gamma.

The protocol of Czarnecki & Tabor, Sec. 5: ten folds, cells and covariances from all
rows without labels, the best mean accuracy on the grid.

All columns are scaled to [0, 1], as the text says. The grid of gamma is not printed;
eight widths from 1e-8 to 1e-1 fit Tables 4 and 5, and the best accuracy is that of
these. More widths may be computed for other readings of the tables.

Table 1 is not of these columns: its distances between the clusters' covariances and the
identity come out to three digits if the columns are in [-1, 1], as in LIBSVM's files,
and those of banknote and crashes as they are (``scaling="table-1"``).
"""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import minmax_scale

from kaucus import ClusterRBFSVC, LocalSVC
from kaucus.evaluation import grid_search_gamma_C
from kaucus.evaluation.clustering import timed
from kaucus.kernels import Gaussian, MahalanobisRBF
from papers import datasets

# The paper's names of models -> functions of rows, seed and parameters.
MODELS = {
    "rbf": lambda X, seed, **params: Gaussian(**params),
    "mrbf": lambda X, seed, **params: MahalanobisRBF(np.cov(X.T, ddof=0), **params),
    "cluster": lambda X, seed, **params: ClusterRBFSVC(random_state=seed, **params),
    "local": lambda X, seed, **params: LocalSVC(random_state=seed, **params),
}
SCALINGS = ("unit", "symmetric", "raw", "table-1")
# The largest gamma of the grid on which the tables are compared.
LARGEST_GAMMA = 0.1
UNSCALED = ("uci/banknote", "uci/climate_crashes")


class Measurement(NamedTuple):
    """The number of a cell that is not one fit and one prediction."""

    value: float
    n_rows: int
    seconds: float
    detail: dict[str, Any]
    """For derived tables and figures; plain numbers, lists and texts."""


def measure_grid(
    dataset: str, params: Mapping[str, Any], *, seed: int, data_home: Any = None
) -> Measurement:
    """Return the best accuracy with gamma up to 0.1, and in ``detail`` the whole grid.

    ``dataset`` is ``"uci/NAME"``. ``params`` has the ``model`` ("rbf", "mrbf",
    "cluster" or "local"), and may have ``n_clusters``, ``partition`` (also "gmm-diag",
    a mixture of diagonal covariances), ``covariance``, ``normalization``,
    ``max_iter``, ``n_folds``, ``scaling`` and ``log10_gammas``, the first and the last
    power of ten. The seed shuffles the folds and starts the partition.
    """
    params = dict(params)
    X, y = load_scaled(dataset, data_home, params.pop("scaling", "unit"))
    search, seconds = timed(_search, X, y, params, seed)
    detail = {
        "scores": np.round(search.mean_scores, 6).tolist(),
        "capped": search.capped.sum(axis=2).tolist(),
        "n_fits": search.n_fits,
        "Cs": search.Cs.tolist(),
        "gammas": search.gammas.tolist(),
        "best_params": search.best_params_,
    }
    found = search.mean_scores[:, up_to(search.gammas)]
    return Measurement(float(found.max()), len(X), seconds, detail)


def up_to(gammas: Any, largest: float | None = LARGEST_GAMMA) -> np.ndarray:
    """Return which values of gamma are at most the largest; None takes all."""
    gammas = np.asarray(gammas)
    return gammas <= (np.inf if largest is None else 1.01 * largest)


def load_scaled(
    dataset: str, data_home: Any, scaling: str = "unit"
) -> tuple[np.ndarray, np.ndarray]:
    """Load a UCI set with columns in [0, 1], in [-1, 1], raw, or as Table 1 tells."""
    if not dataset.startswith("uci/"):
        raise ValueError(f"dataset={dataset!r} must be 'uci/NAME'.")
    if scaling not in SCALINGS:
        raise ValueError(f"scaling={scaling!r} must be one of {SCALINGS}.")
    X, y = datasets.load_uci(dataset[4:], data_home=data_home, return_X_y=True)
    if scaling == "raw" or (scaling == "table-1" and dataset in UNSCALED):
        return X, y
    return minmax_scale(X, (0, 1) if scaling == "unit" else (-1, 1)), y


def _search(X: np.ndarray, y: np.ndarray, params: dict[str, Any], seed: int) -> Any:
    options = {key: params.pop(key) for key in ("max_iter",) if key in params}
    if "log10_gammas" in params:
        first, last = params.pop("log10_gammas")
        options["gammas"] = [10.0**k for k in range(first, last + 1)]
    folds = StratifiedKFold(params.pop("n_folds", 10), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # They are in the result: `capped`, and the cells of the partition.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", LinAlgWarning)
        model = make_model(X, params, seed)
        return grid_search_gamma_C(model, X, y, cv=folds, n_jobs=-1, **options)


def make_model(X: np.ndarray, params: dict[str, Any], seed: int) -> Any:
    """Return the kernel or classifier behind the paper's name of a model."""
    options = {key: value for key, value in params.items() if key != "model"}
    if options.get("partition") == "gmm-diag":
        options["partition"] = GaussianMixture(
            options["n_clusters"], covariance_type="diag", n_init=10, random_state=seed
        )
    model = params["model"]
    if model not in MODELS:
        raise ValueError(f"model={model!r} must be one of {list(MODELS)}.")
    return MODELS[model](X, seed, **options)
