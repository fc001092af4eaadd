"""Kernel features for a linear model: representatives, random rows, random waves.

Every contender makes m columns of the same standardised rows, with the same Gaussian
kernel; behind each is the same linear model, whose regularisation is chosen by
cross-validation of the training rows. Error and seconds over m.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks._runner import Content, Settings, Step, Table
from benchmarks.tables import REGRESSION, error, load_split
from papers import load_split as load_digits
from papers import timed

TITLE = "Kernel features for a linear model"
ABOUT = (
    "Error in percent, or 100 RMSE / standard deviation, of test rows; the mean over "
    "splits. Rows are standardised, one-hot, gaps filled (digits: divided by 255); "
    "gamma is that of the median distance. Behind the features: RidgeClassifierCV or "
    "RidgeCV, alpha from 1e-6 to 1e3. 'Nystroem, k-means' is scikit-learn's Nystroem "
    "fitted on centres of scikit-learn's KMeans. Seconds are of processor time, one "
    "thread: features of the training rows and of the test rows, without the linear "
    "model. Ranks are over contenders at the same number of columns, mean over tables."
)
TABLES = (
    *("adult", "churn", "credit_g", "magic", "spambase"),
    *("houses", "pol", "wind", "house_8l", "abalone"),
)
DIGITS = "MNIST"
COLUMNS = (50, 100, 200, 400, 800)
N_TRAIN, N_TEST, N_SPLITS = 4000, 4000, 2


class _OfCentres:
    """scikit-learn's Nystroem, fitted on centres of its KMeans."""

    def __init__(self, m: int, gamma: float, seed: int):
        self.m, self.gamma, self.seed = m, gamma, seed

    def fit(self, X):
        from sklearn.cluster import KMeans
        from sklearn.kernel_approximation import Nystroem

        k = min(self.m, len(X))
        centres = KMeans(k, n_init=1, random_state=self.seed).fit(X).cluster_centers_
        self.model = Nystroem(gamma=self.gamma, n_components=k, random_state=self.seed)
        self.model.fit(centres)
        return self

    def transform(self, X):
        return self.model.transform(X)


def _ours(landmarks: str) -> Callable:
    def make(m: int, gamma: float, seed: int):
        from kaucus import RepresentativeFeatures

        return RepresentativeFeatures(
            m, landmarks=landmarks, gamma=gamma, random_state=seed
        )

    return make


def _learned(m: int, gamma: float, seed: int):
    from kaucus import RepresentativeFeatures

    return RepresentativeFeatures(m, learn_metric=True, random_state=seed)


def _sklearn(name: str) -> Callable:
    def make(m: int, gamma: float, seed: int):
        from sklearn import kernel_approximation

        kind = getattr(kernel_approximation, name)
        return kind(gamma=gamma, n_components=m, random_state=seed)

    return make


CONTENDERS = {
    "k-means": _ours("k-means"),
    "rpcholesky": _ours("rpcholesky"),
    "k-means, learned metric": _learned,
    "Nystroem": _sklearn("Nystroem"),
    "Nystroem, k-means": _OfCentres,
    "RBFSampler": _sklearn("RBFSampler"),
}


def steps(settings: Settings) -> list[Step]:
    """List every contender with every number of columns on every split."""
    names: Sequence[str] = settings.parts or (*TABLES, DIGITS)
    columns, n_splits = settings.sizes or COLUMNS, N_SPLITS
    if settings.quick:
        names, columns, n_splits = names[:1], columns[:1], 1
    return [
        Step(
            "records",
            f"{contender}, {m} columns, {name}, split {split}",
            measure,
            (contender, name, m, split, settings.data_home),
            {"contender": contender, "table": name, "columns": m, "split": split},
        )
        for name in names
        for split in range(n_splits if name != DIGITS else 1)
        for m in columns
        for contender in CONTENDERS
    ]


def _data(name: str, split: int, data_home: Any) -> tuple:
    """Return training rows and targets, test rows and targets."""
    if name == DIGITS:
        data = load_digits("mnist", data_home=data_home)
        X, X_test = (x[:10_000] / 255.0 for x in (data.X_train, data.X_test))
        return X, data.y_train[:10_000], X_test, data.y_test[:10_000]
    data = load_split(data_home, "develop", name, split, N_TRAIN)
    return data.X, data.y, data.X_test[:N_TEST], data.y_test[:N_TEST]


def measure(
    contender: str, name: str, m: int, split: int, data_home: Any
) -> dict[str, Any]:
    """Fit features and a linear model on one split; return error and seconds."""
    import warnings
    from time import process_time

    from sklearn.linear_model import RidgeClassifierCV, RidgeCV

    from kaucus.kernels import median_gamma

    regression = name in REGRESSION
    X, y, X_test, y_test = _data(name, split, data_home)
    kind, alphas = RidgeCV if regression else RidgeClassifierCV, np.logspace(-6, 3, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CONTENDERS[contender](m, median_gamma(X), split)
        start = process_time()
        takes_y = "metric" in contender
        model.fit(X, y) if takes_y else model.fit(X)
        F, F_test = model.transform(X), model.transform(X_test)
        seconds = process_time() - start
        linear, _ = timed(kind(alphas=alphas).fit, F, y)
        predicted = linear.predict(F_test)
    return {"error": error(predicted, y_test, regression), "seconds": seconds}


def tables(content: Content) -> list[Table]:
    """Return errors at each number of columns, ranks, and seconds."""
    records = [r for r in content["records"] if "error" in r]
    columns = sorted({r["columns"] for r in records})
    ranks = [
        [name, *(_mean(_ranks(records, m).get(name, [])) for m in columns)]
        for name in CONTENDERS
    ]
    seconds = [
        [
            name,
            *(
                _mean(_of(records, "seconds", contender=name, columns=m))
                for m in columns
            ),
        ]
        for name in CONTENDERS
    ]
    found = [
        Table("Mean rank of the error", ["features", *map(str, columns)], ranks),
        Table("Mean seconds", ["features", *map(str, columns)], seconds),
    ]
    for m in columns:
        rows = [
            [
                t,
                *(
                    _mean(_of(records, "error", table=t, contender=c, columns=m))
                    for c in CONTENDERS
                ),
            ]
            for t in dict.fromkeys(r["table"] for r in records)
        ]
        found.append(Table(f"Error, {m} columns", ["table", *CONTENDERS], rows))
    return found


def _of(records: list[dict], key: str, **head) -> list[float]:
    """Return a number of all records with these heads."""
    return [r[key] for r in records if all(r[k] == v for k, v in head.items())]


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.2f}" if values else ""


def _ranks(records: list[dict], m: int) -> dict[str, list[float]]:
    """Return the rank of each contender on each table, by the mean over splits."""
    from scipy.stats import rankdata

    found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for t in dict.fromkeys(r["table"] for r in records):
        errors = [_of(records, "error", table=t, contender=c, columns=m) for c in found]
        if all(errors):
            ranks = rankdata([np.mean(e) for e in errors])
            for name, rank in zip(found, ranks, strict=True):
                found[name].append(float(rank))
    return found
