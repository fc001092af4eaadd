"""Gradients of kernel expansions equal finite differences, on every library."""

import numpy as np
import pytest

from kaucus._array.namespace import to_numpy
from kaucus.kernels import (
    Cauchy,
    Cosine,
    Exponential,
    Gaussian,
    Laplacian,
    Linear,
    MahalanobisRBF,
    Matern32,
    Matern52,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
)
from tests.arrays import array, assert_close

KERNELS = [
    Gaussian(gamma=0.3),
    Exponential(gamma=0.7),
    Cauchy(gamma=0.5),
    Matern32(gamma=0.6),
    Matern52(gamma=0.6),
    RationalQuadratic(gamma=0.4, alpha=1.5),
    Laplacian(gamma=0.4),
    Linear(),
    Polynomial(degree=1, gamma=0.5),
    Polynomial(degree=4, gamma=0.5, coef0=1.0),
    Sigmoid(gamma=0.2, coef0=0.1),
]
TOLERANCE = {"float64": 1e-6, "float32": 2e-3}


def by_differences(kernel, X, Z, coef, step=1e-5):
    """Return the gradients, (t, n, d), by central differences of f."""
    n, d = X.shape
    found = np.empty((coef.shape[1], n, d))
    for c in range(d):
        moved = np.zeros(d)
        moved[c] = step
        above, below = kernel(X + moved, Z) @ coef, kernel(X - moved, Z) @ coef
        found[:, :, c] = ((above - below) / (2 * step)).T
    return found


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_gradients_equal_finite_differences(xp, dtype, rng, kernel):
    X, Z = rng.normal(size=(9, 4)), rng.normal(size=(7, 4))
    coef = rng.normal(size=(7, 2))
    expected = by_differences(kernel, X, Z, coef)
    given = [array(xp, v.astype(dtype)) for v in (X, Z, coef)]
    found = np.stack([to_numpy(G) for G in kernel.gradients(*given)])
    assert found.dtype == dtype
    size = np.abs(expected).max()
    assert_close(found, expected, rtol=0, atol=TOLERANCE[dtype] * size)


@pytest.mark.parametrize("kernel", KERNELS[:7], ids=lambda kernel: kernel.name)
def test_a_row_that_is_a_point_has_no_gradient_from_it(rng, kernel):
    Z = rng.normal(size=(1, 3))
    (found,) = kernel.gradients(Z.copy(), Z, np.ones((1, 1)))
    assert np.array_equal(found, np.zeros((1, 3)))


@pytest.mark.parametrize("kernel", [Cosine(), MahalanobisRBF(np.eye(3))])
def test_a_kernel_without_a_gradient_says_so(rng, kernel):
    X = rng.normal(size=(2, 3))
    with pytest.raises(NotImplementedError, match="has no gradient here; use 'rbf'"):
        list(kernel.gradients(X, X, np.ones((2, 1))))
