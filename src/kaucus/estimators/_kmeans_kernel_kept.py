"""What a stream of rows leaves behind, on the host."""

from typing import NamedTuple

import numpy as np

from kaucus.backend import astype, concat_rows, dtype_name
from kaucus.solvers import RunningSums


class KeptRows(NamedTuple):
    """Rows on the host, in the order in which they came."""

    rows: np.ndarray
    """Or a CSR matrix."""
    targets: np.ndarray
    """Numbers of classes, (n,), or the targets of a regressor, (n, t)."""
    weight: np.ndarray
    keys: np.ndarray
    """Random numbers: those of the least are the sample."""

    def and_then(self, other: "KeptRows") -> "KeptRows":
        """Return both."""
        rows = concat_rows(self.rows, astype(other.rows, dtype_name(self.rows)))
        pairs = zip(self[1:], other[1:], strict=True)
        return KeptRows(rows, *(np.concatenate(pair) for pair in pairs))

    def sample(self, n: int) -> "KeptRows":
        """Return n rows at random; all where there are fewer."""
        if len(self.keys) <= n:
            return self
        some = np.sort(np.argpartition(self.keys, n)[:n])
        return KeptRows(*(part[some] for part in self))

    def scaled(self, total: float) -> "KeptRows":
        """Return the rows with weights that sum to ``total``."""
        share = total / max(self.weight.sum(), 1e-300)
        return self if share == 1 else self._replace(weight=self.weight * share)


class Stream(NamedTuple):
    """All that a model remembers of earlier parts."""

    kept: KeptRows
    n_seen: int
    total: float
    """Weight of all rows seen."""
    groups: np.ndarray
    """Rows seen of each class; of all, for a regressor."""
    rng: np.random.Generator
    """Draws the keys."""
    all_kept: bool
    n_chosen: int = 0
    """Rows seen when the model was chosen."""
    n_tuned: int = 0
    """Rows seen when kernel and C were chosen."""
    n_C: int = 0
    """Rows seen when C was looked at again; 0: it is due as soon as rows are gone."""
    groups_chosen: np.ndarray | None = None
    """``groups`` at that time."""
    sums: RunningSums | None = None
    """Equations of all rows seen; None: to be made of the rows kept."""
    precision: str | None = None
    """Of the kernel in these equations."""
