"""The data and the rule by which ``KMeansKernelClassifier``'s defaults were chosen.

Fits it without an argument, and with other rules of its search for C and gamma, on
repeated splits of sets none of which judges it in ``python -m benchmarks defaults``;
beside them an ``SVC`` tuned over a grid of 25. Prints accuracies in %.

    KAUCUS_DATA=... python -m benchmarks.pick_defaults [--quick | --large]
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
from sklearn import datasets as bundled
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.defaults import CONTENDERS
from kaucus import KMeansKernelClassifier, datasets
from kaucus.machines import _problem as problem
from kaucus.machines import _targets as targets
from kaucus.machines import _tuning as tuning

UCI = ("australian", "banknote", "diabetes_pima", "heart_statlog", "glass", "seeds")
N_SPLITS, N_PARTS = 10, 4
# Rows of the larger sets that are trained on, split by split.
PARTS = (500, 700, 900, 1000)


# ---- sets ----------------------------------------------------------------------------


def two_norm(n: int, rng: np.random.Generator):
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 20)) + np.where(y == 1, 1, -1)[:, None] * 2 / 20**0.5, y


def ring_norm(n: int, rng: np.random.Generator):
    y, X = rng.integers(0, 2, n), rng.normal(size=(n, 20))
    return np.where(y[:, None] == 0, 2 * X, X + 1 / 20**0.5), y


def waveform(n: int, rng: np.random.Generator):
    y, t = rng.integers(0, 3, n), np.arange(1, 22)
    waves = np.asarray([np.maximum(6 - abs(t - c), 0) for c in (7, 15, 11)])
    a, b = waves[np.asarray([0, 0, 1])[y]], waves[np.asarray([1, 2, 2])[y]]
    u = rng.random((n, 1))
    return u * a + (1 - u) * b + rng.normal(size=(n, 21)), y


def codes(n: int, rng: np.random.Generator):
    X = rng.integers(0, 4, (n, 30)).astype(float)
    f = (X[:, 0] == X[:, 1]) + 1.5 * (X[:, 2] > 1) * (X[:, 3] > 1) - (X[:, 4] == 0)
    f = f + (X[:, 5] == 3) * (X[:, 6] < 2) + 0.3 * rng.normal(size=n)
    return X, (f > np.median(f)).astype(int)


def friedman(n: int, rng: np.random.Generator):
    X, y = bundled.make_friedman1(n, noise=1, random_state=int(rng.integers(2**30)))
    return X, (y > np.median(y)).astype(int)


def by(make: Callable, **options: Any) -> Callable:
    def draw(n: int, rng: np.random.Generator):
        return make(n, random_state=int(rng.integers(2**30)), **options)

    return draw


def clouds(n_features: int, n_informative: int, **options: Any) -> Callable:
    options |= {"n_features": n_features, "n_informative": n_informative}
    return by(bundled.make_classification, **options)


def tree(n_features: int, depth: int, n_classes: int, noise: float) -> Callable:
    """Return a function that draws rows labelled by the leaves of a random tree."""

    def draw(n: int, rng: np.random.Generator):
        X, y = rng.normal(size=(n, n_features)), np.zeros(n, dtype=int)

        def grow(rows: np.ndarray, depth: int) -> None:
            if depth == 0 or len(rows) < 20:
                y[rows] = rng.integers(n_classes)
                return
            right = X[rows, rng.integers(n_features)] > 0.7 * rng.normal()
            grow(rows[right], depth - 1)
            grow(rows[~right], depth - 1)

        grow(np.arange(n), depth)
        wrong = rng.random(n) < noise
        return X, np.where(wrong, rng.integers(0, n_classes, n), y)

    return draw


SYNTHETIC: dict[str, Callable] = {
    "two-norm": two_norm,
    "ring-norm": ring_norm,
    "waveform": waveform,
    "clouds, 10 columns": clouds(10, 5, n_clusters_per_class=3, flip_y=0.05),
    "clouds, 40 columns": clouds(40, 12, n_redundant=5, n_classes=3, flip_y=0.02),
    "clouds, 9 to 1": clouds(18, 6, weights=[0.9], flip_y=0.02),
    "clouds, linear": clouds(
        20, 15, n_redundant=0, n_clusters_per_class=1, class_sep=0.6, flip_y=0.05
    ),
    "moons": by(bundled.make_moons, noise=0.25),
    "circles": by(bundled.make_circles, noise=0.12, factor=0.6),
    "hastie": by(bundled.make_hastie_10_2),
    "friedman": friedman,
    "codes": codes,
}


# More rows, to see what few columns of many rows do.
TREES: dict[str, Callable] = {
    "tree of 6 columns": tree(6, 6, 2, 0.05),
    "tree of 10 columns": tree(10, 5, 3, 0.1),
    "tree of 4 columns": tree(4, 8, 4, 0.1),
    "tree of 20 columns": tree(20, 5, 2, 0.1),
}
LARGE_PARTS = (2200, 4500)
LARGE_RULES = ("as it is", "no handicap", "squared error", "half the columns")


def real_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for name in UCI:
        yield name, *datasets.load_uci(name, return_X_y=True)
    for name in ("iris", "wine", "digits"):
        yield name, *getattr(bundled, f"load_{name}")(return_X_y=True)
    pens, adults = datasets.load_pendigits(), datasets.load_a9a()
    yield "pendigits", pens.X_train, pens.y_train
    some = np.random.default_rng(0).permutation(len(adults.y_train))[:6000]
    yield "a9a", adults.X_train[some].toarray(), adults.y_train[some]


def splits() -> Iterator[tuple[str, list[tuple]]]:
    """Yield a name and its splits: training rows and labels, those of the test."""
    for name, X, y in real_sets():
        small = len(y) < 1400
        sizes = [int(0.8 * len(y))] * N_SPLITS if small else PARTS
        yield name, [_split(X, y, n, seed) for seed, n in enumerate(sizes)]
    for name, draw in SYNTHETIC.items():
        rngs = [np.random.default_rng(1000 + s) for s in range(N_PARTS)]
        sizes = zip(rngs, PARTS, strict=True)
        yield name, [_split(*draw(4000, g), n, s) for s, (g, n) in enumerate(sizes)]


def large_splits() -> Iterator[tuple[str, list[tuple]]]:
    """Yield the larger real sets, and synthetic ones with more rows."""
    drawn = {name: (X, y) for name, X, y in real_sets() if len(y) > 5000}
    for k, (name, draw) in enumerate({**SYNTHETIC, **TREES}.items()):
        drawn[name] = draw(8000, np.random.default_rng(k))
    for name, (X, y) in drawn.items():
        sizes = [min(n, len(y) - 1500) for n in LARGE_PARTS]
        yield name, [_split(X, y, n, seed) for seed, n in enumerate(sizes)]


def _split(X, y, n_train: int, seed: int) -> tuple:
    n_test = min(3000, len(y) - n_train)
    sizes = {"train_size": n_train, "test_size": n_test}
    X, X_test, y, y_test = train_test_split(
        X, y, stratify=y, random_state=seed, **sizes
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test), y_test


# ---- rules of the search -------------------------------------------------------------


def squared_errors(values, labels, sample_weight=None):
    return np.mean((values - _targets(values, labels)) ** 2, axis=(0, 2))


def errors_counted(values, labels, sample_weight=None):
    """Count rows on the wrong side; the squared error decides between equals."""
    wrong = values[:, :, 0] * _targets(values, labels)[:, :, 0] <= 0
    if values.shape[2] > 1:
        wrong = np.argmax(values, axis=2) != labels[:, None]
    return wrong.mean(axis=0) + 1e-6 * squared_errors(values, labels)


def no_shift(decision, labels, sample_weight=None):
    return np.zeros(decision.shape[1])


def _targets(values, labels):
    k = values.shape[2]
    hits = (labels == 1)[:, None] if k == 1 else labels[:, None] == np.arange(k)
    return np.where(hits, 1.0, -1.0)[:, None, :]


def sizes(columns: float = 1.0, handicap: float | None = None) -> Any:
    """Return a patch of the rows and columns of the search."""
    changed = [
        size._replace(
            columns=int(columns * size.columns), handicap=handicap or size.handicap
        )
        for size in tuning._SIZES
    ]
    return mock.patch.object(tuning, "_SIZES", tuple(changed))


RULES: dict[str, list] = {
    "as it is": [],
    "no shift": [mock.patch.object(problem, "fit_shift", no_shift)],
    "squared error": [mock.patch.object(targets, "log_losses", squared_errors)],
    "errors": [mock.patch.object(targets, "log_losses", errors_counted)],
    "half the columns": [sizes(columns=0.5)],
    "no handicap": [sizes(handicap=1.0)],
    "all gammas, all columns": [
        mock.patch.object(tuning, "_OUTWARDS", np.inf),
        mock.patch.object(tuning, "_FINALISTS", 10),
    ],
}


def accuracy(rule: str, split: tuple, seed: int) -> float:
    X, y, X_test, y_test = split
    model = KMeansKernelClassifier(random_state=seed, probability=False)
    if rule == "SVC":
        model = CONTENDERS["SVC"](X, seed)
    patches = RULES.get(rule, [])
    for patch in patches:
        patch.start()
    try:
        return float(np.mean(model.fit(X, y).predict(X_test) == y_test))
    finally:
        for patch in patches:
            patch.stop()


def main(quick: bool, large: bool) -> None:
    warnings.simplefilter("ignore")
    rules = list(LARGE_RULES) if large else [*RULES, "SVC"]
    print("set", *rules, sep=" | ")
    rows = []
    for name, parts in large_splits() if large else splits():
        some = parts[:2] if quick else parts
        values = [
            100 * np.mean([accuracy(rule, part, s) for s, part in enumerate(some)])
            for rule in rules
        ]
        rows.append(values)
        print(name, *(f"{value:.2f}" for value in values), sep=" | ", flush=True)
    table = np.asarray(rows)
    print("mean", *(f"{value:.2f}" for value in table.mean(axis=0)), sep=" | ")
    if not large:
        gains = np.sign(np.round(table - table[:, -1:], 9))
        ranks = 1.5 - 0.5 * gains.mean(axis=0)
        print("rank beside SVC", *(f"{rank:.2f}" for rank in ranks), sep=" | ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two splits of each set")
    parser.add_argument("--large", action="store_true", help="2,200 and 4,500 rows")
    options = parser.parse_args()
    main(options.quick, options.large)
