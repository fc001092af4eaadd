"""Sections of the report: functions of a ``Subject`` that return a section or None."""

import copy
from typing import Any

import numpy as np

from kaucus.backend import format_bytes, to_numpy
from kaucus.delivery import _report_figures as draw
from kaucus.delivery._report_page import Section, figures, matrix, paragraph, table
from kaucus.delivery._table_models import class_rows
from kaucus.evaluation import format_seconds

# Rows and columns of the tables, and classes of a matrix that can be read.
_HARDEST, _COLUMNS, _MOST_CLASSES = 10, 8, 40
# Rows from which residuals tell how wide 90 % intervals must be.
_LEAST_CALIBRATION = 20


def what_it_is(subject: Any) -> Section:
    """Return a section with the estimator, its steps, kernel, C and gamma."""
    last, about = subject.last, subject.about
    rows = [["estimator", type(last).__name__]]
    if hasattr(subject.model, "steps"):
        steps = " → ".join(type(step).__name__ for _, step in subject.model.steps)
        rows.append(["steps", steps])
    if "rows" in about:
        rows.append(["fitted on", f"{about['rows']:,} rows"])
    rows.append(["columns", str(getattr(subject.model, "n_features_in_", "?"))])
    kernel = getattr(last, "kernel_", None)
    if kernel is not None:
        rows.append(["kernel", getattr(kernel, "name", repr(kernel))])
    for label, name in (("C", "C_"), ("gamma", "gamma_")):
        if getattr(last, name, None) is not None:
            rows.append([label, f"{getattr(last, name):.4g}"])
    body = table(("", ""), rows)
    if hasattr(last, "explain"):
        body += paragraph(last.explain())
    return Section("model", "What the model is", body)


def error(subject: Any) -> Section:
    """Return a section with the error, its interval and the error of a constant."""
    score, y = subject.score, subject.y
    value, _, interval = str(score).partition(" (")
    body = paragraph(f"{score.name} {value}", "big")
    body += paragraph(interval.rstrip(")"), "soft")
    weight = subject.weight
    if subject.classes is None:
        residual = np.asarray(subject.predicted, float) - y
        mean = np.average(y, weights=weight, axis=0)
        spread = np.sqrt(_mean((y - mean) ** 2, weight))
        rows = [
            ["mean absolute error", _mean(np.abs(residual), weight)],
            ["RMSE of always the mean", spread],
            ["R²", 1 - (score.value / spread) ** 2 if spread else float("nan")],
        ]
        return Section("error", "Error", body + table(("", ""), rows))
    rows = class_rows(subject.classes, y, subject.predicted)
    commonest = 100 * (1 - max(row[1] for row in rows) / len(y))
    body += paragraph(
        f"Always the commonest class is wrong in {commonest:.4g} %.", "soft"
    )
    if subject.probabilities is not None:
        body += paragraph(f"Log-loss {_log_loss(subject):.4g}.", "soft")
    heads = ("class", "rows", "found", "right where said")
    return Section("error", "Error", body + table(heads, rows))


