"""Clusters against labels, kernels against each other, and tables as text."""

import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_rand_score,
    normalized_mutual_info_score,
    silhouette_score,
)
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from kaucus._array.blocks import few_threads_for
from kaucus._base import count, generator_from, is_whole, on_host, one_of, step_counter
from kaucus.clustering._kernel_kmeans import (
    best_start,
    kernel_kmeans,
    make_gram,
    total_scatter,
)
from kaucus.evaluation.displays import Display, new_axes
from kaucus.kernels._kernel import (
    Kernel,
    Linear,
    Polynomial,
    Precomputed,
    median_gamma,
    resolve_kernel,
)

# ----------------------------------------------------------------------------------
# Accuracy of clusters against known classes.
# ----------------------------------------------------------------------------------


def clustering_accuracy(y_true, labels) -> float:
    """Return the share of rows in the right cluster, for the best one-to-one naming.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes.
    labels : array-like of shape (n_samples,)
        Clusters; their names do not matter.

    Returns
    -------
    float
        From 0 to 1. With k equal classes, chance is not 1/k but somewhat more, because
        the best of all namings is taken.

    Notes
    -----
    Each cluster stands for one class at most: one that is cut in two is half wrong. The
    naming is an assignment problem, solved by SciPy's ``linear_sum_assignment``.

    Examples
    --------
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    y_true, labels = column_or_1d(on_host(y_true)), column_or_1d(on_host(labels))
    check_consistent_length(y_true, labels)
    if not len(y_true):
        raise ValueError("y_true is empty; pass one class and one label for each row.")
    counts = np.asarray(contingency_matrix(y_true, labels))
    return float(counts[linear_sum_assignment(-counts)].sum() / len(y_true))


# ----------------------------------------------------------------------------------
# Wall time and peak memory of a call.
# ----------------------------------------------------------------------------------


def timed(function: Callable, *args, **kwargs) -> tuple[Any, float]:
    """Call a function; return its result and its wall seconds.

    Examples
    --------
    >>> result, seconds = timed(sum, [1, 2, 3])
    >>> result
    6
    """
    start = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - start


def best_of(repeats: int, function: Callable, *args, **kwargs) -> tuple[Any, float]:
    """Call a function several times; return its last result and its least seconds.

    The least time is the one which other programs on the machine disturbed least.
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats} must be at least 1; pass 1 to run once.")
    runs = [timed(function, *args, **kwargs) for _ in range(repeats)]
    return runs[-1][0], min(seconds for _, seconds in runs)


@dataclass
class MemoryUse:
    """Resident memory in bytes: before a block, and its peak.

    Both are None on systems that do not report it (Windows).
    """

    baseline: int | None = None
    peak: int | None = None

    @property
    def rise(self) -> int | None:
        """Bytes by which the peak exceeds the baseline."""
        if self.baseline is None or self.peak is None:
            return None
        return max(0, self.peak - self.baseline)


@contextmanager
def peak_memory() -> Iterator[MemoryUse]:
    """Context manager: measure the rise of resident memory within the block.

    ``baseline``, ``peak`` and ``rise`` are complete when the block has ended. Linux
    resets the process's earlier peak at entry. Elsewhere the peak is that of the whole
    process, so that a block which stays below an earlier one shows no rise.
    """
    with suppress(OSError):  # Linux: set the peak back to what is used now
        Path("/proc/self/clear_refs").write_text("5")
    use = MemoryUse(baseline=_status_bytes("VmRSS") or _peak_bytes())
    try:
        yield use
    finally:
        use.peak = _peak_bytes()


