"""Sketch many rows by a few signed sums of them: a sparse sign embedding."""

import numpy as np

from kaucus.backend import Array, as_like, map_blocks, n_workers, segment_sum

# Entries, of ±½, in each column of Φ.
N_ENTRIES = 4


class SignEmbedding:
    """The random matrix Φ, (s, n): a sign for each column in each quarter of rows.

    Rows of one sign are summed apart from those of the other, so that no row need be
    multiplied by its sign.

    Parameters
    ----------
    n : int
        Rows that are sketched.
    n_rows : int
        s, or up to three less.
    rng : numpy.random.Generator
    """

    def __init__(self, n: int, n_rows: int, rng: np.random.Generator) -> None:
        self.height = -(-n_rows // N_ENTRIES)
        self.n_rows = self.height * N_ENTRIES
        self._labels = rng.integers(2 * self.height, size=(N_ENTRIES, n))

    def add(self, sketch: Array, A: Array, block: slice) -> Array:
        """Return the sketch with Φ of some rows of ``A``, (b, k), in its memory."""

        def part(labels: np.ndarray) -> Array:
            both = segment_sum(A, as_like(labels, A), 2 * self.height)
            return (both[: self.height, :] - both[self.height :, :]) / N_ENTRIES**0.5

        parts = map_blocks(part, self._labels[:, block], workers=n_workers(A))
        for k, values in enumerate(parts):
            sketch[k * self.height : (k + 1) * self.height, :] += values
        return sketch
