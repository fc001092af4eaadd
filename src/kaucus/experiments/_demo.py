"""The demonstration: LS-SVM beside SVC in one table, and a picture to look at.

Needs nothing but what comes with scikit-learn; matplotlib for the picture.
"""

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus.evaluation import best_of, format_bytes, format_seconds
from kaucus.experiments._data import Split, load_split
from kaucus.experiments._figures import STYLE, new_figure
from kaucus.experiments._optional import require

HEADERS = (
    "data",
    "model",
    "accuracy",
    "fit",
    "predict",
    "size",
    "stored vectors",
)
SETTINGS = {"kernel": "rbf", "gamma": "scale", "C": 10.0}
SETTINGS_TEXT = "kernel='rbf', gamma='scale', C=10 for both; times: best of 3 runs"
_BLUE, _ORANGE = "#0072B2", "#D55E00"


class Contest(NamedTuple):
    """One model on one data set."""

    data: str
    model: str
    accuracy: float
    fit_seconds: float
    predict_seconds: float
    n_bytes: int
    n_vectors: int

    def texts(self) -> list[str]:
        """Write the values for :data:`HEADERS`."""
        return [
            self.data,
            self.model,
            f"{100 * self.accuracy:.2f} %",
            format_seconds(self.fit_seconds),
            format_seconds(self.predict_seconds),
            format_bytes(self.n_bytes),
            f"{self.n_vectors:,}",
        ]


def compare_models(*, repeats: int = 3) -> list[Contest]:
    """Fit LSSVMClassifier and SVC with the same settings on the demo's data.

    Parameters
    ----------
    repeats : int, default=3
        Each time is the best of so many runs in this process.

    Returns
    -------
    list of Contest
        Two per data set: ours, then SVC.
    """
    from sklearn.svm import SVC

    from kaucus import LSSVMClassifier

    makers = (LSSVMClassifier, SVC)
    data = {"digits": load_split("digits"), "clouds": make_clouds_split()}
    return [
        _contest(_describe(name, split), maker, split, repeats)
        for name, split in data.items()
        for maker in makers
    ]


def make_clouds_split() -> Split:
    """Make 8,000 rows of ten classes with 300 features, and split them in halves."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        n_samples=8000,
        n_features=300,
        n_informative=50,
        n_redundant=0,
        n_classes=10,
        class_sep=3.0,
        random_state=0,
    )
    return Split(X[:4000], y[:4000], X[4000:], y[4000:])


def draw_demo(path: str | Path) -> Path:
    """Draw two moons with their probabilities, and the digits that are misread.

    Parameters
    ----------
    path : path
        The PNG file to write.
    """
    require("matplotlib", extra="plot")
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure = new_figure(12.5, 5.4)
        left, right = figure.subfigures(1, 2, wspace=0.04, width_ratios=[1.15, 1])
        _draw_moons(left)
        _draw_misread(right)
        figure.savefig(path, facecolor="white", pad_inches=0.15, bbox_inches="tight")
    return Path(path)


def _describe(name: str, split: Split) -> str:
    n_rows, n_features = split.X_train.shape
    return f"{name} ({n_rows:,} × {n_features})"


def _contest(data: str, maker: Callable[..., Any], split: Split, repeats: int):
    """Measure one model on one data set."""
    model, fit_seconds = best_of(
        repeats, lambda: maker(**SETTINGS).fit(split.X_train, split.y_train)
    )
    predicted, predict_seconds = best_of(repeats, model.predict, split.X_test)
    return Contest(
        data=data,
        model=maker.__name__,
        accuracy=float(np.mean(predicted == split.y_test)),
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        n_bytes=len(pickle.dumps(model)),
        n_vectors=_stored_vectors(model),
    )


def _stored_vectors(model: Any) -> int:
    """Count the rows that a model keeps to predict with."""
    kept = model.X_fit_ if hasattr(model, "X_fit_") else model.support_vectors_
    return int(kept.shape[0])


def _draw_moons(figure: Any) -> None:
    """Shade the plane by the probability of one moon."""
    from sklearn.datasets import make_moons

    from kaucus import LSSVMClassifier

    X, y = make_moons(600, noise=0.2, random_state=0)
    model = LSSVMClassifier(kernel="rbf", gamma=2.0, C=10.0).fit(X, y)
    low, high = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
    across, up = np.meshgrid(*np.linspace(low, high, 220).T)
    grid = np.column_stack([across.ravel(), up.ravel()])
    p = model.predict_proba(grid)[:, 1].reshape(across.shape)

    axes = figure.add_subplot()
    levels = np.linspace(0, 1, 21)
    shade = axes.contourf(across, up, p, levels=levels, cmap=_colour_map())
    axes.contour(across, up, p, levels=[0.5], colors="#222222", linewidths=2)
    for label, colour in enumerate((_BLUE, _ORANGE)):
        axes.scatter(*X[y == label].T, s=16, color=colour, edgecolor="white", lw=0.5)
    axes.set(xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(
        "Two moons: LSSVMClassifier's boundary and probabilities", loc="left"
    )
    bar = figure.colorbar(shade, ax=axes, ticks=[0, 0.25, 0.5, 0.75, 1], pad=0.02)
    bar.set_label("probability of the orange moon")
    bar.ax.tick_params(labelsize=10, length=0)
    bar.outline.set_visible(False)


def _colour_map() -> Any:
    """Blue to orange by way of white, pale enough for points on top."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("moons", ["#6BAED6", "#FFFFFF", "#F2A26B"])


def _draw_misread(figure: Any, most: int = 16) -> None:
    """Show the test digits that the model gets wrong, and for what it takes them."""
    from kaucus import LSSVMClassifier

    split = load_split("digits")
    model = LSSVMClassifier(**SETTINGS).fit(split.X_train, split.y_train)
    p = model.predict_proba(split.X_test)
    predicted = model.predict(split.X_test)
    wrong = np.flatnonzero(predicted != split.y_test)
    shown = wrong[:most]
    n_columns = max(1, math.ceil(math.sqrt(len(shown))))
    n_rows = max(1, math.ceil(len(shown) / n_columns))
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axis in axes:
        axis.axis("off")
    for axis, i in zip(axes, shown, strict=False):
        axis.imshow(split.X_test[i].reshape(8, 8), cmap="gray_r", vmax=20)
        text = f"{split.y_test[i]} read as {predicted[i]} (p = {p[i].max():.2f})"
        axis.set_title(text, fontsize=10.5, color=_ORANGE)
    head = f"Digits: the {len(wrong)} of {len(predicted)} test pictures it misreads"
    more = f" (first {most})" if len(wrong) > most else ""
    figure.suptitle(head + more, fontsize=13)
