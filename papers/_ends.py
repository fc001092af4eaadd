"""Accuracies at which single runs of (kernel) k-means end.

Maia & Ara print one accuracy for each kernel and data set, and do not say how many runs
they made nor which they took. A maximum over runs cannot tell whether a smaller number
is right; the ends of all runs can.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from kaucus import KernelKMeans
from kaucus.evaluation import clustering_accuracy
from kaucus.evaluation.clustering import timed
from papers._data import load_points
from papers._svm_grid import Measurement

ALGORITHM_1 = "k-means"


def measure_ends(
    dataset: str, params: Mapping[str, Any], *, seed: int, data_home: Any = None
) -> Measurement:
    """Return the accuracy of the run of least objective, and in ``detail`` all ends.

    With several draws the run is one of the first draw.

    ``dataset`` is ``"clustering/NAME"``. ``params`` has the ``kernel`` ("k-means" for
    the paper's Algorithm 1, or a name for :class:`~kaucus.KernelKMeans`) and its
    parameters, ``n_runs``, and may have ``draws``: that many draws of a generated set,
    each with ``n_runs`` runs. The seed starts the runs.
    """
    params = dict(params)
    n_runs, draws = params.pop("n_runs"), params.pop("draws", 1)
    name = dataset.removeprefix("clustering/")
    rng = np.random.RandomState(seed)

    def run(draw: int) -> list[tuple[float, float]]:
        X, y = load_points(name, data_home, seed=draw)
        runs = ends(X, len(np.unique(y)), params, n_runs, rng)
        return [(inertia, clustering_accuracy(y, labels)) for inertia, labels in runs]

    found, seconds = timed(lambda: [run(draw) for draw in range(draws)])
    accuracies = sorted({round(accuracy, 4) for runs in found for _, accuracy in runs})
    detail = {"ends": accuracies, "n_runs": draws * n_runs}
    return Measurement(min(found[0])[1], draws * n_runs, seconds, detail)


def ends(
    X: np.ndarray,
    n_clusters: int,
    params: Mapping[str, Any],
    n_runs: int,
    rng: np.random.RandomState,
) -> Iterator[tuple[float, np.ndarray]]:
    """Yield objective and clusters of each run, from random rows or random clusters."""
    if params["kernel"] == ALGORITHM_1:
        make, options = KMeans, {"algorithm": "lloyd", "tol": 0.0}
    else:
        make, options = KernelKMeans, dict(params)
    for _ in range(n_runs):
        start = {"init": "random", "n_init": 1, "random_state": rng}
        model = make(n_clusters, **options, **start).fit(X)
        yield float(model.inertia_), model.labels_


def measure_shape(
    dataset: str, params: Mapping[str, Any], *, seed: int, data_home: Any = None
) -> Measurement:
    """Return how many rows, clusters or columns a data set has, as ``what`` says.

    UCI's file of Seeds has a second tab behind numbers of at most three characters, so
    that readers of tab-separated files lose their lines: "rows of single tabs" are the
    others.
    """
    X, y = load_points(dataset.removeprefix("clustering/"), data_home)
    lengths = np.vectorize(lambda value: len(f"{value:g}"))(X)
    found = {
        "rows": len(X),
        "clusters": len(np.unique(y)),
        "columns": X.shape[1],
        "rows of single tabs": np.count_nonzero(lengths.min(axis=1) > 3),
    }
    return Measurement(float(found[params["what"]]), len(X), 0.0, {})
