"""Routines that work in place are right, and let other threads run."""

import threading
import time

import numpy as np
import pytest

from kaucus._array import linalg as _lapack


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(7, 4), (3, 5), (1, 1), (0, 3), (2, 0)])
def test_a_gram_matrix_is_added_to_the_lower_triangle(rng, shape, dtype):
    A = rng.normal(size=shape).astype(dtype)
    G = np.asfortranarray(rng.normal(size=(shape[1], shape[1])).astype(dtype))
    before = G.copy()
    _lapack.add_gram_in_place(G, A)
    tolerance = 20 * np.finfo(dtype).eps
    sums = before.astype(float) + A.astype(float).T @ A.astype(float)
    np.testing.assert_allclose(np.tril(G), np.tril(sums), atol=tolerance)
    np.testing.assert_array_equal(np.triu(G, k=1), np.triu(before, k=1))


@pytest.mark.parametrize(
    "A",
    [np.ones((4, 2)), np.ones((4, 3), np.float32), np.ones((3, 4)).T],
    ids=["columns", "dtype", "column-major"],
)
def test_rows_that_do_not_fit_their_gram_matrix_are_refused(A):
    with pytest.raises(ValueError, match="row-major A with the dtype of G"):
        _lapack.add_gram_in_place(np.zeros((3, 3), order="F"), A)


def test_a_matrix_that_lapack_cannot_work_in_is_refused():
    with pytest.raises(ValueError, match="column-major"):
        _lapack.factor_in_place(np.eye(4)[::2, ::2], lower=True)


def _add_gram(A: np.ndarray) -> None:
    _lapack.add_gram_in_place(A, np.ones((3 * len(A), len(A))))


@pytest.mark.parametrize(
    ("function", "n"),
    [
        (lambda A: _lapack.factor_in_place(A, lower=True), 2500),
        (lambda A: _lapack.decompose_in_place(A, lower=True), 900),
        (_add_gram, 1800),
    ],
    ids=["factor", "decompose", "add_gram"],
)
def test_other_threads_run_while_lapack_does(function, n):
    """Else Ctrl-C would wait for it, and threads for each other."""
    A = np.asfortranarray(0.5 + np.diag(np.arange(1.0, n + 1)))
    thread = threading.Thread(target=function, args=(A,))
    begun = last = time.perf_counter()
    longest = 0.0
    thread.start()
    while thread.is_alive():
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    assert longest < 0.7 * (last - begun)
