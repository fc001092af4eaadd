"""PatchDictionary: features for any estimator, in blocks."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from kaucus import LSSVMClassifier
from kaucus.kernels._patches import CONTRAST
from kaucus.preprocessing import PatchDictionary
from tests.arrays import array, assert_close
from tests.reference import patches as reference

SMALL = {"n_filters": 6, "image_shape": (8, 8), "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:60].astype(np.uint8), y[:60]


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("sizes", [3, (3, 4)])
def test_features_are_those_of_loops(digits, sizes, mirror, xp, dtype):
    X, _ = digits
    model = PatchDictionary(
        patch_sizes=sizes, pooling=2, mirror=mirror, precision=dtype, **SMALL
    ).fit(array(xp, X))
    images = (X.reshape(-1, 1, 8, 8) - 8.0) / 16
    expected = [
        reference.features(
            images[:5], np.asarray(filters, float), np.asarray(bias, float),
            epsilon=CONTRAST, threshold=1.0, n_cells=2, power=0.5, mirror=mirror,
        )
        for filters, bias in zip(model.filters_, model.biases_, strict=True)
    ]  # fmt: skip
    found = model.transform(array(xp, X[:5]))
    # A square root makes much of what is rounded near zero.
    tolerance = {"float32": 2e-3, "float64": 1e-7}[dtype]
    assert_close(found, np.concatenate(expected, axis=1), rtol=0, atol=tolerance)
    assert len(model.get_feature_names_out()) == found.shape[1]


def test_names_tell_size_cell_filter_and_sign(digits):
    X, _ = digits
    model = PatchDictionary(patch_sizes=(3, 4), pooling=2, **SMALL).fit(X)
    names = list(model.get_feature_names_out())
    assert len(set(names)) == len(names) == model.transform(X).shape[1] == 48
    assert names[0] == "size3_cell0_0_filter0_positive"
    assert names[-1] == "size4_cell1_1_filter2_negative"
    # A filter of the other sign exchanges positive and negative.
    before = model.transform(X)
    model.filters_ = [-filters for filters in model.filters_]
    model.biases_ = [-bias for bias in model.biases_]
    after = model.transform(X)
    signs = {"positive": "negative", "negative": "positive"}
    for k, name in enumerate(names):
        head, _, sign = name.rpartition("_")
        other = names.index(f"{head}_{signs[sign]}")
        assert_allclose(after[:, k], before[:, other], atol=1e-5)


@pytest.mark.parametrize("dictionary", ["random", "kmeans"])
@pytest.mark.parametrize("whitening", [0.1, None])
def test_a_machine_learns_from_the_features(digits, dictionary, whitening):
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(
        PatchDictionary(
            32, 3, image_shape=(8, 8), dictionary=dictionary, whitening=whitening,
            threshold=0.25, random_state=0,
        ),
        LSSVMClassifier(C=100),
    )  # fmt: skip
    assert model.fit(X[:400], y[:400]).score(X[400:700], y[400:700]) > 0.9


def test_blocks_within_a_budget_give_the_same_features(digits):
    X, _ = digits
    model = PatchDictionary(patch_sizes=3, **SMALL).fit(X)
    expected = model.transform(X)
    assert_allclose(model.set_params(memory_budget=5000).transform(X), expected)


@pytest.mark.slow
def test_bytes_are_never_widened_whole():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, size=(3000, 576)).astype(np.uint8)
    model = PatchDictionary(
        2, 5, image_shape=(24, 24), pooling=1, memory_budget="1MiB", random_state=0
    ).fit(X[:100])
    tracemalloc.start()
    try:
        out = model.transform(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - out.nbytes < X.nbytes  # in float32 they are four times as much


def test_fewer_patches_than_filters_are_fewer_filters():
    X = np.random.default_rng(0).integers(0, 255, size=(2, 16))
    model = PatchDictionary(100, 3, image_shape=(4, 4), pooling=1).fit(X)
    assert model.filters_[0].shape[0] == 8
    assert model.transform(X).shape == (2, 16)
