"""Clusters without labels: KernelKMeans beside scikit-learn's clusterers, by ARI.

Two groups of sets: generated ones, of kinds on which (with other seeds and sizes) the
constants of the choice were settled, and others on which nothing was chosen.
"""

from time import process_time
from typing import Any

import numpy as np

from benchmarks._runner import Content, Settings, Step, Table
from papers import datasets

TITLE = "Clusters"
ABOUT = (
    "Adjusted Rand index with the classes, which no method is told; mean over draws "
    "of generated sets or, of files, over seeds of the methods. All with their "
    "defaults and the true number of clusters, but for HDBSCAN and 'kaucus, auto', "
    "which choose it; SpectralClustering with its default kernel (gamma 1) and by "
    "nearest neighbours; 'score' is the Gaussian kernel of four widths that "
    "`compare_kernels` picks, by tightness and stability, and 'scale' has "
    "gamma='scale'. Columns are standardised for all where their units differ (wine "
    "and UCI's tables). Number: of clusters found, mean over draws. Seconds are of "
    "processor time, one thread. The constants of the choice were settled on sets of "
    "the first kinds, of other seeds and of 150 to 1,000 rows; nothing was chosen on "
    "the other sets."
)
GENERATED = (
    *("moons", "moons, noise 0.1", "circles", "ring and ball", "two bars"),
    *("blobs", "blobs, varied", "blobs, sheared", "blobs, five", "blobs, unequal"),
)
PAPER = ("jain", "flame", "pathbased", "spiral", "r15", "cassini", "smiley", "rings")
UCI = ("iris", "seeds", "glass", "banknote", "breast_cancer_wisconsin", "heart_statlog")
OTHERS = (*PAPER, *UCI, "wine", "digits")
SCALED = ("wine", *UCI[2:])
N_DRAWS, N_ROWS = 3, 1000
CONTENDERS = (
    *("kaucus", "kaucus, auto", "kaucus, scale", "kaucus, score"),
    *("spectral", "spectral, neighbours", "HDBSCAN", "KMeans", "GaussianMixture"),
)


