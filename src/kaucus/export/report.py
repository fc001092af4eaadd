"""The report of a model as an HTML page."""

import copy
import hashlib
import html
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

import kaucus
from kaucus._array.blocks import format_bytes
from kaucus._array.namespace import is_sparse, to_numpy, warn_user
from kaucus._base import require
from kaucus.evaluation.clustering import format_seconds
from kaucus.evaluation.displays import (
    COLOURS,
    IntervalDisplay,
    RepresentativesDisplay,
    SearchDisplay,
    SetSizeDisplay,
    last_step,
    picture_sheet,
)
from kaucus.export.files import write_whole
from kaucus.export.tables import class_rows, score_predictions

# ----------------------------------------------------------------------------------
# Figures of the report: matplotlib's SVG within the page, in the page's colours.
# ----------------------------------------------------------------------------------

# That of texts and lines in report.mplstyle.
_INK = "#010203"
_REM_PER_INCH = 6.0


def draw(
    function: Callable[..., object], *, width: float = 6.0, height: float = 3.4
) -> str:
    """Return the drawing of a function of axes as SVG; width and height in inches."""
    matplotlib = require("matplotlib", "plot")
    from matplotlib import style
    from matplotlib.figure import Figure

    cycle = {"axes.prop_cycle": matplotlib.cycler(color=COLOURS)}
    sheet = Path(__file__).with_name("report.mplstyle")
    with style.context([sheet, cycle]):  # nothing global is left
        figure = Figure(figsize=(width, height), layout="constrained")
        function(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Names are of one page now, not of one file.
    own = hashlib.sha256(text.encode()).hexdigest()[:8]
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{own}-", text)
    # As wide as there is room, and no wider than its texts are easily read.
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', _opening, text, count=1)


def _opening(match: re.Match) -> str:
    links = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
    width = float(match[1].split()[2]) / 72 * _REM_PER_INCH
    return (
        f'<svg role="img" xmlns="http://www.w3.org/2000/svg" {links} '
        f'viewBox="{match[1]}" style="max-width:{width:.1f}rem">'
    )


# ---- the figures ---------------------------------------------------------------------


def search_figures(results: Mapping) -> list[str]:
    """Return the loss over C, over gamma, and over the steps of the metric."""
    display = SearchDisplay(results)
    found = []
    for x in ("C", "gamma", "n_steps"):
        tried = np.asarray(results.get(x, []), dtype=float)
        if len(np.unique(tried[np.isfinite(tried)])) > 1:
            found.append(draw(lambda ax, x=x: display.plot(x=x, ax=ax), width=4.2))
    return found


def reliability_figure(confidence: np.ndarray, right: np.ndarray) -> tuple[str, float]:
    """Return a reliability diagram and the expected calibration error.

    The error is the mean distance of probability and accuracy over ten bins, weighted
    by their rows.
    """
    edges = np.linspace(0, 1, 11)
    bins = np.clip(np.digitize(confidence, edges) - 1, 0, 9)
    counts = np.bincount(bins, minlength=10)
    used = counts > 0
    said = np.bincount(bins, confidence, minlength=10)[used] / counts[used]
    true = np.bincount(bins, right, minlength=10)[used] / counts[used]
    gap = float(np.sum(counts[used] * np.abs(said - true)) / counts.sum())

    def plot(ax: Any) -> None:
        ax.plot([0, 1], [0, 1], "--", lw=1, color=_INK, label="as it should be")
        sizes = 20 + 180 * counts[used] / counts.max()
        ax.plot(said, true, lw=1)
        ax.scatter(said, true, s=sizes, label="rows of a tenth")
        ax.set(
            xlabel="probability of the likeliest class", ylabel="share that is right"
        )
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.06))
        ax.legend(loc="upper left")

    return draw(plot, width=4.6, height=3.8), gap


def scatter_figure(truth: np.ndarray, predicted: np.ndarray) -> str:
    """Return a scatter plot of predictions over targets, of 1,500 rows at most."""
    some = np.linspace(0, len(truth) - 1, min(len(truth), 1500)).astype(int)
    truth, predicted = truth[some], predicted[some]
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]

    def plot(ax: Any) -> None:
        ax.plot(ends, ends, "--", lw=1, color=_INK)
        # One shape, used many times, is small; transparent where rows are many.
        ax.plot(truth, predicted, ".", ms=5, alpha=0.5 if len(truth) < 500 else 0.25)
        ax.set(xlabel="true", ylabel="predicted")

    return draw(plot, width=4.6, height=3.8)


