"""Speed and objective of kernel k-means against its peers, in one run.

Overlapping Gaussian clouds, a Gaussian kernel, the same random starts and the same
number of steps for all. Each contender runs in a process of its own, one after the
other, so that none meets another's memory or threads; a few rows first, so that nobody
is charged for imports and for the first start of threads.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from kaucus.evaluation import (
    describe_machine,
    format_bytes,
    format_seconds,
    peak_memory,
    run_isolated,
    timed,
)
from kaucus.experiments._bench_files import write_bench
from kaucus.experiments._progress import make_progress

SIZES = (5000, 20000)
QUICK_SIZES = (2000,)
N_CLUSTERS, N_FEATURES, N_CLOUDS, N_STEPS = 10, 20, 30, 30
GAMMA = 1 / (2 * N_FEATURES)
# Five starts of as many rows as take seconds, one of more.
N_STARTS, FEW_ROWS, WARM_UP_ROWS = 5, 5000, 500
LARGE_ROWS, LARGE_LANDMARKS, LARGE_BUDGET = 1_000_000, 300, "6GiB"
ABOUT = (
    f"{N_CLOUDS} Gaussian clouds of unit variance, {N_FEATURES} features; kernel "
    f"exp(−‖x − y‖²/{2 * N_FEATURES}), {N_CLUSTERS} clusters, the same random "
    f"starts for all ({N_STARTS} up to {FEW_ROWS:,} rows, else one), {N_STEPS} steps "
    "at most; '10 starts' is kaucus with its defaults, k-means++ and no bound on the "
    "steps. Each in its own process, warmed up by a few rows; fit is the median time "
    "of a start, kernel matrix included; memory is the rise of resident bytes; "
    "objective: eq. (7) in full, computed from the labels alike for all, mean of the "
    "starts. Ratios: theirs / kaucus of the same precision, one start; won: starts "
    "from which kaucus ended lower."
)
HEADERS = ("rows", "contender", "fit", "steps", "objective", "memory", "fit ×", "won")
APPROXIMATE_HEADERS = (
    "rows",
    "centres",
    "fit",
    "steps",
    "its objective",
    "exact objective",
    "above exact fit",
)
LARGE_HEADERS = ("rows", "landmarks", "fit", "steps", "objective", "memory")


class Contender(NamedTuple):
    """How to cluster, in which precision, and what that imports."""

    cluster: Callable[[np.ndarray, int], tuple[np.ndarray, int]]
    dtype: str
    imports: tuple[str, ...]


def make_rows(n: int, dtype: str, seed: int = 0) -> np.ndarray:
    """Draw the points."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(N_CLOUDS, N_FEATURES))
    X = centres[rng.integers(N_CLOUDS, size=n)]
    X += rng.normal(size=(n, N_FEATURES))
    return X.astype(dtype, copy=False)


def first_labels(n: int, seed: int = 0) -> np.ndarray:
    """Draw a start: what tslearn draws from ``random_state=seed``."""
    old_style = np.random.RandomState(seed)
    return old_style.randint(N_CLUSTERS, size=n)


def _kaucus(X: np.ndarray, seed: int) -> tuple[np.ndarray, int]:
    from kaucus import KernelKMeans

    start = first_labels(len(X), seed)
    model = KernelKMeans(N_CLUSTERS, gamma=GAMMA, init=start, max_iter=N_STEPS)
    model.fit(X)
    return model.labels_, model.n_iter_


def _kaucus_defaults(X: np.ndarray, seed: int) -> tuple[np.ndarray, int]:
    """Ten starts by k-means++, to the end: what a user gets who chooses nothing."""
    from kaucus import KernelKMeans

    model = KernelKMeans(N_CLUSTERS, gamma=GAMMA, random_state=seed).fit(X)
    return model.labels_, model.n_iter_


def _tslearn(X: np.ndarray, seed: int) -> tuple[np.ndarray, int]:
    from tslearn.clustering import KernelKMeans

    model = KernelKMeans(
        N_CLUSTERS,
        kernel="rbf",
        kernel_params={"gamma": GAMMA},
        max_iter=N_STEPS,
        tol=0.0,
        n_init=1,
        random_state=seed,
    ).fit(X[:, :, None])
    return model.labels_, model.n_iter_


def plain_numpy(X: np.ndarray, seed: int) -> tuple[np.ndarray, int]:
    """Kernel k-means as one would write it with NumPy, all three terms."""
    squared = (X**2).sum(axis=1)
    K = np.exp(-GAMMA * (squared[:, None] + squared[None, :] - 2 * X @ X.T))
    labels, clusters = first_labels(len(X), seed), np.arange(N_CLUSTERS)
    n_iter = 0
    while n_iter < N_STEPS:
        n_iter += 1
        Z = (labels[:, None] == clusters).astype(X.dtype)
        counts = Z.sum(axis=0)
        means = K @ Z / counts
        norms = (Z * means).sum(axis=0) / counts
        new = np.argmin(norms - 2 * means, axis=1)
        if (new == labels).all():
            break
        labels = new
    return labels, n_iter


