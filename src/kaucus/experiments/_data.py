"""Names of data sets in the tables -> training and test arrays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Split(NamedTuple):
    """Training and test rows with their targets."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load_split(
    dataset: str,
    *,
    n_train: int | None = None,
    sample: str = "first",
    dtype: str = "float64",
    seed: int = 0,
    data_home: str | Path | None = None,
) -> Split:
    """Load a data set, split into training and test rows.

    Parameters
    ----------
    dataset : str
        ``"digits"`` (comes with scikit-learn; halves, the same for every seed),
        ``"mnist"`` (the usual 60,000 and 10,000 rows), ``"cifar10"`` (50,000 and
        10,000), ``"uci/NAME"`` (halves by the seed, stratified), or
        ``"clustering/NAME"`` (all rows, both as training and as test rows; see
        ``_clustering.load_points``).
    n_train : int, default=None
        Number of training rows; None takes all.
    sample : {"first", "random"}, default="first"
        Which training rows: the first ones, or a random subset by the seed.
    dtype : {"float32", "float64"}, default="float64"
        Precision of the returned rows.
    seed : int, default=0
        For the random subset, and for the halves of a UCI set.
    data_home : path, default=None
        Folder with the data; None takes the environment's ``KAUCUS_DATA``.

    Returns
    -------
    Split
        ``X_train, y_train, X_test, y_test``.

    Raises
    ------
    FileNotFoundError
        When the data are not there.

    Examples
    --------
    >>> load_split("digits", n_train=100).X_train.shape
    (100, 64)
    """
    split = _loader(dataset)(data_home, seed)
    if n_train is not None:
        rows = _choose_rows(len(split.X_train), n_train, sample, seed)
        split = split._replace(X_train=split.X_train[rows], y_train=split.y_train[rows])
    return split._replace(
        X_train=np.asarray(split.X_train, dtype=dtype),
        X_test=np.asarray(split.X_test, dtype=dtype),
    )


def _loader(dataset: str) -> Callable[[Any, int], Split]:
    """Find the function of folder and seed that loads a data set."""
    if dataset.startswith("uci/"):
        return _from_loader("load_uci", dataset[4:])
    if dataset.startswith("clustering/"):
        return lambda data_home, seed: _points(dataset[11:], data_home)
    if dataset not in _LOADERS:
        raise ValueError(
            f"Data set {dataset!r} is not known; use one of "
            f"{', '.join(sorted(_LOADERS))}, 'uci/NAME' or 'clustering/NAME'."
        )
    return _LOADERS[dataset]


def _choose_rows(n_rows: int, n_train: int, sample: str, seed: int) -> Any:
    """Choose which training rows to keep."""
    if n_train > n_rows:
        raise ValueError(
            f"n_train={n_train} exceeds the {n_rows} training rows of this data set; "
            "lower it, or leave it out to take all."
        )
    if sample == "first":
        return slice(n_train)
    if sample == "random":
        rng = np.random.default_rng(seed)
        return np.sort(rng.choice(n_rows, size=n_train, replace=False))
    raise ValueError(f"sample={sample!r} is not known; use 'first' or 'random'.")


def _digits(data_home: Any, seed: int) -> Split:
    """Halves of scikit-learn's digits; the split is part of the data set."""
    from sklearn.datasets import load_digits

    return _halves(*load_digits(return_X_y=True), seed=0)


def _from_loader(name: str, *args: str) -> Callable[[Any, int], Split]:
    """Return a function that calls a loader, and halves rows that have no split."""

    def load(data_home: Any, seed: int) -> Split:
        from kaucus import datasets

        data = getattr(datasets, name)(*args, data_home=data_home)
        if "X_train" in data:
            return Split(data.X_train, data.y_train, data.X_test, data.y_test)
        return _halves(data.X, data.y, seed=seed)

    return load


def _points(name: str, data_home: Any) -> Split:
    from kaucus.experiments._clustering import load_points

    X, y = load_points(name, data_home)
    return Split(X, y, X, y)


def _halves(X: np.ndarray, y: np.ndarray, *, seed: int) -> Split:
    """Split into two stratified halves."""
    from sklearn.model_selection import train_test_split

    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=seed
    )
    return Split(X_train, y_train, X_test, y_test)


_LOADERS: dict[str, Callable[[Any, int], Split]] = {
    "digits": _digits,
    "mnist": _from_loader("load_mnist"),
    "cifar10": _from_loader("load_cifar10"),
}
