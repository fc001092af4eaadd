"""Laws of the search for C and the kernel by leave-one-out on representatives."""

import numpy as np
import pytest
import scipy.special

from kaucus.fitting import _search
from kaucus.fitting._search import LeftOutColumns, best_of
from kaucus.kernels import CallableKernel, Exponential, Gaussian, Linear
from kaucus.solvers._direct import decompose_low_rank, leave_one_out_errors
from kaucus.solvers._system import log_losses_of_rows
from tests.arrays import array, assert_close
from tests.reference import low_rank as reference
from tests.solvers.problems import problem, weights

KERNEL = Gaussian(gamma=0.5)
CS = [0.1, 4.0, 1e3]


def decompose(X, Y, Z, weight=None):
    return decompose_low_rank(KERNEL(X, Z), KERNEL(Z), Y, weight)


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_equals_refitting_for_every_C_at_once(xp, weighted):
    p = problem(n=25)
    weight = np.maximum(weights(3, 25), 0.25) if weighted else None
    Z = p.X[:6]
    given = None if weight is None else array(xp, weight)
    spectrum = decompose(array(xp, p.X), array(xp, p.Y), array(xp, Z), given)
    errors = leave_one_out_errors(spectrum, CS)
    assert errors.shape == (25, len(CS), p.Y.shape[1])
    for c, C in enumerate(CS):
        values = reference.leave_one_out(KERNEL(p.X, Z), KERNEL(Z), p.Y, C, weight)
        assert_close(errors[:, c, :], p.Y - values, rtol=1e-5, atol=1e-6)


def test_rows_of_weight_zero_change_nothing():
    p = problem(n=30)
    weight = np.where(np.arange(30) < 20, 2.0, 0.0)
    all_rows = decompose(p.X, p.Y, p.X[:4], weight)
    alone = decompose(p.X[:20], p.Y[:20], p.X[:4], weight[:20])
    got = leave_one_out_errors(all_rows, CS)
    expected = leave_one_out_errors(alone, CS)
    assert_close(got[:20], expected, rtol=1e-8)
    assert np.isfinite(got).all()
    data = (p.X, p.Y, p.X[:4])
    few = (p.X[:20], p.Y[:20], p.X[:4])
    judges = [
        LeftOutColumns([KERNEL], *rows, sample_weight=s)
        for rows, s in ((data, weight), (few, weight[:20]))
    ]
    rows = [judge.tried([(KERNEL, CS)])[0].rows for judge in judges]
    means = [np.asarray([row["score"] for row in some]) for some in rows]
    assert_close(means[0], means[1], rtol=1e-8)


def losses_of(kernels, *data, Cs=CS, **options):
    """Return the mean loss of each kernel and C."""
    judge = LeftOutColumns(kernels, *data, **options)
    judge.tried((kernel, Cs) for kernel in kernels)
    return -np.reshape([row["score"] for row in judge.table], (len(kernels), len(Cs)))


def search_problem():
    p = problem(n=80, t=1)
    kernels = [Linear(), Gaussian(gamma=1e-4), Exponential(gamma=0.3), KERNEL]
    return kernels, p.X, np.sin(2 * p.X[:, :1]), p.X[:40]


def test_the_best_of_all_kernels_and_Cs_is_found():
    kernels, X, y, Z = search_problem()
    judge = LeftOutColumns(kernels, X, y, Z)
    found = best_of(judge.tried((kernel, CS) for kernel in kernels))
    refitted = {
        (k, C): reference.leave_one_out(kernel(X, Z), kernel(Z), y, C)
        for k, kernel in enumerate(kernels)
        for C in CS
    }
    losses = {pair: np.mean((values - y) ** 2) for pair, values in refitted.items()}
    k, C = min(losses, key=losses.get)
    assert (found.candidate, found.C) == (kernels[k], C) == (KERNEL, found.C)
    assert found.loss == pytest.approx(losses[k, C], rel=1e-3)
    assert len(judge.table) == 4 * 3


def test_kernels_together_are_kernels_one_by_one():
    """Whether they share distances and threads, or have neither."""
    kernels, X, y, Z = search_problem()
    own = CallableKernel(lambda A, B: A @ B.T)
    together = losses_of([*kernels, own], X, y, Z)
    for kernel, losses in zip([*kernels, own], together, strict=True):
        for C, loss in zip(CS, losses, strict=True):
            alone = losses_of([kernel], X, y, Z, Cs=[C])
            assert alone[0, 0] == pytest.approx(loss, rel=1e-9)
    assert_close(together[-1], together[0], rtol=1e-9)


def test_columns_that_are_the_first_rows_are_columns_as_others(xp):
    kernels, X, y, Z = search_problem()
    X, y, Z = (array(xp, A) for A in (X, y, Z))
    expected = losses_of(kernels, X, y, Z)
    got = losses_of(kernels, X, y, Z, first_rows=True)
    assert_close(got, expected, rtol=1e-6)


@pytest.mark.parametrize("entries", [1, 170])
def test_Cs_in_parts_are_all_Cs(monkeypatch, entries):
    kernels, X, y, Z = search_problem()
    expected = losses_of(kernels, X, y, Z)
    monkeypatch.setattr(_search, "_ENTRIES", entries)
    got = losses_of(kernels, X, y, Z)
    assert_close(got, expected, rtol=1e-9)


def test_float32_rows_are_searched_in_float64():
    kernels, X, y, Z = search_problem()
    wide = losses_of(kernels, X, y, Z)
    narrow = losses_of(kernels, *(A.astype(np.float32) for A in (X, y, Z)))
    assert narrow.dtype == np.float64
    assert_close(narrow, wide, rtol=1e-3)


def test_a_loss_sees_the_leave_one_out_values_of_every_C():
    kernels, X, y, Z = search_problem()

    def loss(values):
        assert values.shape == (80, len(CS), 1)
        return np.mean((values - y[:, None, :]) ** 2, axis=2)

    squared = losses_of(kernels, X, y, Z)
    assert_close(losses_of(kernels, X, y, Z, loss=loss), squared, rtol=1e-10)


# ---- log-losses ------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_log_losses_are_those_of_the_better_temperature(rng, k, weighted):
    values = 3 * rng.standard_normal((40, 6, k))
    labels = rng.integers(0, max(k, 2), 40)
    # Where all rows are right, the lower temperature is the better one.
    values[:, 0] = np.where(labels[:, None] == (np.arange(k) if k > 1 else 1), 1, -1)
    weight = weights(1, 40) if weighted else None
    columns = np.concatenate([-values, values], axis=2) if k == 1 else values
    expected = [
        min(
            np.average(
                -scipy.special.log_softmax(columns[:, c] / t, axis=1)[
                    np.arange(40), labels
                ],
                weights=weight,
            )
            for t in (0.25, 0.5)
        )
        for c in range(6)
    ]
    each = log_losses_of_rows(values, labels, weight)
    assert each.shape == (40, 6)
    means = np.average(each, axis=0, weights=weight)
    assert_close(means, np.asarray(expected), rtol=1e-10)


def test_log_losses_of_values_far_out_are_finite():
    values = np.array([[[1e6], [-1e6]], [[1e6], [1e6]]])
    losses = log_losses_of_rows(values, np.array([1, 1])).mean(axis=0)
    assert losses[0] == 0
    assert losses[1] == pytest.approx(1e6 / 0.5 * 2 / 2)