def _peak_bytes() -> int | None:
    """Return the largest number of resident bytes so far, None on Windows.

    Not ``ru_maxrss`` on Linux: a child inherits its parent's value through exec.
    """
    known = _status_bytes("VmHWM")
    if known is not None or sys.platform == "win32":
        return known
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status_bytes(key: str) -> int | None:
    """Return an entry of Linux's /proc/self/status in bytes, None if absent."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    values = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
    return next((int(value) * 1024 for value in values), None)


# ----------------------------------------------------------------------------------
# Tables as plain text, or drawn on a terminal.
# ----------------------------------------------------------------------------------

_DASH = "–"


def format_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as plain text, numbers to the right, None as a dash.

    >>> print(format_table(["method", "s"], [["ours", 0.5], ["theirs", 12.0]]))
    method    s
    ------  ---
    ours    0.5
    theirs   12
    """
    cells, right, widths = cells_of(headers, rows)
    lines = [padded(headers, widths, right), "  ".join("-" * w for w in widths)]
    lines += [padded(row, widths, right) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    title: str = "",
    file: TextIO | None = None,
) -> None:
    """Print a table to a stream: drawn by rich on a terminal, plain text in a log."""
    file = sys.stdout if file is None else file
    if file.isatty() and importlib.util.find_spec("rich") is not None:
        _print_rich(headers, rows, title, file)
        return
    if title:
        print(title, end="\n\n", file=file)
    print(format_table(headers, rows), file=file)


def format_seconds(seconds: float | None) -> str:
    """Return a duration as text.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(75.2), format_seconds(4000)
    ('12.3 ms', '75.2 s', '66.7 min')
    """
    if seconds is None:
        return _DASH
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 60:.1f} min"


def _print_rich(headers, rows, title: str, file: TextIO) -> None:
    """Draw the table with rich."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells, right, _ = cells_of(headers, rows)
    table = Table(title=title or None, title_justify="left")
    for header, is_right in zip(headers, right, strict=True):
        table.add_column(header, justify="right" if is_right else "left")
    for row in cells:
        table.add_row(*map(Text, row))  # Text: brackets are not rich's mark-up here
    Console(file=file).print(table)


def cells_of(headers, rows) -> tuple[list[list[str]], list[bool], list[int]]:
    """Return cells as text, whether columns are numeric, and column widths."""
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(
                f"A row has {len(row)} values but the table {len(headers)} columns "
                f"({', '.join(headers)}); give one value per column: {list(row)!r}."
            )
    cells = [[cell_text(value) for value in row] for row in rows]
    columns = zip(*cells, strict=True) if cells else [()] * len(headers)
    right = [any(column) and all(map(_is_number, column)) for column in columns]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    return cells, right, widths


def cell_text(value: Any) -> str:
    """Write one value."""
    if value is None:
        return _DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    """Return True if a cell starts like a number, or stands for a missing one."""
    return text in ("", _DASH) or text.lstrip("+-−<>≈ ")[:1].isdigit()


def padded(row, widths, right, gap: str = "  ") -> str:
    """Join one row's values, each filled up to its column's width."""
    parts = zip(row, widths, right, strict=True)
    return gap.join(t.rjust(w) if is_right else t.ljust(w) for t, w, is_right in parts)


# ----------------------------------------------------------------------------------
# Results of ``compare_kernels``: a score for each kernel, and tables of them.
# ----------------------------------------------------------------------------------


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

    scores: Sequence[KernelScore]
    rows: np.ndarray | None
    consensus: KernelScore | None = None

    @property
    def best(self) -> KernelScore:
        """The kernel of the largest score (which ignores the classes).

        Never the consensus: a kernel made of clusterings is tight by its making.
        """
        kernels = [one for one in self.scores if one is not self.consensus]
        return max(kernels, key=lambda one: one.score)

    @property
    def best_by_n_clusters(self) -> dict[int, KernelScore]:
        """The kernel of the largest score for each number of clusters."""
        return {
            k: replace(self, scores=[s for s in self.scores if s.n_clusters == k]).best
            for k in sorted({one.n_clusters for one in self.scores})
        }

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


class KernelComparisonDisplay(Display):
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
    def from_comparison(cls, comparison, *, y="score", ax=None, **style) -> Self:
        """Draw the result of ``compare_kernels``.

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

    def plot(self, *, y="score", ax=None, **style) -> Self:
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
        ax.set_xticks(sorted({one.n_clusters for one in scores}))
        return self._finish(ax, xlabel="number of clusters", ylabel=y)


