"""Least squares on few kernel columns for several C: the same as solved one by one."""

import numpy as np
import pytest

from kaucus._array.namespace import to_numpy
from kaucus.kernels import Gaussian
from kaucus.solvers._columns import solve_on_representatives
from kaucus.solvers._direct import solve_columns
from tests.arrays import array, assert_close
from tests.solvers.problems import of_rows

solve_on_representatives = of_rows(solve_on_representatives)

CS = [0.1, 10.0, 1e3]


def rows(rng, n=60):
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 2))


@pytest.mark.parametrize("weighted", [False, True])
def test_every_c_is_the_model_that_is_solved_for_it(xp, rng, weighted):
    (X, Y), new, kernel = rows(rng), rng.normal(size=(8, 3)), Gaussian(gamma=0.3)
    weight = rng.uniform(0.5, 2.0, size=60) if weighted else None
    given = [array(xp, v) for v in (kernel(X, X[:12]), Y)]
    models = solve_columns(*given, CS, None if weight is None else array(xp, weight))
    values = to_numpy(models.values(array(xp, kernel(new, X[:12]))))
    for c, C in enumerate(CS):
        one = solve_on_representatives(kernel, X, Y, X[:12], C=C, sample_weight=weight)
        expected = kernel(new, X[:12]) @ one.dual_coef + one.intercept
        assert_close(values[:, c, :], expected, rtol=1e-6, atol=1e-7)
        fitted = kernel(X, X[:12]) @ to_numpy(models.coef)[:, c, :]
        wanted = kernel(X, X[:12]) @ one.dual_coef
        assert_close(fitted, wanted, rtol=1e-5, atol=1e-6)


def test_rows_in_float32_lose_no_more_than_a_thousandth(xp, rng):
    """Also of columns that nearly depend on each other, as those of wide kernels."""
    (X, Y), kernel = rows(rng), Gaussian(gamma=0.01)
    K, losses = array(xp, kernel(X, X[:12])), []
    for dtype in ("float32", "float64"):
        narrow = X.astype(dtype)
        given = [array(xp, v) for v in (kernel(narrow, narrow[:12]), Y)]
        values = to_numpy(solve_columns(*given, CS).values(K))
        losses.append(((values - Y[:, None, :]) ** 2).mean(axis=(0, 2)))
    assert_close(losses[0], losses[1], rtol=1e-3)


def test_the_order_of_the_sums_does_not_matter(rng):
    """Nor then the number of threads: not even where columns nearly depend."""
    X, Y = rng.normal(size=(400, 2)), rng.normal(size=(400, 1))
    order = np.concatenate([np.arange(80), 80 + rng.permutation(320)])
    K = Gaussian(gamma=0.01)(X, X[:80])
    values, moved = (
        solve_columns(K[rows], Y[rows], [1e5]).values(K)
        for rows in (np.arange(400), order)
    )
    losses = [np.mean((one[:, 0, :] - Y) ** 2) for one in (values, moved)]
    assert_close(losses[0], losses[1], rtol=1e-7)
    assert_close(values, moved, rtol=0, atol=1e-4)
