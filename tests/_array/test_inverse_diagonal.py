"""The diagonal of an inverse from a lower factor, whatever is above the factor."""

import numpy as np
import pytest

from kaucus._array.linalg import NotPositiveDefiniteError, inverse_diagonal
from tests.arrays import array, assert_close


def factor(n: int, rng) -> np.ndarray:
    A = rng.standard_normal((n, n + 5))
    L = np.linalg.cholesky(A @ A.T / n)
    return L + np.triu(rng.standard_normal((n, n)), k=1)  # only the lower one is read


@pytest.mark.parametrize("n", [1, 5, 128, 300])
def test_it_is_the_diagonal_of_the_inverse(xp, rng, n):
    L = factor(n, rng)
    expected = np.diag(np.linalg.inv(np.tril(L) @ np.tril(L).T))
    assert_close(inverse_diagonal(array(xp, L)), expected, rtol=1e-8)


@pytest.mark.parametrize(
    "order",
    [np.ascontiguousarray, np.asfortranarray, lambda L: np.pad(L, 3)[3:-3, 3:-3]],
)
def test_in_any_order_and_unchanged(rng, order):
    L = order(factor(150, rng))
    before = L.copy()
    expected = np.diag(np.linalg.inv(np.tril(L) @ np.tril(L).T))
    assert_close(inverse_diagonal(L), expected, rtol=1e-8)
    np.testing.assert_array_equal(L, before)


def test_a_zero_on_the_diagonal_is_told():
    with pytest.raises(NotPositiveDefiniteError, match=r"L\[1, 1\] is zero"):
        inverse_diagonal(np.diag([1.0, 0.0, 2.0]))
