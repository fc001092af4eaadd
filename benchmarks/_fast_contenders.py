"""Who runs in the benchmark ``fast``, on what data, with what settings."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks._runner import load_digits
from papers import Split

PARTS = ("mnist", "covtype", "a9a")
BUDGET = "8GiB"
POLY = {"kernel": "poly", "degree": 4, "gamma": 1.0, "coef0": 0.0}
DIGITS_C, SVC_C = 1e3, 10.0
DIGITS_FIRST, DIGITS_ADDED, SEEDS = 100, 4_000, (0, 1, 2)
COVER = {"kernel": "exponential", "gamma": 0.5, "C": 10.0}
COVER_POINTS, QUICK_COVER_POINTS = (500, 1_000, 2_000, 4_000, 8_000), (100, 200)
NYSTROEM_POINTS, NYSTROEM_GAMMA = 1_000, 0.1
ADULT = {"kernel": "rbf", "gamma": 0.02, "C": 3.0}
ADULT_POINTS = 250
GRID = {"C": [1.0, 10.0], "gamma": ["scale", 0.05, 0.01]}


class FastContender(NamedTuple):
    """How to make a model for some training labels, and what it imports."""

    name: str
    make: Callable[[np.ndarray], Any]
    imports: tuple[str, ...]
    dtype: str = "float32"
    points: int | None = None
    """Representatives or landmarks, where their number is chosen."""
    seeds: tuple[int, ...] = ()
    """States of a model that draws rows: one fit each, of which the means count."""


def contenders(part: str, quick: bool) -> list[FastContender]:
    """List who runs on a part; ratios are over the first."""
    if part == "mnist":
        return _on_digits(1000 if quick else DIGITS_ADDED)
    if part == "covtype":
        return _on_cover_types(QUICK_COVER_POINTS if quick else COVER_POINTS)
    return _on_adults()


def load_part(part: str, quick: bool, dtype: str, data_home: Any) -> Split:
    """Load training and test rows; ``quick`` takes a part of the training rows."""
    if part == "mnist":
        return load_digits(6_000 if quick else 60_000, dtype, data_home)
    if part == "covtype":
        return _cover_types(20_000 if quick else None, dtype, data_home)
    from papers.datasets import load_a9a

    data = load_a9a(data_home=data_home, dtype=dtype)
    n = 4_000 if quick else len(data.y_train)
    return Split(data.X_train[:n], data.y_train[:n], data.X_test, data.y_test)


def _cover_types(n_train: int | None, dtype: str, data_home: Any) -> Split:
    """Split 80/20 at random, and standardise by the training rows."""
    from papers.datasets import load_covtype

    X, y = load_covtype(data_home=data_home, return_X_y=True, dtype=dtype)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    test, train = np.split(order, [len(y) // 5])
    train = train[:n_train]
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    scale[scale == 0] = 1
    X -= mean
    X /= scale
    return Split(X[train], y[train], X[test], y[test])


# ---- ours ----------------------------------------------------------------------------


def _ours(numbers: Any, **options: Any) -> Any:
    from kaucus import KMeansKernelClassifier

    return KMeansKernelClassifier(
        numbers,
        probability=False,
        kmeans_params={"max_iter": 10},
        random_state=0,
        memory_budget=BUDGET,
        **options,
    )


def in_proportion(y: np.ndarray, total: int) -> dict[Any, int]:
    """Return numbers of representatives that go with the sizes of the classes.

    >>> in_proportion(np.array([0] * 90 + [1] * 10), 50)
    {0: 45, 1: 5}
    """
    classes, counts = np.unique(y, return_counts=True)
    wanted = np.maximum(np.rint(total * counts / len(y)).astype(int), 1)
    return dict(zip(classes.tolist(), wanted.tolist(), strict=True))


# ---- each part -----------------------------------------------------------------------


def _on_digits(n_added: int) -> list[FastContender]:
    def refined(name: str, **options: Any) -> FastContender:
        def make(y: np.ndarray) -> Any:
            hard = {"refine": n_added, **options}
            return _ours(
                DIGITS_FIRST, clustering="spherical", C=DIGITS_C, **POLY, **hard
            )

        points = 10 * DIGITS_FIRST + n_added
        return FastContender(name, make, ("kaucus",), points=points, seeds=SEEDS)

    return [
        refined("kaucus, rows near the boundary", fit_on="boundary"),
        refined("kaucus, all rows"),
        FastContender(
            "scikit-learn-intelex SVC", _intelex(C=SVC_C, **POLY), ("sklearnex.svm",)
        ),
        FastContender("SVC", _svc(C=SVC_C, **POLY), ("sklearn.svm",), "float64"),
    ]


def _on_cover_types(numbers: tuple[int, ...]) -> list[FastContender]:
    def with_points(total: int) -> FastContender:
        def make(y: np.ndarray) -> Any:
            return _ours(in_proportion(y, total), **COVER)

        return FastContender("kaucus", make, ("kaucus",), points=total)

    def nystroem(name: str, last: Callable[[], Any]) -> FastContender:
        def make(y: np.ndarray) -> Any:
            from sklearn.kernel_approximation import Nystroem
            from sklearn.pipeline import make_pipeline

            columns = Nystroem(
                gamma=NYSTROEM_GAMMA, n_components=NYSTROEM_POINTS, random_state=0
            )
            return make_pipeline(columns, last())

        return FastContender(name, make, ("sklearn",), points=NYSTROEM_POINTS)

    def sgd() -> Any:
        from sklearn.linear_model import SGDClassifier

        return SGDClassifier(random_state=0)

    def ridge() -> Any:
        from sklearn.linear_model import RidgeClassifier

        return RidgeClassifier()

    def linear(y: np.ndarray) -> Any:
        from sklearn.svm import LinearSVC

        return LinearSVC(dual=False)

    return [
        *map(with_points, numbers),
        nystroem("Nystroem + SGDClassifier", sgd),
        nystroem("Nystroem + RidgeClassifier", ridge),
        FastContender("LinearSVC", linear, ("sklearn.svm",), "float64"),
    ]


def _on_adults() -> list[FastContender]:
    def ours(y: np.ndarray) -> Any:
        return _ours(ADULT_POINTS, **ADULT)

    def searched(y: np.ndarray) -> Any:
        from sklearn.model_selection import GridSearchCV

        return GridSearchCV(_intelex(kernel="rbf")(y), GRID, cv=3)

    intelex = ("sklearnex.svm",)
    return [
        FastContender("kaucus", ours, ("kaucus",), points=2 * ADULT_POINTS),
        FastContender("scikit-learn-intelex SVC", _intelex(kernel="rbf"), intelex),
        FastContender("scikit-learn-intelex SVC, grid of six", searched, intelex),
    ]


def _intelex(**options: Any) -> Callable[[np.ndarray], Any]:
    def make(y: np.ndarray) -> Any:
        from sklearnex.svm import SVC

        return SVC(cache_size=1000, **options)

    return make


def _svc(**options: Any) -> Callable[[np.ndarray], Any]:
    def make(y: np.ndarray) -> Any:
        from sklearn.svm import SVC

        return SVC(cache_size=1000, **options)

    return make
