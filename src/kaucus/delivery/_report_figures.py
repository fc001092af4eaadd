"""Figures of the report: matplotlib's SVG within the page, in the page's colours."""

import hashlib
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from kaucus.contract import require
from kaucus.evaluation import (
    COLOURS,
    IntervalDisplay,
    SearchDisplay,
    SetSizeDisplay,
    picture_sheet,
)

# A colour that nothing else has: it becomes the colour of the text, light or dark.
_INK = "#010203"
_REM_PER_INCH = 6.0
_STYLE = {
    "svg.fonttype": "none",  # texts stay texts: small, and can be found
    "svg.hashsalt": "kaucus",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlesize": 11,
    "axes.titlecolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "legend.labelcolor": _INK,
}


def draw(
    function: Callable[..., object], *, width: float = 6.0, height: float = 3.4
) -> str:
    """Return what a function draws on axes as SVG for the page.

    Parameters
    ----------
    function : callable
        Takes matplotlib's axes.
    width, height : float
        In inches.
    """
    matplotlib = require("matplotlib", "plot")
    from matplotlib.figure import Figure

    cycle = {"axes.prop_cycle": matplotlib.cycler(color=COLOURS)}
    with matplotlib.rc_context(_STYLE | cycle):  # nothing global is left
        figure = Figure(figsize=(width, height), layout="constrained")
        function(figure.add_subplot())
        return _svg(figure)


def _svg(figure: Any) -> str:
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


def search_figures(model: Any) -> list[str]:
    """Return the loss over C, over gamma, and over the steps of the metric."""
    results = model.search_results_
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
        ax.set_xlabel("share of the metric, %")

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

    rows, y = picked(X, some), y[some]

    def plot(ax: Any) -> None:
        IntervalDisplay.from_estimator(
            calibrated, rows, y, feature="prediction", method="split", ax=ax
        )

    return draw(plot)


def set_size_figure(calibrated: Any, X: Any) -> str:
    """Return a bar plot of the sizes of prediction sets."""

    def plot(ax: Any) -> None:
        SetSizeDisplay.from_estimator(calibrated, X, method="split", ax=ax)

    return draw(plot, height=2.2)
