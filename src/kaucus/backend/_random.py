"""One NumPy ``Generator`` in, arrays of any library out.

All random numbers are drawn by NumPy and then moved: the same seed gives the same
numbers on every library and device, and no library's global generator is touched.
"""

import numpy as np

from kaucus.backend._namespace import Array, as_like, dtype_name

# See draw_some.
_MANY_ROWS = 2**20


def generator_from(random_state: object) -> np.random.Generator:
    """Turn scikit-learn's ``random_state`` into a ``Generator``.

    ``None`` gives fresh entropy, an int a seed; a ``Generator`` is used as it is; a
    ``RandomState`` gives the seed of a new one, so that it advances as scikit-learn
    users expect.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if random_state is None:
        return np.random.default_rng()
    is_int = isinstance(random_state, int | np.integer)
    if is_int and not isinstance(random_state, bool) and random_state >= 0:
        return np.random.default_rng(int(random_state))
    raise ValueError(
        f"random_state={random_state!r} cannot seed a generator; "
        "pass None, an int of 0 or more, a RandomState or a Generator."
    )


def random_normal(rng: np.random.Generator, shape: tuple[int, ...], like: Array):
    """Draw standard normal numbers, in the library, device and precision of ``like``.

    Drawn in float64 and rounded, so that float32 and float64 see the same draw.
    """
    return as_like(rng.standard_normal(shape), like, dtype=dtype_name(like))


def random_rows(rng: np.random.Generator, n_rows: int, size: int, like: Array):
    """Draw ``size`` different row numbers out of ``n_rows``, in random order."""
    return as_like(draw_some(rng, n_rows, size), like)


def draw_some(
    rng: np.random.Generator, rows: int | np.ndarray, size: int
) -> np.ndarray:
    """Draw ``size`` different rows in random order; all where there are fewer.

    ``rows`` are their numbers, or how many there are. Millions are not put in order as
    a whole: that takes longer than a pass over them on a cluster.
    """
    n = rows if isinstance(rows, int) else len(rows)
    if n > _MANY_ROWS and size < n:
        some = rng.choice(n, size, replace=False)
    else:
        some = rng.permutation(n)[:size]
    return some if isinstance(rows, int) else rows[some]