def generate(name: str, seed: int, n: int = N_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of a generated set."""
    from sklearn.datasets import make_blobs, make_circles, make_moons

    rng, seeded = np.random.default_rng(seed), {"random_state": seed}
    if name.startswith("moons"):
        noise = 0.1 if "0.1" in name else 0.05
        return make_moons(n, noise=noise, **seeded)
    if name == "circles":
        return make_circles(n, factor=0.5, noise=0.05, **seeded)
    half, y = n // 2, np.repeat([0, 1], n // 2)
    if name == "ring and ball":
        angle = rng.uniform(0, 2 * np.pi, size=half)
        ring = 3 * np.c_[np.cos(angle), np.sin(angle)]
        noise = rng.normal(size=(n, 2)) * np.repeat([0.3, 0.25], half)[:, None]
        return np.r_[np.zeros((half, 2)), ring] + noise, y
    if name == "two bars":
        along = 10 * rng.uniform(size=n)
        return np.c_[along, 1.5 * y] + 0.2 * rng.normal(size=(n, 2)), y
    if name == "blobs, varied":
        return make_blobs(n, cluster_std=[1.0, 2.5, 0.5], **seeded)
    if name == "blobs, unequal":
        options = {"centers": [[0, 0], [5, 0], [0, 6]], "cluster_std": [0.4, 0.8, 1.2]}
        return make_blobs([n // 10, n // 5, 7 * n // 10], **options, **seeded)
    X, y = make_blobs(n, centers=5 if name == "blobs, five" else 3, **seeded)
    return (X @ [[0.6, -0.6], [-0.4, 0.8]] if name == "blobs, sheared" else X), y


def load(name: str, draw: int, data_home: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of a set."""
    from sklearn.datasets import load_digits, load_wine
    from sklearn.preprocessing import StandardScaler

    from kaucus.datasets import make_rings, make_smiley

    if name in GENERATED:
        return generate(name, 100 + draw)
    if name == "smiley":
        return make_smiley(500, random_state=draw)
    if name == "rings":
        return make_rings(399, radii=(2, 6), random_state=draw)
    if name in ("wine", "digits"):
        X, y = (load_wine if name == "wine" else load_digits)(return_X_y=True)
        X = X / 16 if name == "digits" else X
    else:
        reader = datasets.load_shapes if name in PAPER else datasets.load_uci
        X, y = reader(name, data_home=data_home, return_X_y=True)
    X = np.asarray(X, dtype=np.float64)
    return StandardScaler().fit_transform(X) if name in SCALED else X, y


def clusters(contender: str, X: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Return the labels that a contender finds."""
    from sklearn import cluster
    from sklearn.mixture import GaussianMixture

    from kaucus import KernelKMeans
    from kaucus.evaluation import compare_kernels
    from kaucus.kernels import Gaussian, median_gamma

    if contender == "kaucus, score":
        middle = median_gamma(X)
        kernels = {f"x{w}": Gaussian(w * middle) for w in (1, 4, 16, 64)}
        options = {"n_init": 10, "n_subsamples": 5, "random_state": seed}
        best = compare_kernels(X, k, kernels, **options).best
        return best.labels
    seeded = {"random_state": seed}
    models = {
        "kaucus": KernelKMeans(k, **seeded),
        "kaucus, auto": KernelKMeans("auto", **seeded),
        "kaucus, scale": KernelKMeans(k, gamma="scale", **seeded),
        "spectral": cluster.SpectralClustering(k, **seeded),
        "spectral, neighbours": cluster.SpectralClustering(
            k, affinity="nearest_neighbors", **seeded
        ),
        "HDBSCAN": cluster.HDBSCAN(),
        "KMeans": cluster.KMeans(k, n_init=10, **seeded),
        "GaussianMixture": GaussianMixture(k, **seeded),
    }
    return models[contender].fit_predict(X)


def steps(settings: Settings) -> list[Step]:
    """List every contender on every set, and on larger ones."""
    names = settings.parts or (*GENERATED, *OTHERS)
    draws = 1 if settings.quick else N_DRAWS
    if settings.quick:
        names = names[:1]
    found = [
        Step(
            "records",
            f"{contender}, {name}",
            measure,
            (contender, name, draws, settings.data_home),
            {"contender": contender, "set": name},
            isolated=False,
        )
        for name in names
        for contender in settings.contenders or CONTENDERS
    ]
    sizes = settings.sizes or ((10_000,) if not settings.quick else ())
    return found + [
        Step("sizes", f"{c}, {n} rows", grown, (c, n), {"contender": c, "rows": n})
        for n in sizes
        for c in settings.contenders or CONTENDERS
        if c != "kaucus, score"
    ]


def measure(contender: str, name: str, draws: int, data_home: Any) -> dict[str, Any]:
    """Return the mean adjusted Rand index over draws, and seconds of one."""
    from sklearn.metrics import adjusted_rand_score

    aris, numbers, seconds = [], [], []
    for draw in range(draws):
        X, y = load(name, draw, data_home)
        start = process_time()
        labels = clusters(contender, X, len(np.unique(y)), draw)
        seconds.append(process_time() - start)
        aris.append(float(adjusted_rand_score(y, labels)))
        numbers.append(len(np.unique(labels[labels >= 0])))
    return {
        "rows": len(X),
        "classes": len(np.unique(y)),
        "ari": float(np.mean(aris)),
        "aris": aris,
        "number": float(np.mean(numbers)),
        "seconds": float(np.mean(seconds)),
    }


def grown(contender: str, n: int) -> dict[str, Any]:
    """Return the adjusted Rand index and seconds on many rows of two moons."""
    from sklearn.metrics import adjusted_rand_score

    X, y = generate("moons", 100, n)
    start = process_time()
    labels = clusters(contender, X, 2, 0)
    seconds = process_time() - start
    return {"ari": float(adjusted_rand_score(y, labels)), "seconds": seconds}


def tables(content: Content) -> list[Table]:
    """Return the adjusted Rand index of each group, numbers and seconds."""
    known = {(r["set"], r["contender"]): r for r in content["records"] if "ari" in r}
    shown = [c for c in CONTENDERS if any(c == contender for _, contender in known)]
    found = []
    for title, group in (
        ("kinds it was settled on", GENERATED),
        ("other sets", OTHERS),
    ):
        names = [n for n in group if all((n, c) in known for c in shown)]
        if not names:
            continue
        values = [[known[name, c]["ari"] for c in shown] for name in names]
        rows = [
            [name, known[name, shown[0]]["classes"], *(f"{v:.2f}" for v in row)]
            for name, row in zip(names, values, strict=True)
        ]
        means = [f"{v:.2f}" for v in np.mean(values, axis=0)]
        rows.append([f"mean of {len(names)}", "", *means])
        headers = ["set", "classes", *shown]
        found.append(Table(f"Adjusted Rand index, {title}", headers, rows))
        counting = [c for c in ("kaucus, auto", "HDBSCAN") if c in shown]
        rows = [
            [n, known[n, shown[0]]["classes"]]
            + [f"{known[n, c]['number']:.1f}" for c in counting]
            for n in names
        ]
        headers = ["set", "classes", *counting]
        found.append(Table(f"Number of clusters, {title}", headers, rows))
    some = [r for r in content["records"] if "seconds" in r]
    rows = [
        [c, f"{np.mean([r['seconds'] for r in some if r['contender'] == c]):.2f}"]
        + [
            f"{r[key]:.2f}"
            for r in content.get("sizes", [])
            if r["contender"] == c
            for key in ("seconds", "ari")
            if key in r
        ]
        for c in shown
    ]
    sizes = list(dict.fromkeys(r["rows"] for r in content.get("sizes", [])))
    more = [f"{n:,} rows, {what}" for n in sizes for what in ("seconds", "ARI")]
    rows = [row + [""] * (2 + len(more) - len(row)) for row in rows]
    found.append(Table("Seconds", ["contender", "all sets, mean", *more], rows))
    return found