def _mean(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the mean over rows, and over several outputs."""
    per_row = values.reshape(len(values), -1).mean(axis=1)
    return float(np.average(per_row, weights=weight))


def _of_truth(subject: Any) -> np.ndarray:
    """Return the probability that each row's own class was given, 0 of an unknown."""
    classes = np.asarray(subject.classes)
    places = np.minimum(np.searchsorted(classes, subject.y), len(classes) - 1)
    own = subject.probabilities[np.arange(subject.n_rows), places]
    return np.where(classes[places] == subject.y, own, 0.0)


def _log_loss(subject: Any) -> float:
    logs = -np.log(np.maximum(_of_truth(subject), 1e-15))
    return float(np.average(logs, weights=subject.weight))


def confusion(subject: Any) -> Section | None:
    """Return the confusion matrix, or for a regressor predictions over targets."""
    if subject.classes is None:
        if subject.y.ndim > 1:
            return None
        figure = draw.scatter_figure(subject.y.astype(float), subject.predicted)
        caption = "Every point is a row; on the line it is predicted exactly."
        return Section(
            "truth", "Predicted and true", figures(figure, captions=[caption])
        )
    labels = list(subject.classes)
    if len(labels) > _MOST_CLASSES:
        return None
    counts = [
        [np.sum((subject.y == a) & (subject.predicted == b)) for b in labels]
        for a in labels
    ]
    text = paragraph("Rows of a class by what was predicted for them.", "soft")
    return Section("confusion", "Confusion matrix", text + matrix(labels, counts))


def reliability(subject: Any) -> Section | None:
    """Return a reliability diagram of the probabilities."""
    if subject.probabilities is None:
        return None
    confidence = subject.probabilities.max(axis=1)
    right = (subject.predicted == subject.y).astype(float)
    figure, gap = draw.reliability_figure(confidence, right)
    caption = "Larger points are of more rows."
    body = paragraph(f"Probabilities are off by {100 * gap:.2g} % on average.")
    return Section(
        "reliability", "Reliability", body + figures(figure, captions=[caption])
    )


def search(subject: Any) -> Section | None:
    """Return figures of the losses over C, gamma and the steps of the metric."""
    results = getattr(subject.last, "search_results_", None)
    if results is None or not len(results["score"]):
        return None
    n = int(np.isfinite(results["score"]).sum())
    text = (
        f"{n:,} fits were judged by rows that they had not seen; the ring is the best."
    )
    body = paragraph(text) + figures(*draw.search_figures(subject.last))
    return Section("search", "The search", body)


def importances(subject: Any) -> Section | None:
    """Return a figure of the feature importances."""
    shares = getattr(subject.last, "feature_importances_", None)
    if shares is None or subject.image_shape is not None:
        return None
    shares = to_numpy(shares)
    names = getattr(subject.last, "feature_names_in_", None)
    names = [f"x{c}" for c in range(len(shares))] if names is None else names
    if np.allclose(shares, shares[0]):
        text = "No metric was better than none: all columns count alike."
        return Section("importances", "Columns that count", paragraph(text))
    figure = draw.importance_figure([str(name) for name in names], shares)
    text = "How much each column counts in the distances that the model has learned."
    return Section(
        "importances", "Columns that count", paragraph(text) + figures(figure)
    )


def representatives(subject: Any) -> Section | None:
    """Return the representatives of the largest weight, as pictures or as a table."""
    shown = subject.representatives
    if shown is None:
        return None
    n = subject.last.representatives_.shape[0]
    body = paragraph(f"{n:,} representatives; those that speak for most rows:")
    if subject.image_shape is not None:
        body += figures(draw.pictures_figure(shown.rows, subject.image_shape))
    else:
        columns = shown.most_important(_COLUMNS)
        heads = ["speaks for", "predicted", *(shown.columns[c] for c in columns)]
        rows = [
            [_rows(w), label, *_without_rounding(row, shown.rows, columns)]
            for w, label, row in zip(
                shown.weights[:12], shown.labels, shown.rows, strict=False
            )
        ]
        body += table(heads, rows)
    return Section("representatives", "Representatives", body)


def _without_rounding(row: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> list:
    """Return a row's values, 0 where they are no more than rounding errors."""
    sizes = np.abs(rows[:, columns]).max(axis=0)
    values = np.where(np.abs(row[columns]) < 1e-6 * sizes, 0.0, row[columns])
    return [float(value) for value in values]


def _rows(weight: float) -> str:
    return "itself" if round(weight) == 1 else f"{weight:,.0f} rows"


def hardest(subject: Any) -> Section:
    """Return the rows with the largest errors, or the least probable true class."""
    if subject.probabilities is not None:
        loss = -_of_truth(subject)
    elif subject.classes is not None:
        loss = (subject.predicted != subject.y).astype(float)
    else:
        difference = np.abs(np.asarray(subject.predicted, float) - subject.y)
        loss = difference.reshape(subject.n_rows, -1).max(axis=1)
    worst = np.argsort(-loss, kind="stable")[:_HARDEST]
    text = "The rows whose truth the model finds least likely, or is farthest from."
    body = paragraph(text)
    if subject.image_shape is not None:
        rows = np.array([list(subject.row(int(i)).values()) for i in worst], float)
        body += figures(draw.pictures_figure(rows, subject.image_shape))
    n_columns = _COLUMNS if subject.image_shape is None else 0
    columns = list(subject.row(int(worst[0])))[:n_columns]
    heads = ["row", "true", "predicted", "probability of the truth", *columns]
    rows = []
    for i in worst:
        row = subject.row(int(i))
        given = "" if subject.probabilities is None else f"{-loss[i]:.3g}"
        truth, said = _plain(subject.y[i]), _plain(subject.predicted[i])
        cells = [_plain(row[c]) for c in columns]
        rows.append([int(i) + 1, truth, said, given, *cells])
    if subject.probabilities is None:
        heads.pop(3)
        rows = [[*row[:3], *row[4:]] for row in rows]
    return Section("hardest", "Hardest rows", body + table(heads, rows))


def _plain(value: Any) -> Any:
    """Return a value as a text or a number of Python's own."""
    if isinstance(value, np.ndarray):
        return ", ".join(f"{v:.4g}" for v in value)
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    return str(value)[:60]


def intervals(subject: Any) -> Section | None:
    """Return intervals of a regressor, or sizes of the sets of a classifier.

    Calibrated by every other test row and drawn for the rest: a model file does not
    have the leave-one-out residuals of its training rows.
    """
    regression = subject.classes is None
    wanted = "predict_interval" if regression else "predict_set"
    if not hasattr(subject.last, wanted) or len(subject.y) < 2 * _LEAST_CALIBRATION:
        return None
    y = subject.y.astype(float) if regression else subject.y
    if y.ndim > 1 or (not regression and not np.isin(y, subject.classes).all()):
        return None
    model, X = subject.model, subject.X
    rows = model[:-1].transform(X) if hasattr(model, "steps") else X
    seen, others = (np.arange(k, len(y), 2) for k in (0, 1))
    calibrated = copy.copy(subject.last).conformalize(draw.picked(rows, seen), y[seen])
    rows, y = draw.picked(rows, others), y[others]
    note = paragraph("Calibrated by every other row, shown for the rest.")
    if regression:
        figure = draw.interval_figure(calibrated, rows, y)
        return Section("intervals", "Intervals", note + figures(figure))
    figure = draw.set_size_figure(calibrated, rows)
    return Section("intervals", "Sizes of prediction sets", note + figures(figure))


def computed(subject: Any) -> Section:
    """Return a section with time, memory, solver and parameters of the fit."""
    about, last = subject.about, subject.last
    rows = []
    if "fit_seconds" in about:
        rows.append(["time of the fit", format_seconds(about["fit_seconds"])])
    if "memory" in about:
        rows.append(["memory of the fit", format_bytes(about["memory"])])
    info = getattr(last, "solve_info_", None)
    if info is not None:
        rows += [["solver", info.solver], ["precision", info.precision]]
        measured = np.isfinite(info.backward_error)
        residual = f"{info.backward_error:.1e}" if measured else "not measured"
        rows.append(["relative residual", residual])
        if info.jitter:
            rows.append(["added to the diagonal", f"{info.jitter:.1e}"])
    parameters = last.get_params(deep=False)
    rows += [[name, repr(value)[:80]] for name, value in parameters.items()]
    return Section("fit", "How it was computed", table(("", ""), rows))


SECTIONS = (
    what_it_is,
    error,
    confusion,
    reliability,
    search,
    importances,
    representatives,
    hardest,
    intervals,
    computed,
)