def importance_figure(names: list[str], shares: np.ndarray) -> str:
    """Return bars of the columns that count most."""
    first = np.argsort(-shares, kind="stable")[:15][::-1]

    def plot(ax: Any) -> None:
        ax.barh(range(len(first)), 100 * shares[first])
        ax.set_yticks(range(len(first)), [names[c][:32] for c in first])
        ax.set_xlabel("share, %")

    return draw(plot, width=5.0, height=0.6 + 0.26 * len(first))


def pictures_figure(rows: np.ndarray, image_shape: tuple[int, ...]) -> str:
    """Return rows as pictures, ten in a line."""
    sheet = picture_sheet(rows, image_shape)

    def plot(ax: Any) -> None:
        ax.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        ax.set_axis_off()

    height = 6.0 * sheet.shape[0] / sheet.shape[1]
    return draw(plot, height=max(height, 0.7))


def picked(X: Any, rows: np.ndarray) -> Any:
    """Return the rows of a frame, an array or a CSR matrix with these numbers."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def interval_figure(calibrated: Any, X: Any, y: np.ndarray) -> str:
    """Return a figure of intervals and targets over the predictions of some rows."""
    some = np.linspace(0, len(y) - 1, min(len(y), 400)).astype(int)
    shown = calibrated, picked(X, some), y[some]
    options = {"feature": "prediction", "method": "split"}
    return draw(lambda ax: IntervalDisplay.from_estimator(*shown, **options, ax=ax))


def set_size_figure(calibrated: Any, X: Any, _) -> str:
    """Return a bar plot of the sizes of prediction sets."""
    shape = SetSizeDisplay.from_estimator
    return draw(lambda ax: shape(calibrated, X, method="split", ax=ax), height=2.2)


# ----------------------------------------------------------------------------------
# The page of a report: one file without scripts or links to elsewhere.
# ----------------------------------------------------------------------------------

_STYLE_SHEET = Path(__file__).with_name("report.css")


class Section(NamedTuple):
    """A part of the page: its name in links, its title, and its body as HTML."""

    name: str
    title: str
    body: str


def page(title: str, subtitle: str, sections: Sequence[Section], foot: str) -> str:
    """Return the whole page: HTML of the sections, between plain texts."""
    links = "".join(
        f'<a href="#{part.name}">{escape(part.title)}</a>' for part in sections
    )
    parts = "".join(
        f'<section id="{part.name}"><h2>{escape(part.title)}</h2>{part.body}</section>'
        for part in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>\n{_STYLE_SHEET.read_text('utf-8')}</style></head>\n<body><header><h1>{escape(title)}</h1>"
        f'<p class="soft">{escape(subtitle)}</p><nav>{links}</nav></header>\n'
        f'<main>{parts}</main>\n<footer class="soft">{escape(foot)}</footer>'
        "</body></html>\n"
    )


def escape(value: object) -> str:
    """Return the value as text with HTML's special characters escaped."""
    return html.escape(str(value))


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>"