def _as_text(columns, rows: list[list[Any]]) -> str:
    texts = [[round(v, 3) if isinstance(v, float) else v for v in row] for row in rows]
    return format_table(columns, texts)


# ----------------------------------------------------------------------------------
# Choose a kernel for clustering without labels (the paper leaves it open).
#
# The objective of kernel k-means cannot be compared between kernels: it has the units
# of the kernel. What is compared here has none:
#
#     explained    1 − objective / scatter, the share of the kernel's scatter between
#                  the clusters; falls with the width of the kernel, whatever they are
#     tightness    scatter between the clusters over the most that any k clusters could
#                  have: the k − 1 largest eigenvalues of the centred kernel matrix; 1
#                  where the leading directions of the feature space are the clusters
#     stability    mean adjusted Rand index with clusterings of random subsamples
#     silhouette   mean silhouette, with the distances of the feature space
#
# The pick is the kernel of the largest tightness × stability. Neither is enough alone:
# a kernel so narrow that its matrix is the identity is tight with any clusters, and one
# with a single leading direction is stable wherever it is cut. Where it fails: a wide
# kernel on data without clusters is stable and fairly tight, so the score says which
# kernel, not whether there are clusters at all; and kernels within a few percent of the
# best are no worse than the pick: look at them too.
# ----------------------------------------------------------------------------------

CONSENSUS = one_of(None, "average", "coassociation")
WIDTHS = (1, 4, 16, 64)


def compare_kernels(
    X,
    n_clusters: int | Iterable[int],
    kernels: Mapping[str, Any] | Sequence[Any] | None = None,
    y=None,
    *,
    consensus: str | None = None,
    n_init: int = 30,
    n_subsamples: int = 10,
    max_samples: int = 2000,
    random_state=None,
    verbose: int = 0,
) -> KernelComparison:
    """Compare kernels by clustering the rows with each.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_clusters : int or iterable of int
        Number of clusters, or several, such as ``range(2, 7)``: every kernel is tried
        with each, and the table has a column for it.
    kernels : mapping or sequence, default=None
        Names and kernels, or kernels alone: names that estimators know (with gamma from
        the median distance), kernel objects, functions ``k(X, Y)`` or matrices of shape
        (n_samples, n_samples). None tries :func:`default_kernels`.
    y : array-like of shape (n_samples,), default=None
        Classes. They add columns to the table, and change nothing else.
    consensus : {None, "average", "coassociation"}, default=None
        Adds a kernel made of all: the mean of the centred matrices of unit trace, or
        how often two rows share a cluster, each kernel counted with its score. For one
        number of clusters.
    n_init : int, default=30
        Starts with each kernel.
    n_subsamples : int, default=10
        Subsamples of four fifths of the rows, for the stability.
    max_samples : int, default=2000
        Of more rows a random sample of this size is compared.
    random_state : int, RandomState or Generator, default=None
        Draws starts and subsamples.
    verbose : int, default=0
        1 shows progress on a terminal.

    Returns
    -------
    KernelComparison
        ``best`` is the pick, ``best_by_n_clusters`` that for each number, ``print``
        shows the table.

    Notes
    -----
    Every kernel sees the same starts and subsamples. n² memory, and n³ time per kernel
    for the tightness.

    Examples
    --------
    >>> from kaucus.datasets import make_rings
    >>> from kaucus.kernels import Gaussian
    >>> X, y = make_rings(200, random_state=0)
    >>> kernels = {"linear": "linear", "narrow": Gaussian(20)}
    >>> compared = compare_kernels(X, 2, kernels, y, random_state=0)
    >>> compared.best.name in kernels
    True
    """
    X = check_array(X, dtype=(np.float64, np.float32))
    counts = {"n_init": n_init, "n_subsamples": n_subsamples}
    for name, value in {**counts, "max_samples": max_samples}.items():
        count().check(name, value)
    n_rows = min(max_samples, X.shape[0])
    numbers = _numbers_of_clusters(n_clusters, n_rows, consensus)
    rng = generator_from(random_state)
    named = default_kernels(X) if kernels is None else kernels
    if not isinstance(named, Mapping):
        named = {
            one if isinstance(one, str) else f"{number}: {type(one).__name__}": one
            for number, one in enumerate(named, 1)
        }
    if not named:
        raise ValueError("kernels is empty; pass at least one, or None for a choice.")
    rows = None
    if X.shape[0] > max_samples:
        rows = np.sort(rng.permutation(X.shape[0])[:max_samples])
    classes = None if y is None else column_or_1d(y)
    if classes is not None and len(classes) != X.shape[0]:
        raise ValueError(
            f"y has {len(classes)} classes; expected one for each of the {X.shape[0]} "
            "rows."
        )
    if classes is not None and rows is not None:
        classes = classes[rows]
    scorer = _Scorer(classes, n_init, n_subsamples, int(rng.integers(2**31)))
    matrices = {name: _matrix(kernel, X, rows) for name, kernel in named.items()}
    scores = scorer.scores(matrices, numbers, verbose)
    if consensus is None:
        return KernelComparison(tuple(scores), rows)
    K = _consensus(consensus, list(matrices.values()), scores)
    scores += scorer.scores({f"consensus ({consensus})": K}, numbers)
    return KernelComparison(tuple(scores), rows, scores[-1])


