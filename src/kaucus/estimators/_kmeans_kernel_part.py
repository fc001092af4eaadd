"""The rows that a fit is of, all of them or a part, and those it has not seen."""

from typing import NamedTuple

import numpy as np

from kaucus.backend import is_sparse, take_rows, to_numpy
from kaucus.estimators._kernel_input import beside


class Part(NamedTuple):
    """Some rows of many, renumbered; ``Part(None)`` is all of them as they are."""

    numbers: np.ndarray | None
    """Ascending, or None."""

    def take(self, values):
        """Return the part of rows, targets or weights; None stays None."""
        if self.numbers is None or values is None:
            return values
        there = self.numbers if is_sparse(values) else beside(values, self.numbers)
        return take_rows(values, there)

    def has(self, rows: np.ndarray) -> np.ndarray:
        """Tell which of the rows are in the part."""
        if self.numbers is None:
            return np.ones(len(rows), dtype=bool)
        return np.isin(rows, self.numbers)

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Return the new numbers of rows that are in the part."""
        if self.numbers is None:
            return rows
        return np.searchsorted(self.numbers, rows)

    def rows_at(self, places: np.ndarray) -> np.ndarray:
        """Return the old numbers of rows, given the new ones."""
        return places if self.numbers is None else self.numbers[places]


class Unseen(NamedTuple):
    """Decision values of rows by a model that has not seen them."""

    values: np.ndarray
    """(n, t)."""
    labels: np.ndarray
    weight: np.ndarray | None

    @classmethod
    def of(cls, values, labels, weight, some: np.ndarray) -> "Unseen":
        """Return the values, which are of some of the rows, with their labels."""
        values = np.empty((0, 1)) if values is None else to_numpy(values)
        return cls(values, labels[some], None if weight is None else weight[some])

    def and_also(self, other: "Unseen") -> "Unseen":
        """Return both; one of them may be empty."""
        if len(self.labels) == 0 or len(other.labels) == 0:
            return other if len(self.labels) == 0 else self
        pairs = zip(self, other, strict=True)
        return Unseen(*(None if a is None else np.r_[a, b] for a, b in pairs))
