"""Filters and features of pictures, against loops."""

import numpy as np
import pytest

from kaucus.kernels._patches import (
    CONTRAST,
    PictureFeatures,
    PixelRange,
    cell_windows,
    draw_patches,
    features_of,
    make_filters,
    normalised,
    pixel_range,
    whitening_of,
)
from tests.arrays import array, assert_close
from tests.reference import patches as reference

SHAPE = (2, 7, 8)
N_CELLS = 2


def pictures(rng, n=6):
    return rng.integers(0, 256, size=(n, 112)).astype(np.uint8)


def bank_of(X, rng, n_filters=4, ridge=0.1):
    patches = draw_patches(X, SHAPE, (3, 3), pixel_range(X), n_filters, rng)
    return make_filters(patches, n_filters, (2, 3, 3), ridge=ridge, rng=rng)


def how_of(X, **changes):
    how = PictureFeatures(SHAPE, pixel_range(X), 0.3, 0.5, False, "float32")
    return how._replace(**changes)


def reference_features(X, how, bank):
    images = (np.asarray(X, float) - how.pixels.middle) / how.pixels.length
    return reference.features(
        images.reshape(-1, *SHAPE),
        bank.filters.astype(float),
        bank.bias.astype(float),
        epsilon=CONTRAST,
        threshold=how.threshold,
        n_cells=N_CELLS,
        power=how.power,
        mirror=how.mirror,
    )


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("power", [0.5, 1.0, 0.3])
def test_features_are_those_of_loops(xp, dtype, rng, mirror, power):
    X = pictures(rng)
    bank, how = bank_of(X, rng), how_of(X, mirror=mirror, power=power, precision=dtype)
    found = features_of(array(xp, X, dtype), how, bank, N_CELLS, budget=2**20)
    tolerance = 1e-9 if dtype == "float64" else 2e-3
    assert_close(found, reference_features(X, how, bank), rtol=0, atol=tolerance)


def test_whole_numbers_and_floats_are_the_same_pictures(xp, rng):
    X = pictures(rng)
    bank, how = bank_of(X, rng), how_of(X)
    kinds = [
        features_of(array(xp, X, kind), how, bank, N_CELLS, budget=2**20)
        for kind in ("uint8", "float32", "float64")
    ]
    assert_close(kinds[0], kinds[1], rtol=1e-5, atol=1e-6)
    assert_close(kinds[0], kinds[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("budget", [1, 10**5, 2**30])
def test_blocks_of_any_size_give_the_same_features(rng, budget):
    X = pictures(rng, n=30)
    bank, how = bank_of(X, rng), how_of(X, precision="float64")
    found = features_of(X, how, bank, N_CELLS, budget=budget)
    assert_close(found, features_of(X, how, bank, N_CELLS, budget=2**24), rtol=1e-10)


@pytest.mark.parametrize(
    ("scale", "shift"), [(1 / 255, 0.0), (1.0, -128.0), (1e6, 3e6)]
)
def test_the_unit_of_pixels_does_not_matter(rng, scale, shift):
    X = pictures(rng)
    moved = X * scale + shift
    found = []
    for Z in (X, moved):
        bank, how = bank_of(Z, np.random.default_rng(1)), how_of(Z, precision="float64")
        found.append(features_of(Z, how, bank, N_CELLS, budget=2**20))
    assert_close(*found, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("length", [5, 20, 23, 24, 25, 27, 29])
@pytest.mark.parametrize("n_cells", [1, 2, 3, 4, 5])
def test_cells_cover_all_positions_the_same_from_both_sides(length, n_cells):
    windows = cell_windows(length, n_cells)
    seen = np.zeros(length, dtype=bool)
    for window in windows:
        seen[window] = True
    assert seen.all()
    assert len(windows) == n_cells
    turned = [slice(length - w.stop, length - w.start) for w in reversed(windows)]
    assert turned == windows
    assert windows == [slice(*w) for w in reference.windows(length, n_cells)]


def test_whitened_patches_have_a_covariance_near_one(rng):
    p_hat = normalised(rng.normal(size=(4000, 12)) @ rng.normal(size=(12, 12)))
    W, mean = whitening_of(p_hat, 1e-9)
    covariance = np.cov((p_hat - mean) @ W, rowvar=False, bias=True)
    values = np.linalg.eigvalsh(covariance)
    # The mean of a patch is taken off: one direction is empty.
    np.testing.assert_allclose(values[1:], 1, rtol=1e-4)
    assert values[0] < 1e-3


def test_a_filter_responds_to_its_own_patch_with_its_norm(rng):
    X = pictures(rng, n=40)
    patches = draw_patches(
        X, SHAPE, (3, 3), pixel_range(X), 5, np.random.default_rng(1)
    )
    bank = make_filters(patches, 5, (2, 3, 3), ridge=0.1, rng=rng)
    p_hat = normalised(patches)
    W, mean = whitening_of(p_hat, 0.1)
    whitened = (p_hat - mean) @ W
    z = p_hat @ bank.filters.reshape(5, -1).T + bank.bias
    # D has unit rows: no response is larger than the norm of the whitened patch, and
    # one patch for each filter reaches it.
    norms = np.linalg.norm(whitened, axis=1)
    assert np.all(np.abs(z) <= norms[:, None] * (1 + 1e-4))
    np.testing.assert_allclose((z / norms[:, None]).max(axis=0), 1, rtol=1e-4)


def test_without_contrast_no_patch_becomes_a_filter(rng):
    X = np.zeros((50, 112), dtype=np.uint8)
    X[:, :20] = rng.integers(0, 256, size=(50, 20))
    patches = draw_patches(X, SHAPE, (3, 3), pixel_range(X), 40, rng)
    bank = make_filters(patches, 40, (2, 3, 3), ridge=0.1, rng=rng)
    assert len(np.unique(bank.filters.reshape(40, -1).round(4), axis=0)) == 40


def test_of_large_pictures_few_are_read_for_patches(rng, monkeypatch):
    monkeypatch.setattr("kaucus.kernels._patches._PICTURE_BYTES", 3 * 112)
    X = np.zeros((50, 112), dtype=np.uint8)
    X[:] = np.arange(50)[:, None]
    X[0, 0] = 49
    patches = draw_patches(X, SHAPE, (3, 3), PixelRange(0.0, 1.0), 40, rng)
    assert len(np.unique(patches.max(axis=1))) == 3


def test_pixels_that_are_all_equal_are_refused():
    with pytest.raises(ValueError, match="All pixels of X are 7: pictures that are"):
        pixel_range(np.full((4, 9), 7.0))


def test_the_range_of_pixels_is_found(xp, rng):
    assert pixel_range(array(xp, [[3, 9], [4, 5]], "uint8")) == PixelRange(3.0, 9.0)