def figures(*svgs: str, caption: str = "") -> str:
    """Return figures side by side, where there is room; all have the caption."""
    text = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    cells = "".join(f"<figure>{svg}{text}</figure>" for svg in svgs)
    return f'<div class="figures">{cells}</div>'


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; numbers are set to the right, and a long one can be scrolled."""
    right = [not isinstance(value, str) for value in rows[0]] if rows else []
    kinds = [' class="number"' if is_number else "" for is_number in right]
    heads = "".join(
        f"<th{kind}>{escape(h)}</th>" for kind, h in zip(kinds, headers, strict=False)
    )
    body = ""
    for row in rows:
        texts = [f"{v:.4g}" if isinstance(v, float) else escape(v) for v in row]
        cells = zip(kinds, texts, strict=True)
        body += f"<tr>{''.join(f'<td{k}>{text}</td>' for k, text in cells)}</tr>"
    head = f"<thead><tr>{heads}</tr></thead>" if any(headers) else ""
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def matrix(labels: Sequence[object], counts) -> str:
    """Return a table of counts, shaded by the share of their row."""
    heads = "".join(f'<th class="number">{escape(label)}</th>' for label in labels)
    rows = []
    for label, row in zip(labels, counts, strict=True):
        total = max(int(sum(row)), 1)
        cells = "".join(
            f'<td class="cell" style="--share:{60 * int(n) / total:.0f}">{int(n)}</td>'
            for n in row
        )
        rows.append(f"<tr><th>{escape(label)}</th>{cells}</tr>")
    return (
        '<div class="scroll"><table><thead><tr><th>true \\ predicted</th>'
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


# ----------------------------------------------------------------------------------
# Sections of the report: functions of a ``Subject`` that return a section or None.
# ----------------------------------------------------------------------------------

# Rows and columns of the tables, and classes of a matrix that can be read.
_HARDEST, _COLUMNS, _MOST_CLASSES = 10, 8, 40
# Fewest residuals from which the width of 90 % intervals can be estimated.
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
    if kernel is not None and not hasattr(kernel, "fit"):
        rows.append(["kernel", getattr(kernel, "name", repr(kernel))])
    for label, name in (("C", "C_"), ("gamma", "gamma_")):
        if getattr(last, name, None) is not None:
            rows.append([label, f"{getattr(last, name):.4g}"])
    if hasattr(last, "explain"):
        rows += [[name, part] for name, part in last.explain().parts.items()]
    return Section("model", "What the model is", table(("", ""), rows))


def error(subject: Any) -> Section:
    """Return a section with the error, its interval and the error of a constant."""
    score, y = subject.score, subject.y
    value, _, interval = str(score).partition(" (")
    body = paragraph(f"{score.name} {value}", "big")
    body += paragraph(interval.rstrip(")"), "soft")
    body += "".join(map(paragraph, subject.warned))
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
        logs = -np.log(np.maximum(_of_truth(subject), 1e-15))
        loss = np.average(logs, weights=subject.weight)
        body += paragraph(f"Log-loss {loss:.4g}.", "soft")
    heads = ("class", "rows", "recall", "precision")
    return Section("error", "Error", body + table(heads, rows))


def _mean(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the mean over rows, and over several outputs."""
    per_row = values.reshape(len(values), -1).mean(axis=1)
    return float(np.average(per_row, weights=weight))


def _of_truth(subject: Any) -> np.ndarray:
    """Return the predicted probability of each row's class, 0 of an unknown one."""
    classes = np.asarray(subject.classes)
    places = np.minimum(np.searchsorted(classes, subject.y), len(classes) - 1)
    own = subject.probabilities[np.arange(len(subject.y)), places]
    return np.where(classes[places] == subject.y, own, 0.0)


def committee(subject: Any) -> Section | None:
    """Return the members of a committee of tables, with their votes and losses."""
    scores = getattr(subject.last, "scores_", None)
    if scores is None or not hasattr(subject.last, "weights_"):
        return None
    rows = [
        [name, f"{100 * subject.last.weights_.get(name, 1.0):.0f} %", float(score)]
        for name, score in scores.items()
    ]
    text = (
        "Members vote; their shares have the least loss on held-out training rows "
        f"(scoring: {subject.last.scoring})."
    )
    body = paragraph(text) + table(("member", "votes", "loss alone"), rows)
    return Section("committee", "The committee", body)


def confusion(subject: Any) -> Section | None:
    """Return the confusion matrix, or for a regressor predictions over targets."""
    if subject.classes is None:
        if subject.y.ndim > 1:
            return None
        figure = scatter_figure(subject.y.astype(float), subject.predicted)
        caption = "Every point is a row; on the line it is predicted exactly."
        return Section("truth", "Predicted and true", figures(figure, caption=caption))
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
    figure, gap = reliability_figure(confidence, right)
    caption = "Larger points are of more rows."
    body = paragraph(f"Probabilities are off by {100 * gap:.2g} % on average.")
    return Section(
        "reliability", "Reliability", body + figures(figure, caption=caption)
    )


def search(subject: Any) -> Section | None:
    """Return figures of the losses over C, gamma and the steps of the metric."""
    results = getattr(subject.last, "search_results_", None)
    if results is None or not len(results["score"]):
        return None
    n = int(np.isfinite(results["score"]).sum())
    text = (
        f"{n:,} fits were judged by rows that they had not seen; the ring is the one "
        "that was chosen."
    )
    body = paragraph(text) + figures(*search_figures(results))
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
    figure = importance_figure([str(name) for name in names], shares)
    body = paragraph("How much each column counts in what the model has learned.")
    return Section("importances", "Columns that count", body + figures(figure))


