"""Two sets of rows in, their kernel matrix (or its product with V) out.

Nothing is fitted here. ``__all__`` is what users may rely on; the other names serve the
later layers of the package.
"""

from kaucus.kernels._cells import (
    ClusterRBF,
    GammaPath,
    MahalanobisRBF,
    NearestCenter,
    gamma_path,
)
from kaucus.kernels._kernel import (
    CallableKernel,
    Cauchy,
    Cosine,
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    Sigmoid,
    kernel_names,
    known_by_name,
    median_gamma,
    resolve_kernel,
)
from kaucus.kernels._matrix import KernelOperator
from kaucus.kernels._metric import MappedKernel, RowMap

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
    "Matern32",
    "Matern52",
    "NearestCenter",
    "Polynomial",
    "Precomputed",
    "RationalQuadratic",
    "RowMap",
    "Sigmoid",
    "gamma_path",
    "kernel_names",
    "known_by_name",
    "median_gamma",
    "resolve_kernel",
]
