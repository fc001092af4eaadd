"""Kernel machines in which a few representatives speak for all the data."""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "ClusterRBFSVC",
    "KMeansKernelClassifier",
    "KMeansKernelRegressor",
    "KernelKMeans",
    "LSSVMClassifier",
    "LSSVMRegressor",
    "LearnedMetric",
    "LocalSVC",
    "PatchKernelClassifier",
    "PatchKernelRegressor",
    "PatchVotingClassifier",
    "SphericalKMeans",
    "TableClassifier",
    "TableRegressor",
    "report",
]

if TYPE_CHECKING:
    from kaucus.estimators.cells import ClusterRBFSVC, LocalSVC
    from kaucus.estimators.clusters import KernelKMeans, SphericalKMeans
    from kaucus.estimators.kmeans_kernel import (
        KMeansKernelClassifier,
        KMeansKernelRegressor,
    )
    from kaucus.estimators.ls_svm import LSSVMClassifier, LSSVMRegressor
    from kaucus.estimators.metric import LearnedMetric
    from kaucus.estimators.pictures import (
        PatchKernelClassifier,
        PatchKernelRegressor,
        PatchVotingClassifier,
    )
    from kaucus.estimators.tables import TableClassifier, TableRegressor
    from kaucus.export.report import report


def __getattr__(name: str):
    # scikit-learn and SciPy take a second to import; `kaucus --help` needs neither.
    if name in __all__:
        folder = "export.report" if name == "report" else "estimators"
        return getattr(importlib.import_module(f"kaucus.{folder}"), name)
    raise AttributeError(f"module 'kaucus' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