def representatives(subject: Any) -> Section | None:
    """Return the representatives of the largest weight, as pictures or as a table."""
    shown = subject.representatives
    if shown is None:
        return None
    n = subject.last.representatives_.shape[0]
    body = paragraph(f"{n:,} representatives; the heaviest of them:")
    if subject.image_shape is not None:
        body += figures(pictures_figure(shown.rows, subject.image_shape))
    else:
        columns = shown.most_important(_COLUMNS)
        heads = ["represents", "predicted", *(shown.columns[c] for c in columns)]
        values = shown.rows[:12, columns]
        noise = 1e-6 * np.abs(shown.rows[:, columns]).max(axis=0)
        values = np.where(np.abs(values) < noise, 0.0, values)  # rounding errors
        sizes = ["itself" if round(w) == 1 else f"{w:,.0f} rows" for w in shown.weights]
        marked = zip(sizes, shown.labels, values.tolist(), strict=False)
        body += table(heads, [[size, label, *row] for size, label, row in marked])
    return Section("representatives", "Representatives", body)


def hardest(subject: Any) -> Section:
    """Return the rows with the largest errors, or the least probable true class."""
    if subject.probabilities is not None:
        loss = -_of_truth(subject)
    elif subject.classes is not None:
        loss = (subject.predicted != subject.y).astype(float)
    else:
        difference = np.abs(np.asarray(subject.predicted, float) - subject.y)
        loss = difference.reshape(len(subject.y), -1).max(axis=1)
    worst = np.argsort(-loss, kind="stable")[:_HARDEST]
    text = "The rows whose truth the model finds least likely, or is farthest from."
    body = paragraph(text)
    if subject.image_shape is not None:
        rows = np.array([list(subject.row(int(i)).values()) for i in worst], float)
        body += figures(pictures_figure(rows, subject.image_shape))
    n_columns = _COLUMNS if subject.image_shape is None else 0
    columns = list(subject.row(int(worst[0])))[:n_columns]
    heads, rows = ["row", "true", "predicted"], []
    if subject.probabilities is not None:
        heads.append("probability of the truth")
    for i in worst.tolist():
        row = subject.row(i)
        cells = [i + 1, _plain(subject.y[i]), _plain(subject.predicted[i])]
        if subject.probabilities is not None:
            cells.append(f"{-loss[i]:.3g}")
        rows.append(cells + [_plain(row[c]) for c in columns])
    heads += columns
    return Section("hardest", "Hardest rows", body + table(heads, rows))


def _plain(value: Any) -> Any:
    """Return a value as a Python float, int or str."""
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
    have the leave-one-out residuals of its training rows, but for those of tables.
    """
    regression = subject.classes is None
    wanted = "predict_interval" if regression else "predict_set"
    if not hasattr(subject.last, wanted) or len(subject.y) < 2 * _LEAST_CALIBRATION:
        return None
    y = subject.y.astype(float) if regression else subject.y
    if y.ndim > 1 or (not regression and not np.isin(y, subject.classes).all()):
        return None
    model, rows = subject.model, subject.X
    note = "Calibrated by held-out errors of the training rows."
    if hasattr(subject.last, "conformalize"):
        rows = model[:-1].transform(rows) if hasattr(model, "steps") else rows
        seen, others = (np.arange(k, len(y), 2) for k in (0, 1))
        model = copy.copy(subject.last).conformalize(picked(rows, seen), y[seen])
        rows, y = picked(rows, others), y[others]
        note = "Calibrated by every other row, shown for the rest."
    title = "Intervals" if regression else "Sizes of prediction sets"
    figure = (interval_figure if regression else set_size_figure)(model, rows, y)
    return Section("intervals", title, paragraph(note) + figures(figure))


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
    committee,
    confusion,
    reliability,
    search,
    importances,
    representatives,
    hardest,
    intervals,
    computed,
)

# ----------------------------------------------------------------------------------
# Report on a fitted model as one HTML page, and as a model card in Markdown.
# ----------------------------------------------------------------------------------


class Subject:
    """A fitted model, test rows with their targets, and the model's predictions."""

    def __init__(self, model, X, y, sample_weight, image_shape, about):
        self.model, self.X, self.image_shape, self.about = model, X, image_shape, about
        self.last = last_step(model)
        self.y = np.asarray(to_numpy(y))
        self.weight = None if sample_weight is None else np.asarray(sample_weight)
        self.classes = getattr(model, "classes_", None)
        self.predicted = to_numpy(model.predict(X))
        self.score = score_predictions(model, self.y, self.predicted, self.weight)
        self.warned: list[str] = []
        self.probabilities = self.representatives = None
        if hasattr(model, "predict_proba"):
            self.probabilities = to_numpy(model.predict_proba(X))
        if hasattr(self.last, "representatives_"):
            shown = RepresentativesDisplay.of(self.last, image_shape=image_shape)
            self.representatives = shown

    def row(self, i: int) -> dict[str, Any]:
        """Return one row as a dict from column names to values."""
        if hasattr(self.X, "iloc"):
            return dict(self.X.iloc[i])
        rows = self.X[[i]].toarray() if is_sparse(self.X) else to_numpy(self.X[[i]])
        names = getattr(self.model, "feature_names_in_", None)
        names = [f"x{c}" for c in range(rows.shape[1])] if names is None else names
        return dict(zip(names, rows[0], strict=True))


