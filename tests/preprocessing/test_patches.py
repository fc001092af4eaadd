"""Patches: all of them, in order, without a copy or within a budget."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline

from kaucus.preprocessing import ImagePatches, UnitNormalizer, iter_patches, patch_view
from tests.arrays import assert_to_rounding
from tests.reference.images import patches_of

CASES = [
    ((4, 6), 3),
    ((5, 5), 1),
    ((5, 5), 5),
    ((3, 4, 5), 2),
    ((1, 6, 4), 4),
    ((2, 2, 4, 4), 3),
]
each_case = pytest.mark.parametrize(("shape", "size"), CASES, ids=str)


def rows_of(shape, n=3, dtype="float64"):
    values = np.arange(n * np.prod(shape)) % 251
    return values.reshape(n, -1).astype(dtype)


@each_case
def test_patches_are_those_of_the_loop(shape, size):
    X = rows_of(shape)
    expected = np.array([patches_of(row, shape, size) for row in X])
    view = patch_view(X, shape, size)
    assert_array_equal(view.reshape(expected.shape), expected)
    model = ImagePatches(size, shape).fit(X)
    assert_array_equal(model.transform(X), expected.reshape(len(X), -1))
    assert model.n_patches_ == expected.shape[1]
    assert np.prod(model.patch_shape_) == expected.shape[2]


@each_case
@pytest.mark.parametrize("budget", [1, 2000, "1MiB", None])
def test_blocks_within_any_budget_are_the_patches(shape, size, budget):
    X = rows_of(shape, n=7)
    expected = [patches_of(row, shape, size) for row in X]
    covered = 0
    for rows, patches in iter_patches(X, shape, size, memory_budget=budget):
        assert rows.start == covered
        covered = rows.stop
        assert_array_equal(patches, np.concatenate(expected[rows]))
    assert covered == len(X)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(1, 7)),
    data=st.data(),
)
def test_a_patch_is_a_piece_of_its_image(shape, data):
    patch = tuple(data.draw(st.integers(1, side)) for side in shape[1:])
    i, j = (
        data.draw(st.integers(0, side - size))
        for side, size in zip(shape[1:], patch, strict=True)
    )
    X = rows_of(shape)
    piece = X.reshape(-1, *shape)[:, :, i : i + patch[0], j : j + patch[1]]
    assert_array_equal(patch_view(X, shape, patch)[:, i, j], piece)


def test_a_pair_is_height_and_width():
    X = rows_of((5, 7))
    assert patch_view(X, (5, 7), (2, 6)).shape == (3, 4, 2, 2, 6)
    model = ImagePatches((2, 6), (5, 7)).fit(X)
    assert model.patch_shape_ == (2, 6)
    assert model.n_patches_ == 8


def test_16_patches_of_a_digit_and_that_is_the_default():
    X = rows_of((28, 28))
    model = ImagePatches(25, image_shape=(28, 28)).fit(X)
    assert model.n_patches_ == 16
    assert model.patch_shape_ == (25, 25)
    default = ImagePatches(image_shape=(28, 28)).fit(X)
    assert default.patch_shape_ == (25, 25)
    assert_array_equal(default.transform(X), model.transform(X))
    assert patch_view(X, (28, 28)).shape == (3, 4, 4, 25, 25)


def test_rows_without_a_shape_are_cut_along_their_one_axis():
    X = rows_of((5,), n=2)
    assert_array_equal(
        ImagePatches(4).fit_transform(X), np.hstack([X[:, :4], X[:, 1:]])
    )
    assert ImagePatches(4).fit(X).patch_shape_ == (4,)
    (_, patches), *_ = iter_patches(X, None, 4)
    assert_array_equal(patches, [X[0, :4], X[0, 1:], X[1, :4], X[1, 1:]])


# ---- memory ----------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@each_case
def test_a_view_copies_nothing_and_cannot_be_written(shape, size, order):
    X = np.array(rows_of(shape), order=order)
    view = patch_view(X, shape, size)
    assert np.shares_memory(view, X)
    assert not view.flags.writeable
    assert_array_equal(patch_view(X[::2, :], shape, size), view[::2])
    assert np.shares_memory(patch_view(X[::2, :], shape, size), X)


@each_case
def test_what_is_handed_out_is_the_callers(shape, size):
    X = rows_of(shape)
    before = X.copy()
    X.flags.writeable = False
    patches = ImagePatches(size, shape).fit_transform(X)
    assert not np.shares_memory(patches, X)
    patches += 1
    for _, block in iter_patches(X, shape, size):
        assert not np.shares_memory(block, X)
        block += 1
    assert_array_equal(X, before)


def peak_of(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_all_patches_pass_within_the_budget():
    """96,000 patches of 625 values are 60 MB in bytes; 4 MiB are enough for them."""
    X = rows_of((28, 28), n=6000, dtype="uint8")
    n_patches, total = 0, 0

    def consume():
        nonlocal n_patches, total
        blocks = iter_patches(X, (28, 28), 25, memory_budget="4MiB")
        for _, patches in blocks:
            n_patches += len(patches)
            total += int(patches.sum(dtype=np.int64))

    assert peak_of(consume) < 4 * 2**20 + 100_000
    assert n_patches == 96_000
    expected = sum(
        int(X.reshape(-1, 28, 28)[:, i : i + 25, j : j + 25].sum(dtype=np.int64))
        for i in range(4)
        for j in range(4)
    )
    assert total == expected


def test_a_view_of_960000_patches_takes_no_memory():
    X = np.zeros((60_000, 784), dtype=np.uint8)
    views = []
    assert peak_of(lambda: views.append(patch_view(X, (28, 28), 25))) < 100_000
    assert views[0].shape == (60_000, 4, 4, 25, 25)


def test_one_image_is_never_split():
    blocks = list(iter_patches(rows_of((5, 5)), (5, 5), 2, memory_budget=1))
    assert [patches.shape for _, patches in blocks] == [(16, 4)] * 3


# ---- types, names, tools ---------------------------------------------------------


@pytest.mark.parametrize("kind", ["float64", "float32", "uint8", "int64"])
def test_the_type_stays(kind):
    X = rows_of((4, 4), dtype=kind)
    assert ImagePatches(2, (4, 4)).fit_transform(X).dtype == kind
    assert patch_view(X, (4, 4), 2).dtype == kind
    assert next(iter_patches(X, (4, 4), 2))[1].dtype == kind


def test_names_lead_to_the_pixel():
    X = rows_of((5, 6), n=1)
    model = ImagePatches(3, (5, 6)).fit(X)
    values = model.transform(X)[0]
    for name, value in zip(model.get_feature_names_out(), values, strict=True):
        patch, pixel = name.split("_pixel")
        i, j = map(int, patch.removeprefix("patch").split("_"))
        k, m = map(int, pixel.split("_"))
        assert X.reshape(5, 6)[i + k, j + m] == value


def test_names_of_colour_and_of_plain_rows():
    colour = ImagePatches(2, (3, 3, 3)).fit(rows_of((3, 3, 3)))
    names = colour.get_feature_names_out()
    assert names[0] == "patch0_0_channel0_pixel0_0"
    assert names[-1] == "patch1_1_channel2_pixel1_1"
    assert len(set(names)) == len(names) == 4 * 12
    plain = ImagePatches(2).fit(rows_of((3,)))
    assert list(plain.get_feature_names_out()) == [
        "patch0_pixel0",
        "patch0_pixel1",
        "patch1_pixel0",
        "patch1_pixel1",
    ]


def test_in_a_pipeline_and_through_pickle():
    X = rows_of((6, 6), n=5)
    chain = make_pipeline(UnitNormalizer(), ImagePatches(4, (6, 6))).fit(X)
    unit = UnitNormalizer().fit_transform(X)
    expected = ImagePatches(4, (6, 6)).fit_transform(unit)
    assert_to_rounding(chain.transform(X), expected)
    assert_to_rounding(pickle.loads(pickle.dumps(chain)).transform(X), expected)
    assert len(chain.get_feature_names_out()) == expected.shape[1]


# ---- what users get wrong --------------------------------------------------------


@pytest.mark.parametrize(
    "patch_size", [0, -1, 6, 2.0, True, "2", (2,), (2, 2, 2), (6, 2), (2, 7), ()]
)
def test_a_wrong_size_is_refused(patch_size):
    X = rows_of((5, 6))
    match = "patch_size=.* is not a patch size for images of 5 x 6 .* from 1 to 5"
    with pytest.raises(ValueError, match=match):
        ImagePatches(patch_size, (5, 6)).fit(X)
    with pytest.raises(ValueError, match=match):
        patch_view(X, (5, 6), patch_size)
    with pytest.raises(ValueError, match=match):
        iter_patches(X, (5, 6), patch_size)  # at the call, not at the first block


def test_a_wrong_shape_or_budget_is_refused():
    X = rows_of((5, 6))
    with pytest.raises(ValueError, match=r"5 \* 5 = 25 values, but X has n_features"):
        ImagePatches(2, (5, 5)).fit(X)
    with pytest.raises(ValueError, match=r"has 3 axes, not 2; pass one row per"):
        patch_view(X.reshape(3, 5, 6), (5, 6), 2)
    with pytest.raises(ValueError, match="memory_budget='lots' is not a size"):
        iter_patches(X, (5, 6), 2, memory_budget="lots")
