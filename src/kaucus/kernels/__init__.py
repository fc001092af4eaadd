"""Two sets of rows in, their kernel matrix (or its product with V) out.

Nothing is fitted here. ``__all__`` is what users may rely on; the other names serve the
later layers of the package.
"""

from kaucus.kernels._base import Kernel
from kaucus.kernels._cluster_rbf import ClusterRBF
from kaucus.kernels._distances import inner_products, squared_norms
from kaucus.kernels._expansion import kernel_expansion
from kaucus.kernels._gamma_path import GammaPath, gamma_path, matrices_of
from kaucus.kernels._given import CallableKernel, Precomputed
from kaucus.kernels._mahalanobis import (
    MahalanobisRBF,
    Regularised,
    fill_constant_columns,
    regularisation_text,
    regularise_covariances,
)
from kaucus.kernels._mapped import MappedKernel, RowMap, metric_root
from kaucus.kernels._operator import KernelOperator
from kaucus.kernels._partition import NearestCenter, cell_numbers
from kaucus.kernels._patch_features import FilterGroup, KeptFeatures
from kaucus.kernels._patch_kernel import (
    KeepingPatchKernel,
    PatchKernel,
    add_gaussian,
    learn_distances,
)
from kaucus.kernels._products import Cosine, Linear, Polynomial, Sigmoid, unit_rows
from kaucus.kernels._radial import Cauchy, Exponential, Gaussian, Laplacian
from kaucus.kernels._resolve import (
    kernel_class,
    kernel_names,
    kernels_with_gamma,
    known_by_name,
    median_gamma,
    resolve_gamma,
    resolve_kernel,
)
from kaucus.kernels._tiles import kernel_diagonal

__all__ = [
    "CallableKernel",
    "Cauchy",
    "ClusterRBF",
    "Cosine",
    "Exponential",
    "GammaPath",
    "Gaussian",
    "Kernel",
    "KernelOperator",
    "Laplacian",
    "Linear",
    "MahalanobisRBF",
    "MappedKernel",
    "NearestCenter",
    "Polynomial",
    "Precomputed",
    "RowMap",
    "Sigmoid",
    "gamma_path",
    "kernel_names",
    "known_by_name",
    "median_gamma",
    "resolve_kernel",
]