CONTENDERS: dict[str, Contender] = {
    f"{name}, {dtype}": Contender(cluster, dtype, (module,))
    for name, cluster, module, dtypes in (
        ("kaucus KernelKMeans", _kaucus, "kaucus.estimators", ("float64", "float32")),
        ("kaucus, 10 starts", _kaucus_defaults, "kaucus.estimators", ("float64",)),
        ("plain NumPy", plain_numpy, "numpy", ("float64", "float32")),
        # tslearn turns everything into float64.
        ("tslearn KernelKMeans", _tslearn, "tslearn.clustering", ("float64",)),
    )
    for dtype in dtypes
}


def bench_kernel_kmeans(
    output: str | Path,
    *,
    sizes: Sequence[int] = SIZES,
    memory: bool = False,
    device: str | None = None,
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Run the comparison; write ``bench.json`` and ``bench.md``.

    Parameters
    ----------
    output : path
        Folder for the two files.
    sizes : sequence of int, default=(5000, 20000)
        Numbers of rows.
    memory : bool, default=False
        Whether to fit a million rows by landmarks too.
    device : str, default=None
        Where that large fit computes.
    stream : text stream, default=None
        Where progress goes; None is the standard error.

    Returns
    -------
    dict
        ``machine``, ``contenders`` (a record per size and contender, with ``skipped``
        and the reason where a library is missing), ``approximate`` and, if asked for,
        ``large``.
    """
    content: dict[str, Any] = {"about": ABOUT, "machine": _machine()}
    content |= {"contenders": [], "approximate": []}
    with make_progress(len(sizes) * len(CONTENDERS) + 1 + memory, stream) as progress:
        for n in sizes:
            for name in CONTENDERS:
                progress.begin(f"{name}, {n:,} rows")
                record = run_contender(name, n)
                content["contenders"].append(record)
                progress.advance(_line(record))
        progress.begin("landmarks against the exact fit")
        content["approximate"] = run_isolated(
            measure_landmarks, sizes[0], imports=("kaucus.estimators",)
        ).result
        progress.advance("landmarks against the exact fit measured")
        if memory:
            progress.begin(f"{LARGE_ROWS:,} rows")
            content["large"] = run_isolated(
                measure_large, device=device, imports=("kaucus.estimators",)
            ).result
            progress.advance(f"{LARGE_ROWS:,} rows measured")
    _write(Path(output), content)
    return content


def run_contender(name: str, n: int) -> dict[str, Any]:
    """Run one contender in a process of its own; one that cannot run is recorded."""
    head = {"rows": n, "contender": name, "dtype": CONTENDERS[name].dtype}
    try:
        imports = CONTENDERS[name].imports
        run = run_isolated(measure_contender, name, n, imports=imports)
    except ImportError as error:
        return {**head, "skipped": f"not installed: {error}"}
    except RuntimeError as error:  # its process died: a crash of its library, or memory
        return {**head, "skipped": f"crashed: {error}"}
    return {**head, **run.result}


def measure_contender(name: str, n: int) -> dict[str, Any]:
    """Cluster from each start; meant for a process of its own."""
    import warnings

    cluster, dtype = CONTENDERS[name].cluster, CONTENDERS[name].dtype
    X = make_rows(n, dtype)
    with warnings.catch_warnings(), peak_memory() as used:
        warnings.simplefilter("ignore")  # not converged after so few steps, and meant
        cluster(make_rows(WARM_UP_ROWS, dtype), 0)
        seeds = range(N_STARTS if n <= FEW_ROWS else 1)
        runs = [timed(cluster, X, seed) for seed in seeds]
    rows = make_rows(n, "float64")
    objectives = [true_objective(rows, labels) for (labels, _), _ in runs]
    return {
        "fit_seconds": float(np.median([seconds for _, seconds in runs])),
        "n_iter": max(int(n_iter) for (_, n_iter), _ in runs),
        "objective": float(np.mean(objectives)),
        "objectives": objectives,
        "memory": used.rise,
    }


def true_objective(X: np.ndarray, labels: np.ndarray) -> float:
    """Compute the objective of any labels, eq. (7) in full, in float64."""
    from kaucus.kernels import Gaussian
    from kaucus.representatives import StreamedGram, labels_objective

    gram = StreamedGram(Gaussian(GAMMA), X, 2**28)
    return labels_objective(gram, np.asarray(labels, dtype=np.int64), N_CLUSTERS)


def measure_landmarks(n: int) -> list[dict[str, Any]]:
    """Compare the objectives of approximate fits with that of the exact one."""
    from kaucus import KernelKMeans

    X = make_rows(n, "float64")
    ways: dict[str, dict] = {"exact": {"approximation": None}}
    for landmarks in ("k-means", "rpcholesky", "uniform"):
        for m in (100, 300):
            options = {"landmarks": landmarks, "n_landmarks": m}
            ways[f"{landmarks}, {m}"] = {"approximation": "nystrom", **options}
    records = []
    for name, params in ways.items():
        model = KernelKMeans(
            N_CLUSTERS, gamma=GAMMA, n_init=10, random_state=0, **params
        )
        _, seconds = timed(model.fit, X)
        records.append(
            {
                "rows": n,
                "centres": name,
                "fit_seconds": seconds,
                "n_iter": model.n_iter_,
                "inertia": model.inertia_,
                "exact_inertia": model.exact_inertia_,
            }
        )
    return records


def measure_large(
    n: int = LARGE_ROWS,
    n_landmarks: int = LARGE_LANDMARKS,
    *,
    device: str | None = None,
) -> dict[str, Any]:
    """Fit many rows by landmarks; meant for a process of its own."""
    from kaucus import KernelKMeans

    X = make_rows(n, "float32")
    model = KernelKMeans(
        N_CLUSTERS,
        gamma=GAMMA,
        approximation="nystrom",
        n_landmarks=n_landmarks,
        tol=1e-6,
        device=device,
        memory_budget=LARGE_BUDGET,
        random_state=0,
    )
    with peak_memory() as used:
        _, seconds = timed(model.fit, X)
    return {
        "rows": n,
        "landmarks": n_landmarks,
        "fit_seconds": seconds,
        "n_iter": model.n_iter_,
        "inertia": model.inertia_,
        "memory": used.rise,
        "device": device,
    }


def bench_tables(content: dict[str, Any]) -> list[tuple[str, tuple, list]]:
    """List each table of a benchmark as title, headers and rows."""
    tables = [
        ("Same start, same steps", HEADERS, contender_rows(content["contenders"])),
        (
            "Landmarks against the exact fit, ten starts each",
            APPROXIMATE_HEADERS,
            approximate_rows(content["approximate"]),
        ),
    ]
    if "large" in content:
        tables.append(("By landmarks", LARGE_HEADERS, large_rows(content["large"])))
    return tables


def contender_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the contenders' records for :data:`HEADERS`."""
    ours = {
        (r["rows"], r["dtype"]): r
        for r in records
        if r["contender"].startswith("kaucus KernelKMeans") and "skipped" not in r
    }
    rows = []
    for record in records:
        head = [f"{record['rows']:,}", record["contender"]]
        if "skipped" in record:
            rows.append([*head, f"skipped: {record['skipped']}", *[""] * 5])
            continue
        reference = ours.get((record["rows"], record["dtype"]))
        rows.append([*head, *_values(record), *_against(record, reference)])
    return rows


def _against(record: dict, ours: dict | None) -> list[str]:
    """Write the ratio of times, and from how many starts kaucus ended lower."""
    if ours is None:
        return ["–", "–"]
    ratio = f"{record['fit_seconds'] / ours['fit_seconds']:.2f}"
    if record["contender"].startswith("kaucus"):
        return [ratio, ""]
    pairs = list(zip(ours["objectives"], record["objectives"], strict=True))
    # Ties are rounding: both ended in the same clusters.
    won = sum(mine < theirs * (1 - 1e-9) for mine, theirs in pairs)
    tied = sum(abs(mine / theirs - 1) <= 1e-9 for mine, theirs in pairs)
    return [ratio, f"{won} of {len(pairs)}" + (f", {tied} tied" if tied else "")]


def approximate_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the approximate fits for :data:`APPROXIMATE_HEADERS`."""
    exact = records[0]["exact_inertia"] if records else 1.0
    return [
        [
            f"{record['rows']:,}",
            record["centres"],
            format_seconds(record["fit_seconds"]),
            str(record["n_iter"]),
            f"{record['inertia']:.2f}",
            f"{record['exact_inertia']:.2f}",
            f"{100 * (record['exact_inertia'] / exact - 1):+.3f} %",
        ]
        for record in records
    ]


def large_rows(record: dict) -> list[list[str]]:
    """Write the large fit for :data:`LARGE_HEADERS`."""
    return [
        [
            f"{record['rows']:,}",
            f"{record['landmarks']:,}",
            format_seconds(record["fit_seconds"]),
            str(record["n_iter"]),
            f"{record['inertia']:.1f}",
            format_bytes(record["memory"]),
        ]
    ]


def _values(record: dict) -> list[str]:
    return [
        format_seconds(record["fit_seconds"]),
        str(record["n_iter"]),
        f"{record['objective']:.2f}",
        format_bytes(record["memory"]),
    ]


def _machine() -> dict[str, Any]:
    """Describe the machine, with the peer's version where it is installed."""
    machine = describe_machine()
    with suppress(PackageNotFoundError):
        peer = {"tslearn": version("tslearn")}
        machine["versions"] = {**machine["versions"], **peer}
    return machine


def _line(record: dict) -> str:
    """Describe one finished contender for the progress."""
    what = f"{record['contender']}, {record['rows']:,} rows"
    if "skipped" in record:
        return f"{what}: SKIPPED: {record['skipped']}"
    return f"{what}: fit {format_seconds(record['fit_seconds'])}"


def _write(output: Path, content: dict[str, Any]) -> None:
    """Write the two files."""
    write_bench(output, "Kernel k-means and its peers", content, bench_tables(content))
