"""Results of ``compare_kernels``: a score for each kernel, and tables of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kaucus.evaluation._tables import format_table


@dataclass(frozen=True, kw_only=True)
class KernelScore:
    """Scores of the clusters that one kernel finds.

    Parameters
    ----------
    name : str
        The kernel's.
    n_clusters : int
        Number of clusters.
    objective : float
        Of the best start; in the kernel's own units.
    explained, tightness, stability, silhouette : float
        See the module's text.
    labels : ndarray of shape (n_samples,)
        Clusters of the best start.
    accuracy, ari, nmi : float or None, default=None
        Against the classes, where they were given.
    """

    name: str
    n_clusters: int
    objective: float
    explained: float
    tightness: float
    stability: float
    silhouette: float
    labels: np.ndarray
    accuracy: float | None = None
    ari: float | None = None
    nmi: float | None = None

    @property
    def score(self) -> float:
        """Tightness times stability, by which a kernel is picked."""
        return self.tightness * self.stability


_UNLABELLED = ("objective", "explained", "tightness", "stability", "silhouette")
_LABELLED = ("accuracy", "ari", "nmi")


@dataclass(frozen=True)
class KernelComparison:
    """Scores of several kernels; ``print`` shows them as a table.

    Parameters
    ----------
    scores : tuple of KernelScore
        In the order in which the kernels were given, each with all numbers of clusters;
        the consensus last.
    rows : ndarray or None
        Which rows were compared; None is all.
    consensus : KernelScore or None, default=None
        That of all kernels together, where it was asked for.
    """

    scores: tuple[KernelScore, ...]
    rows: np.ndarray | None
    consensus: KernelScore | None = None

    @property
    def best(self) -> KernelScore:
        """The kernel of the largest score; the classes have no part in it.

        Never the consensus: a kernel made of clusterings is tight by its making.
        """
        kernels = [one for one in self.scores if one is not self.consensus]
        return max(kernels, key=lambda one: one.score)

    @property
    def best_by_n_clusters(self) -> dict[int, KernelScore]:
        """The kernel of the largest score for each number of clusters."""
        numbers = sorted({one.n_clusters for one in self.scores})
        return {k: self._with(k).best for k in numbers}

    def _with(self, n_clusters: int) -> "KernelComparison":
        some = tuple(one for one in self.scores if one.n_clusters == n_clusters)
        return KernelComparison(some, self.rows, self.consensus)

    def columns(self) -> tuple[str, ...]:
        """Return the names of the table's columns."""
        known = self.scores[0].accuracy is not None
        several = len(self.best_by_n_clusters) > 1
        first = ("name", "n_clusters") if several else ("name",)
        return (*first, *_UNLABELLED, "score", *(_LABELLED if known else ()))

    def to_rows(self) -> list[list[Any]]:
        """Return the table's values, best score first."""
        ordered = sorted(self.scores, key=lambda one: -one.score)
        return [[getattr(one, name) for name in self.columns()] for one in ordered]

    def to_pandas(self):
        """Return the table as a pandas DataFrame, best score first."""
        import pandas

        return pandas.DataFrame(self.to_rows(), columns=list(self.columns()))

    def __str__(self) -> str:
        table = _as_text(self.columns(), self.to_rows())
        by_number = self.best_by_n_clusters
        if len(by_number) == 1:
            return table
        columns = ("n_clusters", "name", "tightness", "stability", "score")
        rows = [[getattr(one, c) for c in columns] for one in by_number.values()]
        return f"{table}\n\nbest kernel for each number of clusters\n" + _as_text(
            columns, rows
        )


def _as_text(columns, rows: list[list[Any]]) -> str:
    texts = [[round(v, 3) if isinstance(v, float) else v for v in row] for row in rows]
    return format_table(columns, texts)
