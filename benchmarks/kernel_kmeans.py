"""Speed and objective of kernel k-means against its peers, in one run.

Overlapping Gaussian clouds, a Gaussian kernel, the same random starts and the same
number of steps for all; a few rows first, so that nobody is charged for imports and for
the first start of threads.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._runner import (
    Contender,
    Content,
    Settings,
    Step,
    Table,
    ratio,
    skipped_row,
)
from kaucus._array.blocks import format_bytes
from kaucus.evaluation.clustering import format_seconds
from papers import peak_memory, timed

TITLE = "Kernel k-means and its peers"
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
    f"{name}, {dtype}": Contender(cluster, (module,), dtype)
    for name, cluster, module, dtypes in (
        ("kaucus KernelKMeans", _kaucus, "kaucus.estimators", ("float64", "float32")),
        ("kaucus, 10 starts", _kaucus_defaults, "kaucus.estimators", ("float64",)),
        ("plain NumPy", plain_numpy, "numpy", ("float64", "float32")),
        # tslearn turns everything into float64.
        ("tslearn KernelKMeans", _tslearn, "tslearn.clustering", ("float64",)),
    )
    for dtype in dtypes
}


def steps(settings: Settings) -> list[Step]:
    """List every contender with every number of rows, and our fits by landmarks."""
    sizes = settings.sizes or (QUICK_SIZES if settings.quick else SIZES)
    ours = ("kaucus.estimators",)
    found = [
        Step(
            "contenders",
            f"{name}, {n:,} rows",
            measure_contender,
            (name, n),
            {"rows": n, "contender": name, "dtype": contender.dtype},
            contender.imports,
        )
        for n in sizes
        for name, contender in CONTENDERS.items()
    ]
    label = "landmarks against the exact fit"
    found.append(Step("approximate", label, measure_landmarks, (sizes[0],), {}, ours))
    if settings.large:
        args = (LARGE_ROWS, LARGE_LANDMARKS, settings.device)
        label = f"{LARGE_ROWS:,} rows by landmarks"
        found.append(Step("large", label, measure_large, args, {}, ours))
    return found


def measure_contender(name: str, n: int) -> dict[str, Any]:
    """Cluster from each start."""
    cluster, _, dtype = CONTENDERS[name]
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
    from kaucus.clustering._kernel_kmeans import labels_objective, make_gram
    from kaucus.kernels import Gaussian

    gram = make_gram(Gaussian(GAMMA), X, memory_budget=2**28)
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


def measure_large(n: int, n_landmarks: int, device: str | None) -> dict[str, Any]:
    """Fit many rows by landmarks."""
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


def tables(content: Content) -> list[Table]:
    """Return the tables of the records so far."""
    found = [
        Table("Same start, same steps", HEADERS, contender_rows(content["contenders"])),
        Table(
            "Landmarks against the exact fit, ten starts each",
            APPROXIMATE_HEADERS,
            approximate_rows(content["approximate"]),
        ),
    ]
    if "large" in content:
        rows = large_rows(content["large"])
        found.append(Table("By landmarks", LARGE_HEADERS, rows))
    return found


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
            rows.append(skipped_row(head, record, len(HEADERS)))
            continue
        reference = ours.get((record["rows"], record["dtype"]))
        rows.append([*head, *_values(record), *_against(record, reference)])
    return rows


def _against(record: dict, ours: dict | None) -> list[str]:
    """Write the ratio of times, and from how many starts kaucus ended lower."""
    if ours is None:
        return ["–", "–"]
    times = ratio(record["fit_seconds"], ours["fit_seconds"])
    if record["contender"].startswith("kaucus"):
        return [times, ""]
    pairs = list(zip(ours["objectives"], record["objectives"], strict=True))
    # Ties are rounding: both ended in the same clusters.
    won = sum(mine < theirs * (1 - 1e-9) for mine, theirs in pairs)
    tied = sum(abs(mine / theirs - 1) <= 1e-9 for mine, theirs in pairs)
    return [times, f"{won} of {len(pairs)}" + (f", {tied} tied" if tied else "")]


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


def large_rows(records: Sequence[dict]) -> list[list[str]]:
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
        for record in records
    ]


def _values(record: dict) -> list[str]:
    return [
        format_seconds(record["fit_seconds"]),
        str(record["n_iter"]),
        f"{record['objective']:.2f}",
        format_bytes(record["memory"]),
    ]
