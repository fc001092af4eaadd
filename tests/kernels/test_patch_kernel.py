"""The kernel of patches: blocks of filters, mirror images as rows, against loops."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from kaucus._array.namespace import to_numpy
from kaucus._array.rows import HostRows
from kaucus.kernels import _patches
from kaucus.kernels._patches import (
    FilterGroup,
    KeptFeatures,
    PatchKernel,
    PictureFeatures,
    draw_patches,
    features_of,
    learn_distances,
    make_filters,
    pixel_range,
)
from tests.arrays import array, assert_close
from tests.reference.patches import gaussian_kernel

SHAPE = (1, 9, 9)
GAMMA = 0.7


def pictures(rng, n):
    return rng.integers(0, 256, size=(n, 81)).astype(np.uint8)


def make_kernel(X, rng, *, n_filters=6, grids=(2,), mean=False, **changes):
    """Return a kernel of pictures of two sizes of patches."""
    how = PictureFeatures(SHAPE, pixel_range(X), 0.5, 0.5, False, "float64")
    how = how._replace(**changes)
    banks = []
    for size in (3, 4):
        patches = draw_patches(X, SHAPE, (size, size), how.pixels, n_filters, rng)
        bank = make_filters(patches, n_filters, (1, size, size), ridge=0.1, rng=rng)
        banks.append(bank)
    groups = [FilterGroup(bank, grid) for bank in banks for grid in grids]
    parts = tuple((g,) for g in groups) if mean else (tuple(groups),)
    parts = tuple(learn_distances(X, how, part, 2**28)[1] for part in parts)
    return PatchKernel(how, parts, GAMMA, 2**28)


def all_features(kernel, X, part):
    found = [
        features_of(X, kernel.how, group.bank, group.n_cells, budget=2**28)
        for group in part
    ]
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize("mean", [False, True])
def test_the_kernel_is_that_of_loops(xp, rng, mean):
    X, Z = pictures(rng, 12), pictures(rng, 5)
    kernel = make_kernel(X, rng, grids=(2, 3), mean=mean)
    expected = [
        gaussian_kernel(
            all_features(kernel, Z, part), all_features(kernel, X, part), GAMMA
        )
        for part in kernel.parts
    ]
    assert len(expected) == (4 if mean else 1)
    K = kernel(array(xp, Z), array(xp, X))
    assert_close(K, np.mean(expected, axis=0), rtol=1e-5)
    assert_close(kernel(array(xp, X)), kernel(X, X), rtol=1e-6)


def test_a_gram_matrix_is_symmetric_positive_and_has_a_diagonal_of_ones(xp, dtype, rng):
    X = pictures(rng, 15)
    kernel = make_kernel(X, rng, precision=dtype)
    K = to_numpy(kernel(array(xp, X)))
    assert K.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diagonal(K), 1)
    assert np.linalg.eigvalsh(K.astype(float)).min() > -1e-5


@pytest.mark.parametrize("most", [1, 40_000, 2**30])
def test_blocks_of_filters_of_any_size_give_the_same_matrix(rng, monkeypatch, most):
    X, Z = pictures(rng, 20), pictures(rng, 7)
    kernel = make_kernel(X, rng, n_filters=10)
    expected, cross = kernel(X), kernel(Z, X)
    monkeypatch.setattr(_patches, "_FEATURE_BYTES_CPU", most)
    monkeypatch.setattr(_patches, "_PRODUCT_WORK", 5000)
    assert_close(kernel(X), expected, rtol=1e-10)
    assert_close(kernel(Z, X), cross, rtol=1e-10)
    learned = learn_distances(X, kernel.how, _without_moments(kernel), 2**28)[1]
    for found, group in zip(learned, kernel.parts[0], strict=True):
        assert_close(found.moments.mean, group.moments.mean, rtol=1e-6)
        assert_close(found.moments.inverse, group.moments.inverse, rtol=1e-5)


def _without_moments(kernel):
    return tuple(group._replace(moments=None) for group in kernel.parts[0])


def test_progress_counts_all_pictures_for_each_block_of_filters(rng, monkeypatch):
    X = pictures(rng, 20)
    kernel = make_kernel(X, rng, n_filters=4)
    monkeypatch.setattr(_patches, "_FEATURE_BYTES_CPU", 1)
    told = []
    part = kernel.parts[0]
    learn_distances(
        X,
        kernel.how,
        part,
        2**28,
        callback=lambda done, all_: told.append((done, all_)),
    )
    assert max(told) == (160, 160)  # 20 pictures, two sizes, four filters each
    assert {n_all for _, n_all in told} == {160}


def test_a_small_budget_means_small_blocks(rng):
    group = FilterGroup(make_kernel(pictures(rng, 9), rng).parts[0][0].bank, 2)
    how = PictureFeatures(SHAPE, pixel_range(pictures(rng, 9)), 1, 1, False, "float32")
    of_three = 2 * 3 * 100 * 8 * 4
    few = _patches.filter_blocks(group, how, 100, of_three, pictures(rng, 1))
    assert [s.stop - s.start for s in few] == [3, 3]
    assert len(_patches.filter_blocks(group, how, 100, 1, pictures(rng, 1))) == 6


def test_features_that_are_constant_count_for_nothing(rng):
    X = pictures(rng, 12)
    X[:, :] = X[:, :1]  # every picture is of one grey
    X[:, 0] = np.arange(12)  # but for a corner
    kernel = make_kernel(X, rng)
    K = kernel(X)
    assert np.isfinite(K).all()


# ---- features that are kept ----------------------------------------------------------


def test_kept_features_give_the_same_matrix(rng):
    X, Z = pictures(rng, 12), pictures(rng, 5)
    kernel = make_kernel(X, rng, grids=(2, 3), mean=True)
    kept = KeptFeatures()
    assert not kept.are_with(Z)
    kept.parts = list(map(list, kernel.all_blocks_of(X, 2**28, 12)))
    assert kept.are_with(Z)
    assert kept.n_bytes() == kernel.feature_bytes(12)
    assert_close(kernel.of_features(Z, kept.parts), kernel(Z, X), rtol=1e-12)


# ---- memory --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(600, 2), (2, 600)])
def test_many_pictures_beside_few_stay_within_the_budget(rng, n, m):
    X, Z = pictures(rng, n), pictures(rng, m)
    kernel = make_kernel(pictures(rng, 40), rng, n_filters=128, precision="float32")
    budget = 2 * 2**20
    assert kernel.feature_bytes(n + m) > 2 * budget
    kernel = replace(kernel, memory_budget=budget)
    expected = replace(kernel, memory_budget=2**30)(Z, X)
    tracemalloc.start()
    try:
        K = kernel(Z, X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * budget
    assert_close(K, expected, rtol=1e-4)


def test_rows_of_the_host_give_the_same_matrix(rng):
    torch = pytest.importorskip("torch")
    X, Z = pictures(rng, 30), pictures(rng, 7)
    kernel = make_kernel(X, rng)
    host = HostRows(X, torch.zeros((1, 81), dtype=torch.uint8), 81 * 4)
    assert_close(kernel(host), kernel(X), rtol=1e-6)
    assert_close(kernel(torch.asarray(Z), host), kernel(Z, X), rtol=1e-6)
