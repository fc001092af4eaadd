"""The demonstration: our classifiers compared with SVC, and a figure.

Needs nothing but what comes with scikit-learn; matplotlib for the image.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_classification, make_moons
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from kaucus._array.blocks import format_bytes
from kaucus.estimators.kmeans_kernel import KMeansKernelClassifier
from kaucus.estimators.ls_svm import LSSVMClassifier
from kaucus.evaluation.clustering import best_of, format_seconds, print_table
from kaucus.evaluation.displays import COLOURS, figure_file

HEADERS = ("data", "model", "accuracy", "fit", "predict", "size", "stored vectors")
SETTINGS = {"kernel": "rbf", "gamma": "scale", "C": 10.0}
SETTINGS_TEXT = "kernel='rbf', gamma='scale', C=10 for all; times: best of 3 runs"
_BLUE, _ORANGE = COLOURS[:2]


def demo(output: Path) -> int:
    """Print the comparison, then draw the figure."""
    print_table(HEADERS, compare_models())
    print(SETTINGS_TEXT)
    output.mkdir(parents=True, exist_ok=True)
    print(f"wrote {draw_demo(output / 'kaucus-demo.png')}")
    return 0


def compare_models(*, repeats: int = 3) -> list[list[str]]:
    """Fit our classifiers and SVC with the same settings: rows for :data:`HEADERS`.

    Three rows per data set: ours, then SVC. Each time is the best of ``repeats``.
    """
    makers = (KMeansKernelClassifier, LSSVMClassifier, SVC)
    data = {"digits": make_digits_split(), "clouds": make_clouds_split()}
    return [
        _measure_model(name, maker, split, repeats)
        for name, split in data.items()
        for maker in makers
    ]


def make_clouds_split() -> list[np.ndarray]:
    """Return two halves of 8,000 rows of ten classes with 300 features."""
    X, y = make_classification(
        n_samples=8000,
        n_features=300,
        n_informative=50,
        n_redundant=0,
        n_classes=10,
        class_sep=3.0,
        random_state=0,
    )
    return [X[:4000], X[4000:], y[:4000], y[4000:]]


def make_digits_split() -> list[np.ndarray]:
    """Split scikit-learn's digits in halves, with the same share of each class."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)


def draw_demo(path: str | Path) -> Path:
    """Draw two moons with their probabilities, and representatives of digits."""
    margins = {"savefig.bbox": "tight", "savefig.pad_inches": 0.15}
    with figure_file(path, 12.5, 5.4, **margins) as figure:
        left, right = figure.subfigures(1, 2, wspace=0.04, width_ratios=[1.15, 1])
        _draw_moons(left)
        _draw_representatives(right)
    return Path(path)


def _measure_model(data: str, maker: Callable[..., Any], split, repeats: int):
    """Measure one model on one data set: a row for HEADERS."""
    X_train, X_test, y_train, y_test = split
    model, fit_seconds = best_of(repeats, lambda: _make(maker).fit(X_train, y_train))
    predicted, predict_seconds = best_of(repeats, model.predict, X_test)
    names = ("representatives_", "X_fit_", "support_vectors_")
    kept = next(getattr(model, name) for name in names if hasattr(model, name))
    return [
        f"{data} ({X_train.shape[0]:,} × {X_train.shape[1]})",
        maker.__name__,
        f"{100 * np.mean(predicted == y_test):.2f} %",
        format_seconds(fit_seconds),
        format_seconds(predict_seconds),
        format_bytes(len(pickle.dumps(model))),
        f"{kept.shape[0]:,}",
    ]


def _make(maker: Callable[..., Any]) -> Any:
    """Make an unfitted model, the same in every run."""
    small = {"random_state": 0, "n_representatives": 100}  # of each class
    known = maker().get_params()
    return maker(**SETTINGS, **{k: v for k, v in small.items() if k in known})


def _draw_moons(figure: Any) -> None:
    """Shade the plane by the probability of one moon."""
    from matplotlib.colors import LinearSegmentedColormap

    X, y = make_moons(600, noise=0.2, random_state=0)
    model = KMeansKernelClassifier(8, kernel="rbf", gamma=2.0, C=10.0, random_state=0)
    model.fit(X, y)
    axes = figure.add_subplot()
    colours = ["#6BAED6", "#FFFFFF", "#F2A26B"]  # pale: the points stand out
    shade = DecisionBoundaryDisplay.from_estimator(
        model,
        X,
        response_method="predict_proba",
        grid_resolution=220,
        eps=0.4,
        ax=axes,
        levels=np.linspace(0, 1, 21),
        cmap=LinearSegmentedColormap.from_list("moons", colours),
    )
    grid = shade.xx0, shade.xx1, shade.response
    axes.contour(*grid, levels=[0.5], colors="#222222", linewidths=2)
    for label, colour in enumerate((_BLUE, _ORANGE)):
        axes.scatter(*X[y == label].T, s=16, color=colour, edgecolor="white", lw=0.5)
        chosen = model.representatives_[model.representative_labels_ == label]
        axes.scatter(*chosen.T, s=190, color=colour, edgecolor="#222222", lw=2)
    axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title("Two moons: 16 representatives speak for 600 points", loc="left")
    bar = figure.colorbar(
        shade.surface_, ax=axes, ticks=[0, 0.25, 0.5, 0.75, 1], pad=0.02
    )
    bar.set_label("probability of the orange moon")
    bar.ax.tick_params(labelsize=10, length=0)
    bar.outline.set_visible(False)


def _draw_representatives(figure: Any, n_shown: int = 6) -> None:
    """Show the representatives of digits with the largest weights."""
    X_train, X_test, y_train, y_test = make_digits_split()
    model = KMeansKernelClassifier(20, learn_metric=False, random_state=0, C=10.0)
    accuracy = model.fit(X_train, y_train).score(X_test, y_test)
    axes = figure.subplots(n_shown, len(model.classes_))
    for column, label in zip(axes.T, model.classes_, strict=True):
        of_class = np.flatnonzero(model.representative_labels_ == label)
        weights = model.representative_weights_[of_class]
        heaviest = of_class[np.argsort(-weights, kind="stable")[:n_shown]]
        for axis, i in zip(column, heaviest, strict=True):
            axis.axis("off")
            axis.imshow(model.representatives_[i].reshape(8, 8), cmap="gray_r")
            text = f"for {model.representative_weights_[i]:.0f}"
            axis.set_title(text, fontsize=9, pad=2, color=_ORANGE)
    n = len(model.representatives_)
    figure.suptitle(
        f"Digits: {n} representatives for {len(X_train)} images,\n"
        f"{100 * accuracy:.1f} % of the others read right",
        fontsize=13,
    )
