"""The scikit-learn classes: validate, call the core, store."""

from kaucus.estimators._cell_svcs import (
    ClusterRBFSVC,
    LocalSVC,
    cell_kernels,
    sees_labels,
)
from kaucus.estimators._kernel_kmeans import KernelKMeans
from kaucus.estimators._kmeans_kernel_classifier import KMeansKernelClassifier
from kaucus.estimators._kmeans_kernel_regressor import KMeansKernelRegressor
from kaucus.estimators._learned_metric import LearnedMetric
from kaucus.estimators._ls_svm_classifier import LSSVMClassifier
from kaucus.estimators._ls_svm_cv import LSSVMClassifierCV, LSSVMRegressorCV
from kaucus.estimators._ls_svm_regressor import LSSVMRegressor
from kaucus.estimators._patch_kernel import (
    PatchKernelClassifier,
    PatchKernelRegressor,
)
from kaucus.estimators._patch_voting import PatchVotingClassifier
from kaucus.estimators._progress import StepProgress, step_counter
from kaucus.estimators._spherical_kmeans import SphericalKMeans
