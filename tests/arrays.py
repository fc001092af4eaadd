"""Arrays of any library from NumPy ones, and back, for the tests."""

import numpy as np

from kaucus._array.namespace import to_numpy

EPS = {"float32": 2.0**-23, "float64": 2.0**-52}


def array(xp, values, dtype=None):
    """Return a copy of ``values`` as an array of the library ``xp``."""
    values = np.array(values, dtype=dtype)
    return xp.asarray(values)


def assert_close(got, expected, *, rtol=1e-7, atol=0.0):
    """Compare arrays of any libraries by value."""
    np.testing.assert_allclose(
        to_numpy(got), to_numpy(expected), rtol=rtol, atol=atol, strict=False
    )


def same_bits(got, expected):
    """Tell whether two arrays have the same dtype, shape and bits."""
    got, expected = to_numpy(got), to_numpy(expected)
    return (
        got.dtype == expected.dtype
        and got.shape == expected.shape
        and got.tobytes() == expected.tobytes()
    )
