"""The demonstration: a table, digits and clusters beside scikit-learn, and a figure.

The table is `census.csv.gz`: 2,500 random rows of "Adult" by B. Becker and R. Kohavi
(1996), UCI Machine Learning Repository, doi.org/10.24432/C5XW20, licence CC BY 4.0;
gaps are empty, and the columns fnlwgt and education-num are left out.
"""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from kaucus._array.blocks import format_bytes, one_openmp_thread
from kaucus._base import require
from kaucus.datasets import make_rings
from kaucus.estimators.clusters import KernelKMeans
from kaucus.estimators.kmeans_kernel import KMeansKernelClassifier
from kaucus.estimators.tables import TableClassifier
from kaucus.evaluation.clustering import (
    clustering_accuracy,
    format_seconds,
    print_table,
    timed,
)
from kaucus.evaluation.displays import COLOURS, figure_file

CENSUS = Path(__file__).with_name("census.csv.gz")
N_TRAIN = 1500
_BLUE, _ORANGE = COLOURS[:2]


def demo(output: Path) -> int:
    """Print three comparisons, then draw the figure."""
    frame, income = read_census()
    rows = compare_on_table(frame, income)
    print_table(
        ("model", "log-loss", "AUC", "misread", "fit", "before the fit"),
        rows,
        title=f"Who earns more than 50,000 dollars? {N_TRAIN:,} people with categories "
        f"and gaps to learn from, {len(income) - N_TRAIN:,} others",
    )
    print()
    print_table(
        ("model", "misread", "fit", "predict", "size", "stored pictures"),
        compare_on_digits(),
        title="Digits of 8 × 8 pixels, half of 1,797 to learn from",
    )
    print()
    print_table(
        ("model", "points in the right ring"),
        [
            [type(model).__name__, f"{100 * share:.0f} %"]
            for model, _, share in find_rings()
        ],
        title="Clusters: two rings, without their labels",
    )
    print()
    output.mkdir(parents=True, exist_ok=True)
    print(f"wrote {draw_demo(output / 'kaucus-demo.png', rows)}")
    return 0


def read_census() -> tuple[Any, np.ndarray]:
    """Return people, texts as categories, and whether they earn more than 50,000."""
    require("pandas", "tables")
    import pandas as pd

    frame = pd.read_csv(CENSUS)
    income = (frame.pop("income") == "more than 50K").to_numpy()
    texts = frame.select_dtypes(exclude="number").columns
    return frame.astype(dict.fromkeys(texts, "category")), income


def compare_on_table(frame: Any, income: np.ndarray) -> list[list[str]]:
    """Fit three defaults to the first rows, and judge them by the others."""
    texts = list(frame.select_dtypes("category").columns)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), texts), remainder=StandardScaler()
    )
    boosting = HistGradientBoostingClassifier(
        categorical_features="from_dtype", random_state=0
    )
    contenders = (
        (TableClassifier(random_state=0), "nothing"),
        (boosting, "texts to categories"),
        (make_pipeline(columns, SVC()), "one-hot, scaled"),
    )
    return [_judge(*contender, frame, income) for contender in contenders]


def _judge(model: Any, work: str, frame: Any, income: np.ndarray) -> list[str]:
    """Return a row: loss, AUC and share of errors on the rows after the first."""
    with one_openmp_thread():  # on a busy machine threads wait for each other
        _, seconds = timed(model.fit, frame[:N_TRAIN], income[:N_TRAIN])
    rest, truth = frame[N_TRAIN:], income[N_TRAIN:]
    loss, last = "none", getattr(model, "steps", [(None, model)])[-1][1]
    if hasattr(model, "predict_proba"):
        score = model.predict_proba(rest)[:, 1]
        loss = f"{log_loss(truth, score):.3f}"
    else:
        score = model.decision_function(rest)
    return [
        type(last).__name__,
        loss,
        f"{roc_auc_score(truth, score):.3f}",
        f"{100 * np.mean(model.predict(rest) != truth):.1f} %",
        format_seconds(seconds),
        work,
    ]