class Report:
    """Report on a model; ``write_html`` writes it as one page.

    Parameters
    ----------
    title : str
        Heading of the page.
    subtitle : str
        The line below it.
    sections : list of Section
        Parts of the page, as HTML.
    score : Score
        Error on the rows, with its interval.
    """

    def __init__(self, title, subtitle, sections, score):
        self.title, self.subtitle = title, subtitle
        self.sections: list[Section] = sections
        self.score = score

    def to_html(self) -> str:
        """Return the page: one file, without scripts, that needs no network."""
        date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        foot = f"kaucus {kaucus.__version__}, {date}"
        return page(self.title, self.subtitle, self.sections, foot)

    def write_html(self, path="report.html") -> Path:
        """Write the page.

        Parameters
        ----------
        path : str or path, default="report.html"
            A folder, a device, a FIFO or a read-only file is an error.

        Returns
        -------
        Path
        """
        path = Path(path)
        write_whole(path, self.to_html().encode())
        return path

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html())
        size = "width: 100%; height: 40em; border: 0"
        return (
            f'<iframe title="report" sandbox srcdoc="{page}" style="{size}"></iframe>'
        )

    def __repr__(self) -> str:
        names = ", ".join(section.name for section in self.sections)
        return f"Report({self.title!r}: {names})"


def report(
    model,
    X,
    y,
    *,
    sample_weight=None,
    title=None,
    image_shape=None,
    about: Mapping | None = None,
) -> Report:
    """Report on a fitted model, judged by rows that were not in the fit.

    Parameters
    ----------
    model : classifier, regressor or pipeline
        Fitted.
    X : array-like or DataFrame of shape (n_samples, n_features)
        Rows that were not in the fit.
    y : array-like of shape (n_samples,)
        Their targets.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, for the error.
    title : str, default=None
        Heading of the page; None: the name of the estimator.
    image_shape : tuple of int, default=None
        Shape of a picture, if rows are pictures: (28, 28), or (3, 32, 32).
    about : mapping, default=None
        Metadata to show, as :func:`kaucus.persistence.describe` returns it: ``rows``,
        ``target``, ``fit_seconds``, ``memory``.

    Returns
    -------
    Report
        ``report.write_html("report.html")`` writes one page that needs no network.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kaucus
    >>> X, y = load_iris(return_X_y=True)
    >>> model = kaucus.LSSVMClassifier().fit(X[::2], y[::2])
    >>> found = kaucus.report(model, X[1::2], y[1::2])
    >>> found.write_html("iris.html").name
    'iris.html'
    """
    require("matplotlib", "plot")
    check_is_fitted(model)
    if not hasattr(model, "predict"):
        raise ValueError(
            f"{type(model).__name__} does not predict; pass a classifier or regressor."
        )
    levels = getattr(last_step(model), "quantiles_", None)
    if levels is not None and len(levels) > 1:
        raise ValueError(
            f"A report is on one prediction for each row, and the model has "
            f"{len(levels)} quantiles; fit it with one, such as quantile=0.5."
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subject = Subject(model, X, y, sample_weight, image_shape, dict(about or {}))
    subject.warned = list(dict.fromkeys(str(one.message) for one in caught))
    for text in subject.warned:
        warn_user(text, UserWarning)
    with warnings.catch_warnings():  # figures predict some of the rows again
        warnings.filterwarnings("ignore", ".* beyond every training row")
        sections = [section for make in SECTIONS if (section := make(subject))]
    target = subject.about.get("target")
    name = type(subject.last).__name__
    title = title or (f"{name} of {target}" if target else name)
    subtitle = f"Measured on {len(subject.y):,} rows that were not in the fit."
    return Report(title, subtitle, sections, subject.score)


def model_card(model, report: Report) -> str:
    """Return a model card in Markdown, with the error of a report on unseen rows."""
    cards = require("skops.card", "tables")
    last = last_step(model)
    card = cards.Card(last, model_diagram=False)
    summary = last.explain() if hasattr(last, "explain") else type(last).__name__
    score = report.score
    card.add(
        **{
            "Model description": f"{report.title}. {summary}",
            "Evaluation Results": f"{score.name} {score}, on {score.n_rows:,} rows "
            "that were not in the fit.",
        }
    )
    return card.render()
