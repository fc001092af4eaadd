"""Generators of labelled points in the plane.

Smiley and Cassini follow the generators of R's package mlbench [1]_. Rows come class by
class, and classes are counted from 0.

References
----------
.. [1] F. Leisch, E. Dimitriadou, "mlbench: Machine Learning Benchmark Problems",
   R package.
"""

from collections.abc import Callable, Sequence
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

RandomState = int | np.random.RandomState | np.random.Generator | None
# Both kinds of generator have the methods used here: normal and uniform.
Rng = np.random.RandomState | np.random.Generator

__all__ = ["make_smiley", "make_cassini", "make_rings"]

# Cassini: the ovals of its two bananas, and the radius of the disc between them.
OUTER_A, OUTER_C = np.sqrt(2 * (1 + 0.97**2) / 3), np.sqrt((1 + 0.97**2) / 3)
INNER_A, INNER_C = 1.0, 0.97
HALF_WIDTH = np.sqrt(INNER_A**2 + INNER_C**2)
SHIFT = 1.1
DISC_RADIUS = 0.6


def make_smiley(
    n_samples: int = 500,
    *,
    eye_std: float = 0.1,
    mouth_std: float = 0.05,
    random_state: RandomState = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a face: two Gaussian eyes, a trapezoid nose, a parabola as its mouth.

    Parameters
    ----------
    n_samples : int, default=500
        Number of points, 4 or more: each eye gets a sixth, the nose a quarter, the
        mouth the rest.
    eye_std : float, default=0.1
        Standard deviation of an eye in both directions.
    mouth_std : float, default=0.05
        Standard deviation of the mouth around its parabola.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points.
    y : ndarray of int64 of shape (n_samples,)
        Left eye 0, right eye 1, nose 2, mouth 3.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.datasets import make_smiley
    >>> X, y = make_smiley(random_state=0)
    >>> np.bincount(y).tolist()
    [83, 83, 125, 209]
    """
    _check(n_samples, 4, eye_std=eye_std, mouth_std=mouth_std)
    rng = _as_rng(random_state)
    n_eye, n_nose = round(n_samples / 6), round(n_samples / 4)
    n_mouth = n_samples - 2 * n_eye - n_nose
    left = rng.normal((-0.8, 1.0), eye_std, (n_eye, 2))
    right = rng.normal((0.8, 1.0), eye_std, (n_eye, 2))
    height = rng.uniform(0, 0.75, n_nose)
    nose = np.column_stack([rng.uniform(-0.2, 0.2, n_nose) * (1 - height), height])
    across = rng.uniform(-1, 1, n_mouth)
    mouth = np.column_stack([across, across**2 - 1 + rng.normal(0, mouth_std, n_mouth)])
    return _stack([left, right, nose, mouth])


def make_cassini(
    n_samples: int = 1000,
    *,
    relsize: Sequence[float] = (2, 2, 1),
    random_state: RandomState = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw two bananas, one below and one above a disc, by rejection.

    With h(x; a, c) = √(−c² − x² + √(a⁴ + 4c²x²)), the upper half of a Cassini oval, the
    lower banana is −h(x; √2·e, e) − t < y < h(x; 1, 0.97) − t, where
    e² = (1 + 0.97²)/3 and t = 1.1; the upper one is its mirror image; the disc has
    radius 0.6.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of points.
    relsize : sequence of 3 float, default=(2, 2, 1)
        Sizes of the classes, up to a common factor; the last one takes what rounding
        leaves.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points, uniform in each region.
    y : ndarray of int64 of shape (n_samples,)
        Lower banana 0, upper banana 1, disc 2.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.datasets import make_cassini
    >>> X, y = make_cassini(random_state=0)
    >>> np.bincount(y).tolist()
    [400, 400, 200]
    """
    _check(n_samples, 3)
    if len(relsize) != 3 or not all(size > 0 for size in relsize):
        raise ValueError(f"relsize={relsize!r}; pass three numbers > 0.")
    n_lower, n_upper = (round(n_samples * s / sum(relsize)) for s in relsize[:2])
    rng = _as_rng(random_state)
    low, high = (-HALF_WIDTH, -SHIFT - 1), (HALF_WIDTH, -SHIFT + 0.6)
    lower = _rejection_sample(rng, n_lower, low, high, _in_lower_banana)
    low, high = (-HALF_WIDTH, SHIFT - 0.6), (HALF_WIDTH, SHIFT + 1)
    upper = _rejection_sample(
        rng, n_upper, low, high, lambda x, y: _in_lower_banana(x, -y)
    )
    low, high = (-DISC_RADIUS, -DISC_RADIUS), (DISC_RADIUS, DISC_RADIUS)
    n_disc = n_samples - n_lower - n_upper
    disc = _rejection_sample(
        rng, n_disc, low, high, lambda x, y: x**2 + y**2 < DISC_RADIUS**2
    )
    return _stack([lower, upper, disc])


def make_rings(
    n_samples: int = 400,
    *,
    radii: Sequence[float] = (1, 5),
    noise: float = 0.2,
    random_state: RandomState = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rings around the origin, with Gaussian noise added to each point.

    Parameters
    ----------
    n_samples : int, default=400
        Number of points, shared evenly; the first rings take what division leaves.
    radii : sequence of float, default=(1, 5)
        Radius of each ring.
    noise : float, default=0.2
        Standard deviation of the noise in both directions.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points, at angles drawn uniformly.
    y : ndarray of int64 of shape (n_samples,)
        Number of the ring, in the order of ``radii``.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.datasets import make_rings
    >>> X, y = make_rings(399, noise=0, random_state=0)
    >>> np.unique(np.hypot(*X.T).round(9)).tolist()
    [1.0, 5.0]
    """
    if not len(radii) or not all(radius >= 0 for radius in radii):
        raise ValueError(f"radii={radii!r}; pass one or more numbers >= 0.")
    _check(n_samples, len(radii), noise=noise)
    rng = _as_rng(random_state)
    each, rest = divmod(n_samples, len(radii))
    counts = [each + (ring < rest) for ring in range(len(radii))]
    return _stack([_ring(rng, n, r, noise) for n, r in zip(counts, radii, strict=True)])


def _ring(rng: Rng, n: int, radius: float, noise: float) -> np.ndarray:
    """Return ``n`` noisy points of a circle."""
    angle = rng.uniform(0, 2 * np.pi, n)
    circle = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return circle + rng.normal(0, noise, (n, 2))


def _oval(x: np.ndarray, a: float, c: float) -> np.ndarray:
    """Return h(x; a, c), with NaN, which no comparison accepts, where there is none."""
    square = -(c**2) - x**2 + np.sqrt(a**4 + 4 * c**2 * x**2)
    return np.sqrt(np.where(square < 0, np.nan, square))


def _in_lower_banana(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    bottom = -_oval(x, OUTER_A, OUTER_C) - SHIFT
    return (bottom < y) & (y < _oval(x, INNER_A, INNER_C) - SHIFT)


def _rejection_sample(
    rng: Rng,
    n: int,
    low: Sequence[float],
    high: Sequence[float],
    accept: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return ``n`` uniform points of a box that ``accept`` admits."""
    kept = np.empty((0, 2))
    while len(kept) < n:
        # Twice what is missing: every region here fills over half of its box.
        points = rng.uniform(low, high, (2 * (n - len(kept)), 2))
        kept = np.concatenate([kept, points[accept(*points.T)]])
    return kept[:n]


def _stack(classes: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of all classes, and the number of each point's class."""
    counts = [len(points) for points in classes]
    return np.concatenate(classes), np.repeat(np.arange(len(classes)), counts)


def _as_rng(random_state: RandomState) -> Rng:
    """Return a generator; scikit-learn's check does not take the newer kind."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return check_random_state(random_state)


def _check(n_samples: int, at_least: int, **spreads: float) -> None:
    """Check the number of points, and that spreads are not negative."""
    if not isinstance(n_samples, Integral) or n_samples < at_least:
        raise ValueError(f"n_samples={n_samples!r}; pass an integer >= {at_least}.")
    for name, value in spreads.items():
        if not value >= 0:
            raise ValueError(f"{name}={value!r}; pass a number >= 0.")
