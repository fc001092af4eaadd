"""Spectra of pictures: the printed equations, and what no shift or scale changes."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from kaucus.preprocessing import FourierFeatures, UnitNormalizer
from kaucus.preprocessing import images as _fourier
from kaucus.preprocessing.images import fourier_features, fourier_modulus
from tests.arrays import assert_to_rounding
from tests.reference.images import fourier_row, half_spectrum

SHAPES = [(7,), (8,), (4, 6), (5, 3), (6, 5), (3, 4, 5), (2, 4, 4), (2, 2, 3, 4)]
FFTS = ["1d", "2d", "nd"]

each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
each_fft = pytest.mark.parametrize("fft", FFTS)
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 2**32 - 1)


def rows_of(shape, n=4, seed=0):
    return np.random.default_rng(seed).normal(3.0, 1.0, size=(n, np.prod(shape)))


def spectrum_of(X, shape, **params):
    return FourierFeatures(shape, concatenate=False, **params).fit_transform(X)


# ---- the equations ---------------------------------------------------------------


@each_fft
@each_shape
def test_the_modulus_is_that_of_the_explicit_sums(shape, fft):
    X = rows_of(shape)
    expected = [half_spectrum(row, shape, fft) for row in X]
    assert_allclose(fourier_modulus(X, shape, fft=fft, power=1.0), expected, rtol=1e-9)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.7])
@each_fft
@each_shape
def test_the_features_are_the_printed_equations(shape, fft, power):
    X = rows_of(shape)
    expected = [fourier_row(row, shape, fft, power) for row in X]
    actual = FourierFeatures(shape, fft=fft, power=power).fit_transform(X)
    # The oracle takes the power of rounding where the frequency is zero.
    assert_allclose(actual, expected, atol=1e-7)


def test_numpy_has_the_same_transforms(rng):
    X = rng.random((3, 60))
    pictures = X.reshape(3, 3, 4, 5)
    expected = {
        "1d": np.fft.fft(X)[:, :30],
        "2d": np.fft.fft2(pictures)[..., :3],
        "nd": np.fft.fftn(pictures, axes=(1, 2, 3))[..., :3],
    }
    for fft, F in expected.items():
        actual = fourier_modulus(X, (3, 4, 5), fft=fft, power=1.0)
        assert_allclose(actual, np.abs(F).reshape(3, -1), rtol=1e-10, atol=1e-12)


@given(shape=shapes, fft=st.sampled_from(FFTS), seed=seeds)
def test_the_other_half_is_redundant(shape, fft, seed):
    """Kept and dropped values together are the whole spectrum, but for one column."""
    X = rows_of(shape, seed=seed)
    image = X if fft == "1d" else X.reshape(len(X), *shape)
    n_axes = min(2, len(shape)) if fft == "2d" else image.ndim - 1
    F = np.abs(np.fft.fftn(image, axes=range(-n_axes, 0)))
    kept = fourier_modulus(X, shape, fft=fft, power=1.0).reshape(*F.shape[:-1], -1)
    width, half = F.shape[-1], kept.shape[-1]
    assert half == (width + 1) // 2
    mirrored = kept[..., 1:]  # frequency k of the last axis is −k = width − k
    for axis in range(-n_axes, -1):
        mirrored = np.roll(np.flip(mirrored, axis), 1, axis)
    assert_allclose(F[..., :half], kept, atol=1e-9)
    assert_allclose(F[..., width - half + 1 :], np.flip(mirrored, -1), atol=1e-9)


@pytest.mark.parametrize("fft", FFTS)
def test_digits_have_1176_features_and_colour_half_as_many_again(fft):
    assert FourierFeatures((28, 28), fft=fft).fit_transform(
        rows_of((28, 28))
    ).shape == (4, 1176)
    colour = rows_of((3, 32, 32))
    assert FourierFeatures((3, 32, 32), fft=fft).fit_transform(colour).shape[1] == 4608


def test_the_kept_part_has_a_shape():
    X = rows_of((3, 32, 32))
    kept = {
        fft: FourierFeatures((3, 32, 32), fft=fft).fit(X).spectrum_shape_
        for fft in FFTS
    }
    assert kept == {"1d": (1536,), "2d": (3, 32, 16), "nd": (3, 32, 16)}


def test_transforms_of_colour_differ_and_of_grey_two_agree():
    X = rows_of((3, 4, 4))
    colour = [spectrum_of(X, (3, 4, 4), fft=fft) for fft in FFTS]
    assert not np.allclose(colour[0], colour[1])
    assert not np.allclose(colour[1], colour[2])
    assert not np.allclose(colour[0], colour[2])
    grey = [spectrum_of(X, (6, 8), fft=fft) for fft in FFTS]
    assert_to_rounding(grey[1], grey[2])
    assert not np.allclose(grey[0], grey[1])
    # A single channel is grey.
    assert_to_rounding(spectrum_of(X, (1, 6, 8), fft="2d"), grey[1])
    # Rows without a shape have one axis, whatever the transform.
    for fft in FFTS:
        assert_to_rounding(spectrum_of(X, None, fft=fft), colour[0])


def test_two_dimensions_see_each_channel_alone(rng):
    X = rng.random((5, 2, 4, 4))
    other = X.copy()
    other[:, 1] = rng.random((5, 4, 4))
    spectra = [
        fourier_modulus(rows.reshape(5, -1), (2, 4, 4), fft="2d").reshape(5, 2, -1)
        for rows in (X, other)
    ]
    assert_to_rounding(spectra[0][:, 0], spectra[1][:, 0])
    assert not np.allclose(spectra[0][:, 1], spectra[1][:, 1])


# ---- laws ------------------------------------------------------------------------


@given(shape=shapes, fft=st.sampled_from(FFTS), shift=st.integers(-7, 7), seed=seeds)
def test_a_circular_shift_leaves_the_spectrum(shape, fft, shift, seed):
    X = rows_of(shape, seed=seed)
    if fft == "1d":
        shifted = np.roll(X, shift, axis=1)
    else:
        pictures = X.reshape(len(X), *shape)
        axes = range(-min(2, len(shape)), 0)
        shifted = np.roll(pictures, [shift, 2 * shift][: len(axes)], axes)
        shifted = shifted.reshape(X.shape)
    params = {"fft": fft, "power": 1.0}
    assert_allclose(
        fourier_modulus(shifted, shape, **params),
        fourier_modulus(X, shape, **params),
        atol=1e-10,
    )


@given(
    shape=shapes,
    fft=st.sampled_from(FFTS),
    power=st.sampled_from([0.25, 0.5, 1.0, 2.0]),
    scale=st.floats(-100, 100).filter(lambda a: abs(a) > 1e-3),
    seed=seeds,
)
def test_the_modulus_scales_with_the_power(shape, fft, power, scale, seed):
    X = rows_of(shape, seed=seed)
    f = fourier_modulus(X, shape, fft=fft, power=power)
    assert_allclose(
        fourier_modulus(scale * X, shape, fft=fft, power=power),
        abs(scale) ** power * f,
        rtol=1e-6,
        atol=1e-6 * abs(scale) ** power,
    )


@each_fft
@each_shape
def test_brightness_and_contrast_do_not_matter(shape, fft):
    X = rows_of(shape)
    model = FourierFeatures(shape, fft=fft).fit(X)
    expected = model.transform(X)
    assert_allclose(model.transform(40 * X + 7), expected, atol=1e-6)
    # Nor do units so large that their squares overflow in float32.
    large = (X * 1e25).astype(np.float32)
    assert_allclose(model.transform(large), expected, atol=2e-3)


@each_fft
def test_rows_have_zero_mean_and_unit_norm(fft, dtype):
    X = rows_of((3, 4, 6)).astype(dtype)
    tolerance = 50 * np.finfo(dtype).eps
    for concatenate in (True, False):
        model = FourierFeatures((3, 4, 6), fft=fft, concatenate=concatenate)
        rows = model.fit_transform(X)
        assert rows.dtype == dtype
        assert_allclose(rows.mean(axis=1), 0, atol=tolerance)
        assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=tolerance)


def test_the_picture_comes_first_then_the_spectrum_alone():
    X = rows_of((4, 6))
    both = FourierFeatures((4, 6)).fit_transform(X) * np.sqrt(2)
    assert_allclose(both[:, :24], UnitNormalizer().fit_transform(X), rtol=1e-12)
    assert_allclose(both[:, 24:], spectrum_of(X, (4, 6)), rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 255.0])
@each_fft
def test_a_constant_row_becomes_zero(fft, value, dtype):
    X = np.full((2, 49), value, dtype=dtype)
    assert_array_equal(FourierFeatures((7, 7), fft=fft).fit_transform(X), 0)


@each_fft
def test_float32_is_close_to_float64(fft):
    X = np.round(rows_of((28, 28)) * 40)
    double = FourierFeatures((28, 28), fft=fft).fit_transform(X)
    single = FourierFeatures((28, 28), fft=fft).fit_transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, double, atol=1e-4)


# ---- blocks, types, tools --------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("block_bytes", [1, 3000, 10_000, 10**9])
@each_fft
def test_blocks_of_any_size_give_the_same(
    fft, block_bytes, workers, dtype, monkeypatch
):
    monkeypatch.setattr(_fourier, "n_workers", lambda X: workers)
    X = rows_of((3, 4, 5), n=17).astype(dtype)
    whole = fourier_features(X, (3, 4, 5), fft=fft, block_bytes=10**9)
    blocks = fourier_features(X, (3, 4, 5), fft=fft, block_bytes=block_bytes)
    assert_allclose(blocks, whole, atol=4 * np.finfo(dtype).eps)


def test_no_block_has_more_rows_than_asked(monkeypatch):
    seen = []

    def spy(X, *args, **kwargs):
        seen.append(X.nbytes)
        return fourier_modulus(X, *args, **kwargs)

    monkeypatch.setattr(_fourier, "fourier_modulus", spy)
    fourier_features(rows_of((28, 28), n=50), (28, 28), block_bytes=200_000)
    assert len(seen) > 5
    assert max(seen) < 200_000


@pytest.mark.parametrize("kind", ["uint8", "int64", "bool", "float16"])
def test_other_types_are_their_values(kind):
    X = (rows_of((4, 6)) * 10).astype(kind)
    X[:, 0] = 0  # no constant row
    given = FourierFeatures((4, 6)).fit_transform(X)
    assert given.dtype == np.float64
    assert_to_rounding(
        given, FourierFeatures((4, 6)).fit_transform(X.astype(np.float64))
    )


@pytest.mark.parametrize("order", ["C", "F"])
def test_read_only_rows_in_any_order_stay_as_they_are(order, dtype):
    X = np.array(rows_of((3, 4, 4)), dtype=dtype, order=order)
    before = X.copy()
    X.flags.writeable = False
    for concatenate in (True, False):
        model = FourierFeatures((3, 4, 4), concatenate=concatenate).fit(X)
        assert not np.shares_memory(model.transform(X), X)
    assert_array_equal(X, before)


def test_shape_as_a_list_and_pickle():
    X = rows_of((4, 6))
    model = FourierFeatures([4, 6], fft="2d").fit(X)
    assert model.image_shape == [4, 6]
    assert model.image_shape_ == (4, 6)
    again = pickle.loads(pickle.dumps(model))
    assert_to_rounding(again.transform(X), model.transform(X))


def test_unit_rows_in_front_change_nothing():
    X = rows_of((4, 6))
    chain = make_pipeline(UnitNormalizer(), FourierFeatures((4, 6)))
    expected = FourierFeatures((4, 6)).fit_transform(X)
    assert_allclose(chain.fit_transform(X), expected, atol=1e-10)
    assert len(chain.get_feature_names_out()) == expected.shape[1]


def test_names_tell_the_frequency():
    X = rows_of((3, 2, 4))
    names = FourierFeatures((3, 2, 4)).fit(X).get_feature_names_out()
    assert list(names[[0, 23, 24, 25, 26, -1]]) == [
        "x0",
        "x23",
        "fourier0_0_0",
        "fourier0_0_1",
        "fourier0_1_0",
        "fourier2_1_1",
    ]
    alone = FourierFeatures((3, 2, 4), fft="1d", concatenate=False).fit(X)
    assert list(alone.get_feature_names_out()) == [f"fourier{k}" for k in range(12)]


@each_fft
@each_shape
@pytest.mark.parametrize("concatenate", [True, False])
def test_every_feature_has_one_name(shape, fft, concatenate):
    X = rows_of(shape)
    model = FourierFeatures(shape, fft=fft, concatenate=concatenate).fit(X)
    names = model.get_feature_names_out()
    assert len(set(names)) == len(names) == model.transform(X).shape[1]


# ---- what users get wrong --------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"image_shape": (5, 5)}, r"\(5, 5\) has 5 \* 5 = 25 .*n_features=24"),
        ({"image_shape": (4, -6)}, "not a shape; pass a tuple"),
        ({"image_shape": (4.0, 6.0)}, "not a shape"),
        ({"image_shape": (True, 24)}, "not a shape"),
        ({"image_shape": ()}, "not a shape"),
        ({"image_shape": 24}, "image_shape=24 is not a shape"),
        ({"image_shape": "ab"}, "image_shape='ab' is not a shape"),
        ({"fft": "3d"}, "fft='3d' must be one of .* Use '1d'"),
        ({"fft": None}, "fft=None"),
        ({"power": 0}, "power=0 must be a positive, finite number. Use 0.5"),
        ({"power": -1.0}, "power=-1.0"),
        ({"power": float("nan")}, "power=nan"),
        ({"power": float("inf")}, "power=inf"),
        ({"power": "sqrt"}, "power='sqrt'"),
        ({"power": True}, "power=True"),
        ({"concatenate": "no"}, "concatenate='no' must be True or False. Use True"),
    ],
)
def test_wrong_parameters_are_refused(params, match):
    with pytest.raises(ValueError, match=match):
        FourierFeatures(**params).fit(rows_of((4, 6)))


def test_channels_that_come_last_are_noticed():
    X = rows_of((8, 9, 3))
    with pytest.warns(UserWarning, match=r"channels come last.*\(3, 8, 9\)"):
        FourierFeatures((8, 9, 3)).fit(X)
