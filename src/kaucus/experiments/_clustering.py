"""Data sets and methods of the clustering tables."""

from pathlib import Path
from typing import Any

import numpy as np

RANDOM_STATE = 0


def load_points(name: str, data_home: str | Path | None) -> tuple[np.ndarray, Any]:
    """Load a whole data set, for clustering.

    Parameters
    ----------
    name : str
        ``"smiley"``, ``"cassini"`` (generators, 500 points, seed 0),
        ``"rings-R1-R2"`` (399 points, noise 0.2, seed 0), ``"iris"``, ``"seeds"``,
        ``"glass"`` (UCI), or a name for :func:`kaucus.datasets.load_shapes`.
    data_home : path or None
        Folder with the data.

    Returns
    -------
    X, y
    """
    from kaucus import datasets

    if name == "smiley":
        return datasets.make_smiley(500, random_state=RANDOM_STATE)
    if name == "cassini":
        # From the generator, and not the file of the same name: it is there everywhere.
        return datasets.make_cassini(500, random_state=RANDOM_STATE)
    if name.startswith("rings-"):
        radii = [float(radius) for radius in name.split("-")[1:]]
        return datasets.make_rings(399, radii=radii, random_state=RANDOM_STATE)
    load = datasets.load_uci if name in UCI else datasets.load_shapes
    return load(name, data_home=data_home, return_X_y=True)


UCI = ("iris", "seeds", "glass")


class ClusterRuns:
    """Kernel k-means from many random starts, as a table of clusterings needs it.

    Parameters
    ----------
    choose : {"objective", "accuracy"}, default="objective"
        Which run: the one of the least objective, or the one that agrees best with the
        classes, as the published numbers must be: the latter is no method, since it
        needs the answer.
    n_runs : int, default=40
        Random starts.
    kernel : str, default="linear"
    gamma : float, default=1.0
    degree : int, default=2
    coef0 : float, default=0.0
    random_state : int, default=None
    """

    def __init__(
        self,
        choose="objective",
        n_runs=40,
        kernel="linear",
        gamma=1.0,
        degree=2,
        coef0=0.0,
        random_state=None,
    ):
        self.choose, self.n_runs = choose, n_runs
        self.kernel, self.gamma, self.degree = kernel, gamma, degree
        self.coef0, self.random_state = coef0, random_state

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the parameters."""
        return dict(vars(self))

    def set_params(self, **params: Any) -> "ClusterRuns":
        """Set parameters."""
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def fit(self, X, y) -> "ClusterRuns":
        """Cluster the rows; ``y`` counts with ``choose="accuracy"`` alone."""
        from kaucus.evaluation import clustering_accuracy
        from kaucus.kernels import resolve_kernel
        from kaucus.representatives import kernel_kmeans, make_gram

        kernel = resolve_kernel(
            self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0
        )
        runs = kernel_kmeans(
            make_gram(kernel, X),
            len(np.unique(y)),
            init="random",
            n_init=self.n_runs,
            rng=np.random.default_rng(self.random_state),
        )
        if any(run.interrupted for run in runs):  # no result
            raise KeyboardInterrupt
        if self.choose == "objective":
            best = min(runs, key=lambda run: run.inertia)
        else:
            best = max(runs, key=lambda run: clustering_accuracy(y, run.labels))
        self.labels_, self.n_iter_ = best.labels, best.n_iter
        return self

    def predict(self, X) -> np.ndarray:
        """Return the clusters of the rows that were fitted."""
        if len(X) != len(self.labels_):
            raise ValueError(
                f"X has {len(X)} rows; expected the {len(self.labels_)} rows of fit."
            )
        return self.labels_


class PickedKernel:
    """Clusters of the kernel that ``compare_kernels`` picks; labels are not used.

    Parameters
    ----------
    consensus : str, default=None
        As in :func:`kaucus.evaluation.compare_kernels`; its clusters are returned.
    random_state : int, default=None
    """

    def __init__(self, consensus=None, random_state=None):
        self.consensus, self.random_state = consensus, random_state

    get_params = ClusterRuns.get_params
    predict = ClusterRuns.predict

    def set_params(self, **params: Any) -> "PickedKernel":
        """Set parameters."""
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def fit(self, X, y) -> "PickedKernel":
        """Compare kernels; ``y`` says how many clusters there are, and no more."""
        from kaucus.evaluation import compare_kernels

        compared = compare_kernels(
            X,
            len(np.unique(y)),
            consensus=self.consensus,
            random_state=self.random_state,
        )
        chosen = compared.consensus or compared.best
        self.labels_, self.solver_ = chosen.labels, chosen.name
        return self
