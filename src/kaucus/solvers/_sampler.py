"""Random blocks of rows without replacement: each row once in a pass."""

from typing import Any

import numpy as np


class BlockSampler:
    """Cuts random permutations of n rows into blocks, and shuffles anew when through.

    Parameters
    ----------
    n : int
    block_size : int
        The largest block. A pass has ⌈n / block_size⌉ blocks, all of nearly one size,
        so that no row is left over (the paper leaves out the remainder).
    rng : numpy.random.Generator
    """

    def __init__(self, n: int, block_size: int, rng: np.random.Generator) -> None:
        self.blocks_per_pass = -(-n // block_size)
        self.rng = rng
        self._n = n
        self._order = np.arange(n)
        self._position = self.blocks_per_pass  # through: the first draw shuffles

    def draw(self) -> np.ndarray:
        """Return the rows of the next block."""
        if self._position == self.blocks_per_pass:
            self._order, self._position = self.rng.permutation(self._n), 0
        cuts = np.linspace(0, self._n, self.blocks_per_pass + 1).astype(np.intp)
        start, stop = cuts[self._position], cuts[self._position + 1]
        self._position += 1
        return self._order[start:stop]

    def state(self) -> dict[str, Any]:
        """Return what :meth:`restore` needs."""
        return {
            "order": self._order,
            "position": self._position,
            "generator": self.rng.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where :meth:`state` was asked."""
        self._order, self._position = state["order"], state["position"]
        self.rng.bit_generator.state = state["generator"]
