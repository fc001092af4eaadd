"""The scikit-learn classes: validate, call the core, store."""

from kaucus.estimators.cells import ClusterRBFSVC, LocalSVC
from kaucus.estimators.clusters import KernelKMeans, SphericalKMeans
from kaucus.estimators.features import RepresentativeFeatures
from kaucus.estimators.kmeans_kernel import (
    KMeansKernelClassifier,
    KMeansKernelRegressor,
)
from kaucus.estimators.ls_svm import LSSVMClassifier, LSSVMRegressor
from kaucus.estimators.metric import LearnedMetric
from kaucus.estimators.outliers import KernelOutlierDetector
from kaucus.estimators.pictures import (
    PatchKernelClassifier,
    PatchKernelRegressor,
    PatchVotingClassifier,
)
from kaucus.estimators.tables import TableClassifier, TableRegressor

__all__ = [
    "ClusterRBFSVC",
    "KMeansKernelClassifier",
    "KMeansKernelRegressor",
    "KernelKMeans",
    "KernelOutlierDetector",
    "LSSVMClassifier",
    "LSSVMRegressor",
    "LearnedMetric",
    "LocalSVC",
    "PatchKernelClassifier",
    "PatchKernelRegressor",
    "PatchVotingClassifier",
    "RepresentativeFeatures",
    "SphericalKMeans",
    "TableClassifier",
    "TableRegressor",
]
