"""Each point lies in the region of its class, and seeds decide everything."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ks_2samp

from kaucus.datasets import make_cassini, make_rings, make_smiley
from papers.datasets import load_shapes
from tests.arrays import assert_to_rounding

GENERATORS = [make_smiley, make_cassini, make_rings]


def in_oval(x, y, a, c):
    """The product of the distances to the foci (−c, 0) and (c, 0) is below a²."""
    return np.hypot(x - c, y) * np.hypot(x + c, y) < a**2


def in_lower_banana(x, y):
    """Above the line y = −1.1 the thin oval, below it the wide one."""
    e = np.sqrt((1 + 0.97**2) / 3)
    above, v = y > -1.1, y + 1.1
    return np.where(above, in_oval(x, v, 1, 0.97), in_oval(x, v, e * np.sqrt(2), e))


def assert_cassini(X, y):
    x, y_axis = X.T
    assert in_lower_banana(x[y == 0], y_axis[y == 0]).all()
    assert in_lower_banana(x[y == 1], -y_axis[y == 1]).all()
    assert (np.hypot(x[y == 2], y_axis[y == 2]) < 0.6).all()


@pytest.mark.parametrize(
    ("n_samples", "counts"),
    [(500, [83, 83, 125, 209]), (4, [1, 1, 1, 1]), (9, [2, 2, 2, 3])],
)
def test_smiley_counts_round_half_to_even(n_samples, counts):
    X, y = make_smiley(n_samples, random_state=0)
    assert X.shape == (n_samples, 2)
    assert y.dtype == np.int64
    assert np.bincount(y).tolist() == counts
    assert (np.diff(y) >= 0).all()


def test_smiley_geometry():
    X, y = make_smiley(60_000, random_state=1)
    left, right, nose, mouth = (X[y == label] for label in range(4))
    for eye, center in ((left, (-0.8, 1)), (right, (0.8, 1))):
        assert_allclose(eye.mean(axis=0), center, atol=0.01)
        assert_allclose(eye.std(axis=0), 0.1, rtol=0.05)
    assert (np.abs(nose[:, 0]) <= 0.2 * (1 - nose[:, 1])).all()
    assert_allclose([nose[:, 1].min(), nose[:, 1].max()], [0, 0.75], atol=0.01)
    assert_allclose([mouth[:, 0].min(), mouth[:, 0].max()], [-1, 1], atol=0.01)
    height = mouth[:, 1] - (mouth[:, 0] ** 2 - 1)
    assert_allclose(height.mean(), 0, atol=0.002)
    assert_allclose(height.std(), 0.05, rtol=0.05)


def test_smiley_without_spread():
    X, y = make_smiley(100, eye_std=0, mouth_std=0, random_state=0)
    assert_array_equal(X[y == 0], np.tile([-0.8, 1.0], (17, 1))[: (y == 0).sum()])
    assert_allclose(X[y == 3, 1], X[y == 3, 0] ** 2 - 1)


@pytest.mark.parametrize("n_samples", [3, 10, 1000, 5000])
def test_cassini_geometry(n_samples):
    X, y = make_cassini(n_samples, random_state=0)
    assert X.shape == (n_samples, 2)
    assert_cassini(X, y)


@pytest.mark.parametrize(
    ("relsize", "counts"),
    [((2, 2, 1), [400, 400, 200]), ([1, 1, 1], [333, 333, 334]), ((1, 5, 4), None)],
)
def test_cassini_relsize(relsize, counts):
    _, y = make_cassini(relsize=relsize, random_state=0)
    assert np.bincount(y).tolist() == (counts or [100, 500, 400])


def test_cassini_fills_its_regions():
    X, y = make_cassini(50_000, random_state=0)
    disc, radius = X[y == 2], 0.6
    # Uniform in a disc: the squared radius is uniform.
    assert_allclose((disc**2).sum(axis=1).mean(), radius**2 / 2, rtol=0.02)
    lower = X[y == 0]
    assert_allclose(np.abs(lower[:, 0]).max(), np.sqrt(1 + 0.97**2), rtol=0.02)
    assert ks_2samp(lower[:, 0], X[y == 1][:, 0]).pvalue > 1e-3
    assert ks_2samp(lower[:, 1], -X[y == 1][:, 1]).pvalue > 1e-3


@pytest.mark.data
def test_cassini_is_drawn_like_the_published_draw(data_home):
    theirs, labels = load_shapes("cassini", data_home=data_home, return_X_y=True)
    assert_cassini(theirs, labels - 1)
    ours, y = make_cassini(20_000, random_state=0)
    for label in range(3):
        for axis in range(2):
            a, b = theirs[labels == label + 1, axis], ours[y == label, axis]
            assert ks_2samp(a, b).pvalue > 1e-3
            assert abs(a.mean() - b.mean()) < 4 * a.std() / np.sqrt(len(a))
            assert_allclose(a.std(), b.std(), rtol=0.1)


@pytest.mark.parametrize("radii", [(1, 5), [3.0], (0, 1, 2, 3)])
def test_rings_without_noise_lie_on_their_circles(radii):
    X, y = make_rings(101, radii=radii, noise=0, random_state=0)
    assert_allclose(np.hypot(*X.T), np.take(radii, y), atol=1e-12)


@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_noisy_rings(noise):
    X, y = make_rings(20_000, noise=noise, random_state=0)
    distance = np.hypot(*X.T) - np.take((1, 5), y)
    assert np.abs(distance).max() < 6 * noise
    assert_allclose(distance[y == 1].std(), noise, rtol=0.05)
    angle = np.arctan2(X[:, 1], X[:, 0])
    assert_allclose(np.histogram(angle, 8)[0] / len(X), 1 / 8, rtol=0.1)


@pytest.mark.parametrize(
    ("n_samples", "counts"),
    [(399, [133, 133, 133]), (400, [134, 133, 133]), (3, [1] * 3)],
)
def test_rings_share_evenly(n_samples, counts):
    _, y = make_rings(n_samples, radii=(1, 2, 3), random_state=0)
    assert np.bincount(y).tolist() == counts


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize(
    "source",
    [int, np.random.RandomState, np.random.default_rng],
    ids=lambda f: f.__name__,
)
def test_the_seed_decides_everything(make, source):
    X, y = make(50, random_state=source(3))
    again, same = make(50, random_state=source(3))
    other, _ = make(50, random_state=source(4))
    assert_to_rounding(X, again)
    assert_to_rounding(y, same)
    assert not np.array_equal(X, other)


@pytest.mark.parametrize("make", GENERATORS)
def test_a_generator_moves_on_and_the_global_one_stays(make):
    rng = np.random.default_rng(0)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = make(50, random_state=rng)[0], make(50, random_state=rng)[0]
    make(50, random_state=0)
    assert not np.array_equal(first, second)
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (make_smiley, {"n_samples": 3}, r"n_samples=3; pass an integer >= 4"),
        (make_smiley, {"n_samples": 50.0}, r"n_samples=50.0; pass an integer"),
        (make_smiley, {"eye_std": -1}, r"eye_std=-1; pass a number >= 0"),
        (make_smiley, {"mouth_std": np.nan}, r"mouth_std=nan; pass a number >= 0"),
        (make_cassini, {"n_samples": 2}, r"n_samples=2; pass an integer >= 3"),
        (make_cassini, {"relsize": (1, 1)}, r"relsize=\(1, 1\); pass three numbers"),
        (make_cassini, {"relsize": (1, 1, 0)}, r"relsize=\(1, 1, 0\); pass three"),
        (make_rings, {"n_samples": 1}, r"n_samples=1; pass an integer >= 2"),
        (make_rings, {"radii": ()}, r"radii=\(\); pass one or more numbers >= 0"),
        (make_rings, {"radii": (1, -2)}, r"radii=\(1, -2\); pass one or more"),
        (make_rings, {"noise": -0.1}, r"noise=-0.1; pass a number >= 0"),
    ],
)
def test_wrong_parameters_are_named(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_arguments_stay_as_they_were():
    radii, relsize = np.array([1.0, 5.0]), [2, 2, 1]
    make_rings(radii=radii, random_state=0)
    make_cassini(relsize=relsize, random_state=0)
    assert radii.tolist() == [1.0, 5.0]
    assert relsize == [2, 2, 1]