def default_kernels(X) -> dict[str, Any]:
    """Return the kernels that :func:`compare_kernels` tries by itself.

    Linear, polynomial of degree 2; Gaussian, exponential and Cauchy with 1, 4, 16 and
    64 times the gamma of the median heuristic.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)

    Returns
    -------
    dict
        Names and kernel objects.

    Examples
    --------
    >>> import numpy as np
    >>> kernels = default_kernels(np.eye(5))
    >>> len(kernels), list(kernels)[:3]
    (14, ['linear', 'poly 2', 'rbf ×1'])
    """
    X = check_array(X, dtype=(np.float64, np.float32))
    kernels: dict[str, Any] = {"linear": Linear(), "poly 2": Polynomial(2, 1.0, 1.0)}
    for name in ("rbf", "exponential", "cauchy"):
        middle = median_gamma(X, None, name)
        for width in WIDTHS:
            kernels[f"{name} ×{width}"] = resolve_kernel(name, gamma=width * middle)
    return kernels


@dataclass(frozen=True)
class _Scorer:
    """Scores kernel matrices, all with the same starts and subsamples."""

    classes: np.ndarray | None
    n_init: int
    n_subsamples: int
    seed: int

    def scores(
        self, matrices: Mapping[str, np.ndarray], numbers: list[int], verbose: int = 0
    ) -> list[KernelScore]:
        """Return the score of each kernel matrix with each number of clusters."""
        report = step_counter(verbose, len(matrices) * len(numbers), "kernel")
        found: list[KernelScore] = []
        for name, K in matrices.items():
            with few_threads_for(len(K)):
                # All of them: LAPACK's search for a few fails where many are equal.
                eigenvalues = np.linalg.eigvalsh(_centred(K))
            for n_clusters in numbers:
                found.append(self._score(name, K, n_clusters, eigenvalues))
                report()
        return found

    def _score(self, name: str, K: np.ndarray, k: int, eigenvalues) -> KernelScore:
        result, scatter = self._cluster(K, k, self.n_init, self.seed)
        labels = np.asarray(result.labels)
        between = scatter - result.inertia
        # The most scatter that any k clusters can have between them.
        most = float(np.maximum(eigenvalues[len(K) - k + 1 :], 0.0).sum())
        return KernelScore(
            name=name,
            n_clusters=k,
            objective=result.inertia,
            explained=between / scatter if scatter > 0 else 0.0,
            tightness=min(between / most, 1.0) if most > 0 else 0.0,
            stability=self._stability(K, k, labels),
            silhouette=_silhouette(K, labels),
            labels=labels,
            **self._agreement(labels),
        )

    def _cluster(self, K: np.ndarray, n_clusters: int, n_init: int, seed: int):
        kernel = Precomputed(K)
        gram = make_gram(kernel, kernel.row_numbers())
        rng = np.random.default_rng(seed)
        runs = kernel_kmeans(gram, n_clusters, n_init=n_init, rng=rng)
        return best_start(runs), total_scatter(gram)

    def _stability(self, K: np.ndarray, n_clusters: int, labels: np.ndarray) -> float:
        n = len(K)
        size = max(4 * n // 5, n_clusters)
        parent = np.random.default_rng(self.seed)
        agreement = []
        for number, rng in enumerate(parent.spawn(self.n_subsamples)):
            some = np.sort(rng.permutation(n)[:size])
            part = np.ascontiguousarray(K[np.ix_(some, some)])
            n_init = max(self.n_init // 3, 1)
            result, _ = self._cluster(part, n_clusters, n_init, number)
            agreement.append(adjusted_rand_score(labels[some], result.labels))
        return float(np.mean(agreement))

    def _agreement(self, labels: np.ndarray) -> dict[str, float]:
        """Return the scores against the classes, if there are any."""
        if self.classes is None:
            return {}
        return {
            "accuracy": clustering_accuracy(self.classes, labels),
            "ari": float(adjusted_rand_score(self.classes, labels)),
            "nmi": float(normalized_mutual_info_score(self.classes, labels)),
        }


def _numbers_of_clusters(given: Any, n_rows: int, consensus: str | None) -> list[int]:
    """Return the numbers of clusters to try, of ``n_rows`` rows."""
    CONSENSUS.check("consensus", consensus)
    several = isinstance(given, Iterable) and not isinstance(given, str)
    numbers = list(given) if several else [given]
    for k in numbers or [None]:
        if not is_whole(k) or not 2 <= k < n_rows:  # type: ignore[operator]
            raise ValueError(
                f"n_clusters={given!r} must be a whole number, or several, from 2 to "
                f"n_samples - 1 = {n_rows - 1}; one cluster is the same with every "
                "kernel."
            )
    if consensus is not None and len(numbers) > 1:
        raise ValueError(
            f"consensus={consensus!r} is for one number of clusters, got "
            f"n_clusters={given!r}; choose the number first, with consensus=None."
        )
    return [int(k) for k in numbers]


def _matrix(kernel: Any, X: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """Return the kernel matrix of the rows that are compared, in float64."""
    some = X if rows is None else X[rows]
    if isinstance(kernel, np.ndarray):
        if kernel.shape != (len(X), len(X)):
            raise ValueError(
                f"A kernel matrix has shape {kernel.shape}; expected one row and one "
                f"column for each of the {len(X)} rows of X."
            )
        K = kernel if rows is None else kernel[np.ix_(rows, rows)]
        return np.ascontiguousarray(K, dtype=np.float64)
    if not isinstance(kernel, Kernel):
        gamma = median_gamma(X, None, kernel)
        kernel = resolve_kernel(kernel, gamma=gamma, degree=2, coef0=1.0)
    return np.asarray(kernel(some.astype(np.float64)))


def _centred(K: np.ndarray) -> np.ndarray:
    mean = K.mean(axis=0)
    return K - mean[None, :] - mean[:, None] + mean.mean()


def _silhouette(K: np.ndarray, labels: np.ndarray) -> float:
    if len(np.unique(labels)) < 2:
        return 0.0
    squared = np.diag(K)
    D = np.sqrt(np.maximum(squared[:, None] + squared[None, :] - 2 * K, 0.0))
    np.fill_diagonal(D, 0.0)
    return float(silhouette_score(D, labels, metric="precomputed"))


def _consensus(how: str, matrices: list[np.ndarray], scores) -> np.ndarray:
    """Return the consensus kernel matrix of all kernels, (n, n)."""
    if how == "average":
        centred = [_centred(K) for K in matrices]
        return sum(K / max(np.trace(K), 1e-300) for K in centred) / len(centred)  # type: ignore[return-value]
    together = np.zeros_like(matrices[0])
    for one in scores:
        together += max(one.score, 0.0) * (one.labels[:, None] == one.labels[None, :])
    return together / max(sum(max(one.score, 0.0) for one in scores), 1e-300)
