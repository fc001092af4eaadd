"""Curves of a metric over a parameter, with the published points, as PNG files."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kaucus.experiments._metrics import METRICS
from kaucus.experiments._optional import require
from kaucus.experiments._report import Row
from kaucus.experiments._spec import Figure

# Dark enough on white, and apart for colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STYLE = {
    "font.size": 12,
    "axes.titlesize": 13,
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
}


def new_figure(width: float = 7.0, height: float = 4.5) -> Any:
    """Make an empty matplotlib figure that draws without a screen."""
    require("matplotlib", extra="plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_curve(figure: Figure, rows: Sequence[Row], path: str | Path) -> Path | None:
    """Draw one figure of a paper.

    Parameters
    ----------
    figure : Figure
        What is on the axes.
    rows : sequence of Row
        The table's rows; those that the figure selects and that have a value are
        drawn, with their spread, and published values as open markers.
    path : path
        The PNG file to write.

    Returns
    -------
    Path or None
        The file; None if there was nothing to draw.
    """
    curves = select_curves(figure, rows)
    if not curves:
        return None
    require("matplotlib", extra="plot")
    from matplotlib import rc_context

    with rc_context(STYLE):
        canvas = new_figure()
        axes = canvas.add_subplot()
        for colour, (name, points) in zip(_colours(), curves.items(), strict=False):
            _draw_points(axes, name, points, colour)
        _label_axes(axes, figure, curves)
        canvas.savefig(path)
    return Path(path)


def select_curves(
    figure: Figure, rows: Sequence[Row]
) -> dict[str, list[tuple[float, Row]]]:
    """Sort the rows that a figure shows into curves of ``(x, row)``, by x."""
    curves: dict[str, list[tuple[float, Row]]] = {}
    for row in rows:
        x = row.cell.value_of(figure.x)
        wanted = all(
            _matches(row.cell.value_of(key), value)
            for key, value in figure.select.items()
        )
        if wanted and x is not None and row.mean is not None:
            name = str(row.cell.value_of(figure.by))
            curves.setdefault(name, []).append((x, row))
    return {name: sorted(p, key=lambda xr: xr[0]) for name, p in curves.items()}


def _matches(value: Any, wanted: Any) -> bool:
    """Tell whether a value is the wanted one, or one of a list of wanted ones."""
    return value in wanted if isinstance(wanted, list) else value == wanted


def _colours():
    while True:
        yield from COLOURS


def _draw_points(axes, name: str, points, colour: str) -> None:
    """Draw one curve with its spread and the published points."""
    x = [x for x, _ in points]
    mean = [row.mean for _, row in points]
    spread = [row.spread or 0.0 for _, row in points]
    axes.errorbar(
        x, mean, yerr=spread, color=colour, marker="o", lw=2, capsize=3, label=name
    )
    printed = [(x, row.cell) for x, row in points if row.cell.published is not None]
    if printed:
        axes.errorbar(
            [x for x, _ in printed],
            [cell.published for _, cell in printed],
            yerr=[cell.tolerance for _, cell in printed],
            fmt="D",
            ms=8,
            mfc="white",
            color=colour,
            alpha=0.8,
            capsize=4,
            label=f"{name}, published ± tolerance",
        )


def _label_axes(axes, figure: Figure, curves) -> None:
    """Write title, labels with units, and ticks in plain numbers."""
    xs = sorted({x for points in curves.values() for x, _ in points})
    row = next(iter(curves.values()))[0][1]
    axes.set_title(figure.title, loc="left")
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(METRICS[row.cell.metric].label)
    if figure.log_x:
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(xs, _readable_labels(xs))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.25)
    axes.legend()


def _readable_labels(xs: Sequence[float]) -> list[str]:
    """Label the ticks of a logarithmic axis; of those too near each other, the last."""
    room = (math.log(xs[-1] / xs[0]) or 1.0) / 11
    labels, left = [], math.inf
    for x in reversed(xs):
        far = left == math.inf or math.log(left / x) >= room
        labels.append(f"{x:,}" if far else "")
        left = x if far else left
    return labels[::-1]
