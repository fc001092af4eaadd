"""Results of ``compare_kernels``: a score for each kernel, and tables of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kaucus.evaluation._drawing import new_axes
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

    Examples
    --------
    >>> from kaucus.datasets import make_rings
    >>> from kaucus.evaluation import compare_kernels
    >>> X, _ = make_rings(60, random_state=0)
    >>> one = compare_kernels(X, 2, kernels=["linear"], random_state=0).scores[0]
    >>> one.name, one.n_clusters, one.labels.shape
    ('linear', 2, (60,))
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

    Examples
    --------
    >>> from kaucus.datasets import make_rings
    >>> from kaucus.evaluation import compare_kernels
    >>> X, _ = make_rings(60, random_state=0)
    >>> found = compare_kernels(X, 2, kernels=["linear", "rbf"], random_state=0)
    >>> found.best.name in ("linear", "rbf")
    True
    >>> found.columns()[:3]
    ('name', 'objective', 'explained')
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

    def plot(self, *, y="score", ax=None, **style):
        """Draw a score over the number of clusters, a line for each kernel.

        Parameters
        ----------
        y : str, default="score"
            A column of numbers, such as ``"stability"``.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **style : dict
            Passed on to matplotlib's ``plot``.

        Returns
        -------
        KernelComparisonDisplay
        """
        return KernelComparisonDisplay(self).plot(y=y, ax=ax, **style)

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


class KernelComparisonDisplay:
    """Scores of kernels over the number of clusters.

    Parameters
    ----------
    comparison : KernelComparison

    Examples
    --------
    >>> from kaucus.datasets import make_rings
    >>> from kaucus.evaluation import compare_kernels
    >>> X, _ = make_rings(60, random_state=0)
    >>> found = compare_kernels(X, [2, 3], kernels=["rbf"], random_state=0)
    >>> display = KernelComparisonDisplay.from_comparison(found, y="stability")
    >>> display.ax_.get_ylabel()
    'stability'
    """

    def __init__(self, comparison):
        self.comparison = comparison

    @classmethod
    def from_comparison(cls, comparison, *, y="score", ax=None, **style):
        """Make the display of what ``compare_kernels`` returned, and draw it.

        Parameters
        ----------
        comparison : KernelComparison
            With several numbers of clusters: ``compare_kernels(X, range(2, 10))``.
        y : str, default="score"
        ax : matplotlib Axes, default=None
        **style : dict
            Passed on to matplotlib's ``plot``.

        Returns
        -------
        KernelComparisonDisplay
        """
        return cls(comparison).plot(y=y, ax=ax, **style)

    def plot(self, *, y="score", ax=None, **style):
        """Draw the scores; the best of all is marked.

        Parameters
        ----------
        y : str, default="score"
            A column of numbers, such as ``"stability"``.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **style : dict
            Passed on to matplotlib's ``plot``.

        Returns
        -------
        KernelComparisonDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        known = [name for name in self.comparison.columns() if name != "name"]
        if y not in known:
            raise ValueError(f"y={y!r} is no column of numbers; use one of {known}.")
        ax = new_axes(ax)
        scores = self.comparison.scores
        for name in dict.fromkeys(one.name for one in scores):
            own = [one for one in scores if one.name == name]
            numbers = [one.n_clusters for one in own]
            values = [getattr(one, y) for one in own]
            ax.plot(numbers, values, **{"marker": ".", "label": name, **style})
        best = self.comparison.best
        ax.plot(best.n_clusters, getattr(best, y), "o", mfc="none", ms=11, color="C3")
        ax.set(xlabel="number of clusters", ylabel=y)
        ax.set_xticks(sorted({one.n_clusters for one in scores}))
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _as_text(columns, rows: list[list[Any]]) -> str:
    texts = [[round(v, 3) if isinstance(v, float) else v for v in row] for row in rows]
    return format_table(columns, texts)
