"""The papers' methods as scikit-learn estimators, with the papers' settings.

Of a table's cell only what it varies need then be written in the TOML file.
"""

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from kaucus import (
    KMeansKernelClassifier,
    LSSVMClassifier,
    PatchKernelClassifier,
    PatchVotingClassifier,
)
from kaucus.clustering._kernel_kmeans import kernel_kmeans, make_gram
from kaucus.evaluation import clustering_accuracy, compare_kernels, default_kernels
from kaucus.kernels import resolve_kernel
from kaucus.preprocessing import FourierFeatures, UnitNormalizer

SIDES = (28, 28)


# ---- digits: Andrecut (2020) ---------------------------------------------------------


def pixel_classifier(n_representatives: int, **options: Any) -> Any:
    """Return the classifier of pixels of unit norm (eq. 21-22)."""
    return make_pipeline(
        UnitNormalizer(), digit_classifier(n_representatives, **options)
    )


def fourier_classifier(
    n_representatives: int, fft: str = "2d", power: float = 1.0, **options: Any
) -> Any:
    """Return the classifier of pixels and half of their spectrum (eq. 15-20).

    The default, the 2-D transform without a square root, is ours and the best that we
    found (exact LS-SVM: 0.97 %). Printed is the square root, ``power=0.5``, of a
    transform that may be ``"1d"`` (1.07 %) or ``"2d"`` (1.06 %). The author's program
    (github.com/mandrecut/kmeans_kernel_classifier) takes the transform of the flattened
    picture, ``"1d"``, and no square root.
    """
    features = FourierFeatures(SIDES, fft=fft, power=power)
    return make_pipeline(features, digit_classifier(n_representatives, **options))


def patch_classifier(
    n_representatives: int,
    patch_size: int = 25,
    sides: tuple[int, int] = SIDES,
    voting: str = "majority",
    **options: Any,
) -> Any:
    """Return the vote of all patches (Sec. 4); the author's program sums."""
    return PatchVotingClassifier(
        pixel_classifier(n_representatives, **options),
        patch_size=patch_size,
        image_shape=sides,
        voting=voting,
    )


def digit_classifier(
    n_representatives: int,
    fit_on: str = "representatives",
    C: float = 1e6,
    tol: float | None = None,
) -> KMeansKernelClassifier:
    """Return the classifier alone, for features of unit norm.

    ⟨x, x'⟩⁴, ε = 10⁻⁶, k-means by angle from random rows. ``tol`` is the paper's τ,
    10⁻⁶ in the author's program; None takes that of the estimator, 10⁻⁴.
    """
    return KMeansKernelClassifier(
        n_representatives,
        clustering="spherical",
        fit_on=fit_on,
        kernel="poly",
        degree=4,
        gamma=1.0,
        coef0=0.0,
        C=C,
        probability=False,
        kmeans_params=None if tol is None else {"tol": tol, "max_iter": 1000},
    )


def picture_classifier(**options: Any) -> PatchKernelClassifier:
    """Return the classifier of pictures by a kernel of patches; lists are tuples."""
    return PatchKernelClassifier(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    )


# ---- solvers: Andrecut (2016) --------------------------------------------------------


class PrintedHybrid(LSSVMClassifier):
    """Kaczmarz-MP as the paper prints it: without safe step lengths, so it diverges."""

    def _block_options(self, X, Y, validation) -> dict:
        return {**super()._block_options(X, Y, validation), "safeguard": False}


# ---- clustering ----------------------------------------------------------------------


class _FittedRows(BaseEstimator):
    """Base of clusterings that predict the rows of ``fit`` alone."""

    labels_: np.ndarray

    def predict(self, X) -> np.ndarray:
        """Return the clusters of the rows that were fitted."""
        if len(X) != len(self.labels_):
            raise ValueError(
                f"X has {len(X)} rows; expected the {len(self.labels_)} rows of fit."
            )
        return self.labels_


class ClusterRuns(_FittedRows):
    """Kernel k-means from many random starts, of which one is chosen.

    Parameters
    ----------
    choose : {"objective", "accuracy"}, default="objective"
        Which run: the one of the least objective, or the one that agrees best with the
        classes, as the published numbers must be: the latter is no method, since it
        needs the answer.
    n_runs : int, default=40
        Random starts.
    kernel, gamma, degree, coef0
        As in :class:`~kaucus.KernelKMeans`.
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
        self.choose = choose
        self.n_runs = n_runs
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def fit(self, X, y) -> "ClusterRuns":
        """Cluster the rows; ``y`` is used with ``choose="accuracy"`` alone."""
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
        if self.choose == "objective":
            best = min(runs, key=lambda run: run.inertia)
        else:
            best = max(runs, key=lambda run: clustering_accuracy(y, run.labels))
        self.labels_, self.n_iter_ = best.labels, best.n_iter
        return self


class PickedKernel(_FittedRows):
    """Clusters of the kernel that ``compare_kernels`` picks; labels are not used.

    Beside the default kernels it may pick exp(−w m / median) of the minimax path
    distance m (Fischer, Roth and Buhmann, "Clustering with the connectivity kernel",
    2003).

    Parameters
    ----------
    consensus : str, default=None
        As in :func:`kaucus.evaluation.compare_kernels`; its clusters are returned.
    random_state : int, default=None
    """

    def __init__(self, consensus=None, random_state=None):
        self.consensus = consensus
        self.random_state = random_state

    def fit(self, X, y) -> "PickedKernel":
        """Compare kernels; ``y`` says how many clusters there are, and no more."""
        steps = cophenet(linkage(X, "single"))  # longest step of the best path
        path = squareform(steps) / np.median(steps[steps > 0])
        kernels = default_kernels(X)
        kernels |= {f"path ×{width}": np.exp(-width * path) for width in (1, 4)}
        compared = compare_kernels(
            X,
            len(np.unique(y)),
            kernels,
            consensus=self.consensus,
            random_state=self.random_state,
        )
        chosen = compared.consensus or compared.best
        self.labels_, self.solver_ = chosen.labels, chosen.name
        return self