def compare_on_digits() -> list[list[str]]:
    """Fit representatives, every picture, and an SVM to half of the digits."""
    X_train, X_test, y_train, y_test = make_digits_split()
    rows = []
    for model in (
        KMeansKernelClassifier(20, C=10.0, learn_metric=False, random_state=0),
        KMeansKernelClassifier(learn_metric=False, random_state=0),
        SVC(C=10.0),
    ):
        _, fit_seconds = timed(model.fit, X_train, y_train)
        found, predict_seconds = timed(model.predict, X_test)
        stored = getattr(model, "representatives_", None)
        stored = model.support_vectors_ if stored is None else stored
        rows.append(
            [
                type(model).__name__,
                f"{100 * np.mean(found != y_test):.2f} %",
                format_seconds(fit_seconds),
                format_seconds(predict_seconds),
                format_bytes(len(pickle.dumps(model))),
                f"{len(stored):,}",
            ]
        )
    return rows


def make_digits_split() -> list[np.ndarray]:
    """Split scikit-learn's digits in halves, with the same share of each class."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)


def find_rings() -> list[tuple[Any, np.ndarray, float]]:
    """Cluster two rings by two methods; return models, points and right shares."""
    X, y = make_rings(400, random_state=0)
    models = KernelKMeans(2, random_state=0), KMeans(2, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        return [
            (model.fit(X), X, clustering_accuracy(y, model.labels_)) for model in models
        ]


# ---- the figure ----------------------------------------------------------------------


def draw_demo(path: str | Path, rows: list[list[str]]) -> Path:
    """Draw AUCs of the table's models, representatives of digits, and two rings."""
    margins = {"savefig.bbox": "tight", "savefig.pad_inches": 0.2}
    with figure_file(path, 14.5, 4.8, **margins) as figure:
        left, middle, right = figure.subfigures(
            1, 3, wspace=0.06, width_ratios=[1.05, 1.0, 1.25]
        )
        _draw_areas(left, rows)
        _draw_representatives(middle)
        _draw_rings(right)
    return Path(path)


def _draw_areas(figure: Any, rows: list[list[str]]) -> None:
    """Draw one bar a model: how far its AUC is from that of a perfect order."""
    axes = figure.add_subplot()
    names = ["kaucus\nTableClassifier", "HistGradient-\nBoosting", "SVC, one-hot"]
    areas = [100 * (1 - float(row[2])) for row in rows]
    bars = axes.barh(names, areas, color=[_BLUE, "#9AA5B1", "#9AA5B1"], height=0.6)
    axes.bar_label(bars, [f"{area:.1f}" for area in areas], padding=4)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set(xticks=[], xlim=(0, 1.15 * max(areas)))
    figure.suptitle(
        "Incomes of 1,000 people: points of AUC\nthat are lacking; less is better",
        fontsize=13,
    )


def _draw_representatives(figure: Any, n_shown: int = 5) -> None:
    """Draw the representatives of digits with the largest weights."""
    X_train, X_test, y_train, y_test = make_digits_split()
    model = KMeansKernelClassifier(20, learn_metric=False, random_state=0, C=10.0)
    right = np.mean(model.fit(X_train, y_train).predict(X_test) == y_test)
    axes = figure.subplots(n_shown, len(model.classes_))
    for column, label in zip(axes.T, model.classes_, strict=True):
        of_class = np.flatnonzero(model.representative_labels_ == label)
        weights = model.representative_weights_[of_class]
        heaviest = of_class[np.argsort(-weights, kind="stable")[:n_shown]]
        for axis, i in zip(column, heaviest, strict=True):
            axis.axis("off")
            axis.imshow(model.representatives_[i].reshape(8, 8), cmap="gray_r")
    n = len(model.representatives_)
    figure.suptitle(
        f"Digits: {n} representatives for {len(X_train)} pictures;\n"
        f"{100 * right:.1f} % of {len(X_test)} others are read as the right digit",
        fontsize=13,
    )


def _draw_rings(figure: Any) -> None:
    """Draw the clusters of kernel k-means and of k-means."""
    for axis, (model, X, share) in zip(
        figure.subplots(1, 2), find_rings(), strict=True
    ):
        for label, colour in enumerate((_BLUE, _ORANGE)):
            axis.scatter(*X[model.labels_ == label].T, s=9, color=colour)
        axis.set_title(f"{type(model).__name__}: {100 * share:.0f} %", fontsize=12)
        axis.set(xticks=[], yticks=[], aspect="equal")
        axis.spines[:].set_visible(False)
    figure.suptitle(
        "Two rings without labels:\npoints in the cluster of their ring", fontsize=13
    )
