"""Quantiles of numbers: kernel machine, boosting, linear models of kernel columns."""

import warnings
from time import process_time
from typing import Any

import numpy as np

from benchmarks._runner import Content, Settings, Step, Table
from benchmarks.tables import load_split

TITLE = "Quantiles"
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
ABOUT = (
    "Pinball loss of test rows, 100 times its mean over the levels 0.05, 0.25, 0.5, "
    "0.75 and 0.95 over the standard deviation of the targets; share of test rows "
    "between the quantiles of 0.05 and 0.95, 90 when right, and of rows whose "
    "quantiles cross, both in percent; on one split. Boosting and "
    "QuantileRegressor fit a model for each level, with their defaults, but for "
    "alpha=1e-4 of QuantileRegressor, on 200 columns. Rows are standardised, one-hot, "
    "gaps filled. Seconds are of processor time, one thread. Settings of kaucus were "
    "chosen on the tables of 'develop', and looked at on those of 'frames'."
)
TABLES = {
    **dict.fromkeys(
        ("abalone", "cpu_act", "house_8l", "houses", "pol", "puma8nh", "wind"),
        "develop",
    ),
    **dict.fromkeys(("ames", "diamonds"), "frames"),
}
N_TRAIN, N_TEST, N_SPLITS, N_COLUMNS = 2000, 4000, 1, 200


class _EachLevel:
    """A model for each level, on the same features."""

    def __init__(self, make, features=None):
        self._make, self._features = make, features

    def fit(self, X, y):
        X = X if self._features is None else self._features.fit_transform(X)
        self._models = [self._make(level).fit(X, y) for level in LEVELS]
        return self

    def predict(self, X):
        X = X if self._features is None else self._features.transform(X)
        return np.stack([model.predict(X) for model in self._models], axis=1)


def _kaucus(seed: int):
    from kaucus import KMeansKernelRegressor

    return KMeansKernelRegressor(loss="quantile", quantile=LEVELS, random_state=seed)


def _lightgbm(seed: int):
    from lightgbm import LGBMRegressor

    options = {"objective": "quantile", "verbose": -1, "n_jobs": 1}
    return _EachLevel(lambda a: LGBMRegressor(alpha=a, random_state=seed, **options))


def _boosting(seed: int):
    from sklearn.ensemble import HistGradientBoostingRegressor

    return _EachLevel(
        lambda a: HistGradientBoostingRegressor(
            loss="quantile", quantile=a, random_state=seed
        )
    )


def _linear(features):
    from sklearn.linear_model import QuantileRegressor

    return _EachLevel(lambda a: QuantileRegressor(quantile=a, alpha=1e-4), features)


def _representatives(seed: int):
    from kaucus import RepresentativeFeatures

    return _linear(RepresentativeFeatures(N_COLUMNS, random_state=seed))


def _nystroem(seed: int):
    from sklearn.kernel_approximation import Nystroem

    return _linear(Nystroem(n_components=N_COLUMNS, gamma=None, random_state=seed))


CONTENDERS = {
    "kaucus": _kaucus,
    "LightGBM": _lightgbm,
    "HistGradientBoosting": _boosting,
    "QuantileRegressor, representatives": _representatives,
    "QuantileRegressor, Nystroem": _nystroem,
}


def steps(settings: Settings) -> list[Step]:
    """List every contender on every split."""
    names, n_splits = settings.parts or tuple(TABLES), N_SPLITS
    if settings.quick:
        names, n_splits = names[:1], 1
    return [
        Step(
            "records",
            f"{contender}, {name}, split {split}",
            measure,
            (contender, name, split, settings.data_home),
            {"contender": contender, "table": name, "split": split},
            ("lightgbm",) if contender == "LightGBM" else (),
        )
        for name in names
        for split in range(n_splits)
        for contender in CONTENDERS
    ]


def measure(contender: str, name: str, split: int, data_home: Any) -> dict[str, Any]:
    """Fit all levels on one split; return loss, shares and seconds."""
    data = load_split(data_home, TABLES[name], name, split, N_TRAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, start = CONTENDERS[contender](split), process_time()
        model.fit(data.X, data.y)
        seconds = process_time() - start
        f = model.predict(data.X_test[:N_TEST])
    return judged(f, data.y_test[:N_TEST]) | {"seconds": seconds}


def judged(f: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return loss, share within and share crossing of quantiles, (n, 5)."""
    r = y[:, None] - f
    loss = np.maximum(np.array(LEVELS) * r, (np.array(LEVELS) - 1) * r)
    within = (f[:, 0] <= y) & (y <= f[:, -1])
    return {
        "loss": float(100 * loss.mean() / y.std()),
        "within": float(100 * within.mean()),
        "crossing": float(100 * (np.diff(f, axis=1) < 0).any(axis=1).mean()),
    }


def tables(content: Content) -> list[Table]:
    """Return losses, ranks, shares and seconds by table."""
    from scipy.stats import rankdata

    records = [r for r in content["records"] if "loss" in r]
    known = [c for c in CONTENDERS if any(r["contender"] == c for r in records)]
    names = list(dict.fromkeys(r["table"] for r in records))
    found = []
    for key, title in (
        ("loss", "100 pinball loss / standard deviation"),
        ("within", "Percent between the quantiles of 0.05 and 0.95"),
        ("crossing", "Percent of rows whose quantiles cross"),
        ("seconds", "Seconds of the fit"),
    ):
        means = np.array(
            [[_mean(records, key, table=n, contender=c) for c in known] for n in names]
        )
        rows = [
            [name, *(f"{v:.2f}" for v in row)]
            for name, row in zip(names, means, strict=True)
        ]
        rows.append(["mean", *(f"{v:.2f}" for v in means.mean(axis=0))])
        if key == "loss":
            ranks = rankdata(means, axis=1).mean(axis=0)
            rows.append(["mean rank", *(f"{v:.2f}" for v in ranks)])
        found.append(Table(title, ["table", *known], rows))
    return found


def _mean(records: list[dict], key: str, **head) -> float:
    """Return the mean of a number over splits."""
    some = [r[key] for r in records if all(r[k] == v for k, v in head.items())]
    return float(np.mean(some)) if some else float("nan")
