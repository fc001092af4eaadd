"""Laws of the search for C and the kernel by leave-one-out on representatives."""

import numpy as np
import pytest

from kaucus.kernels import Gaussian, Linear
from kaucus.solvers import regression_score, search_on_representatives
from kaucus.solvers._low_rank_search import decompose_low_rank, leave_one_out_at
from tests.arrays import array, assert_close
from tests.reference import low_rank as reference
from tests.solvers.problems import problem, weights

KERNEL = Gaussian(gamma=0.5)


@pytest.mark.parametrize("C", [0.1, 4.0, 1e3])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_equals_refitting(xp, weighted, C):
    p = problem(n=25)
    weight = np.maximum(weights(3, 25), 0.25) if weighted else None
    share = np.linspace(0.2, 1, 25) if weighted else None
    Z = p.X[:6]
    spectrum = decompose_low_rank(
        KERNEL,
        array(xp, p.X),
        array(xp, p.Y),
        array(xp, Z),
        None if weight is None else array(xp, weight),
    )
    got = leave_one_out_at(spectrum, C, None if share is None else array(xp, share))
    expected = reference.leave_one_out(KERNEL(p.X, Z), KERNEL(Z), p.Y, C, weight, share)
    assert_close(got, expected, rtol=1e-5, atol=1e-6)


def test_float32_rows_are_decomposed_in_float64():
    p = problem(n=40)
    narrow = decompose_low_rank(
        KERNEL, p.X.astype(np.float32), p.Y, p.X[:5].astype(np.float32)
    )
    wide = decompose_low_rank(KERNEL, p.X, p.Y, p.X[:5])
    assert narrow.P.dtype == np.float64
    assert_close(
        leave_one_out_at(narrow, 10.0), leave_one_out_at(wide, 10.0), atol=1e-4
    )


def test_rows_of_weight_zero_have_no_value_and_change_nothing():
    p = problem(n=30)
    weight = np.where(np.arange(30) < 20, 1.0, 0.0)
    got = leave_one_out_at(decompose_low_rank(KERNEL, p.X, p.Y, p.X[:4], weight), 5.0)
    alone = decompose_low_rank(KERNEL, p.X[:20], p.Y[:20], p.X[:4])
    assert np.isnan(got[20:]).all()
    assert_close(got[:20], leave_one_out_at(alone, 5.0), rtol=1e-8)


def test_the_best_of_all_kernels_and_Cs_is_found():
    p = problem(n=80, t=1)
    y = np.sin(2 * p.X[:, :1])
    kernels = [Linear(), Gaussian(gamma=1e-4), Gaussian(gamma=0.5)]
    Cs = [1e-3, 1.0, 1e3]

    def score(values):
        return regression_score(values, y, "neg_mean_squared_error")

    found = search_on_representatives(kernels, p.X, y, p.X[:40], Cs, score)
    assert found.scores.shape == (3, 3)
    assert found.best_kernel == 2
    i, j = np.unravel_index(found.scores.argmax(), found.scores.shape)
    assert (i, Cs[j]) == (found.best_kernel, found.best_C)
    refitted = reference.leave_one_out(
        KERNEL(p.X, p.X[:40]), KERNEL(p.X[:40]), y, found.best_C
    )
    assert found.scores[i, j] == pytest.approx(-np.mean((refitted - y) ** 2), rel=1e-3)
