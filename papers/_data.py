"""Names of data sets in the tables -> training and test arrays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kaucus.datasets import make_cassini, make_rings, make_smiley
from papers import datasets
from papers.datasets._fetch import fetch_command, is_here
from papers.datasets._registry import DATASETS


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
        ``"mnist"`` and ``"fashion-mnist"`` (the usual 60,000 and 10,000 rows),
        ``"cifar10"`` (50,000 and 10,000), ``"uci/NAME"`` (halves by the seed,
        stratified), or ``"clustering/NAME"`` (all rows, both as training and as test
        rows; see :func:`load_points`).
    n_train : int, default=None
        Number of training rows; None takes all.
    sample : {"first", "random"}, default="first"
        Which training rows: the first ones, or a random subset by the seed.
    dtype : {"float32", "float64", "uint8"}, default="float64"
        Type of the returned rows; ``"uint8"`` is for pictures.
    seed : int, default=0
        For the random subset, and for the halves of a UCI set.
    data_home : path, default=None
        Folder with the data; None takes the environment's ``KAUCUS_DATA``.

    Examples
    --------
    >>> load_split("digits", n_train=100).X_train.shape
    (100, 64)
    """
    split = _load(dataset, data_home, seed)
    if n_train is not None:
        rows = _choose_rows(len(split.X_train), n_train, sample, seed)
        split = split._replace(X_train=split.X_train[rows], y_train=split.y_train[rows])
    return split._replace(
        X_train=np.asarray(split.X_train, dtype=dtype),
        X_test=np.asarray(split.X_test, dtype=dtype),
    )


def command_if_missing(dataset: str, data_home: str | Path | None) -> str:
    """Return the command that fetches a data set, or "" if it is here."""
    kind, _, name = dataset.partition("/")
    if dataset == "digits" or name in ("smiley", "cassini") or name[:6] == "rings-":
        return ""
    registered = DATASETS.get(name or kind)
    if registered is None or is_here(registered, data_home=data_home):
        return ""
    return fetch_command(registered)


def _load(dataset: str, data_home: Any, seed: int) -> Split:
    """Load all rows of a data set."""
    kind, _, name = dataset.partition("/")
    if kind == "uci":
        data = datasets.load_uci(name, data_home=data_home, return_X_y=True)
        return _halves(*data, seed=seed)
    if kind == "clustering":
        X, y = load_points(name, data_home)
        return Split(X, y, X, y)
    if dataset not in _LOADERS:
        raise ValueError(
            f"Data set {dataset!r} is not known; use one of "
            f"{', '.join(sorted(_LOADERS))}, 'uci/NAME' or 'clustering/NAME'."
        )
    return _LOADERS[dataset](data_home)


# Functions of the folder with the data. The halves of digits are part of the data set.
_LOADERS: dict[str, Callable[[Any], Split]] = {
    "digits": lambda home: _halves(*load_digits(return_X_y=True), seed=0),
    "mnist": lambda home: Split(*datasets.load_mnist(data_home=home, return_X_y=True)),
    "fashion-mnist": lambda home: Split(
        *datasets.load_fashion_mnist(data_home=home, return_X_y=True)
    ),
    "cifar10": lambda home: Split(
        *datasets.load_cifar10(data_home=home, return_X_y=True)
    ),
}


def load_points(
    name: str, data_home: str | Path | None, *, seed: int = 0
) -> tuple[np.ndarray, Any]:
    """Load all rows and their classes, for clustering.

    Parameters
    ----------
    name : str
        ``"smiley"``, ``"cassini"`` (generators, 500 points),
        ``"rings-R1-R2"`` (399 points, noise 0.2), ``"iris"``, ``"seeds"``,
        ``"glass"`` (UCI), or a name for :func:`papers.datasets.load_shapes`.
    data_home : path or None
        Folder with the data.
    seed : int, default=0
        Of the generators.
    """
    if name == "smiley":
        return make_smiley(500, random_state=seed)
    if name == "cassini":
        # From the generator, and not the file of the same name: it is there everywhere.
        return make_cassini(500, random_state=seed)
    if name.startswith("rings-"):
        radii = [float(radius) for radius in name.split("-")[1:]]
        return make_rings(399, radii=radii, random_state=seed)
    is_uci = name in ("iris", "seeds", "glass")
    load = datasets.load_uci if is_uci else datasets.load_shapes
    return load(name, data_home=data_home, return_X_y=True)


def _choose_rows(n_rows: int, n_train: int, sample: str, seed: int) -> Any:
    """Return the numbers of the training rows to keep, or a slice."""
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


def _halves(X: np.ndarray, y: np.ndarray, *, seed: int) -> Split:
    """Split into two stratified halves."""
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=seed
    )
    return Split(X_train, y_train, X_test, y_test)
