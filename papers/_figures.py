"""Curves of a metric over a parameter or over the steps of a fit, as PNG files."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaucus.evaluation.displays import COLOURS, figure_file
from papers._registry import METRICS
from papers._report import Row
from papers._spec import Figure

# A published number, in every figure: open, so that ours is seen through it.
PUBLISHED = {"fmt": "D", "ms": 11, "mfc": "none", "mew": 1.8, "capsize": 4}
# For figures of many panels.
SMALL = {"font.size": 10, "axes.titlesize": 12, "axes.labelsize": 10}
# More curves than these have a legend of two columns.
_IN_ONE_COLUMN = 5


def selected(figure: Figure, rows: Sequence[Row]) -> list[Row]:
    """Return the rows with results that a figure selects."""
    wanted = {
        key: v if isinstance(v, list) else [v] for key, v in figure.select.items()
    }
    return [
        row
        for row in rows
        if row.mean is not None
        and all(row.cell.value_of(key) in values for key, values in wanted.items())
    ]


def draw_curve(
    figure: Figure, rows: Sequence[Row], path: Path, data_home: Any = None
) -> Path | None:
    """Draw the metric over a parameter, with spread and published points.

    Returns the file, or None if there was nothing to draw; so do all that draw.
    """
    curves = select_curves(figure, rows)
    if not curves:
        return None
    with figure_file(path) as canvas:
        axes = canvas.add_subplot()
        for colour, (name, points) in zip(itertools.cycle(COLOURS), curves.items()):
            xs, of_curve = zip(*points, strict=True)
            means = [row.mean for row in of_curve]
            spread = [row.spread or 0.0 for row in of_curve]
            style = {"color": colour, "marker": "o", "lw": 2, "capsize": 3}
            axes.errorbar(xs, means, yerr=spread, label=name, **style)
            _draw_published(axes, figure, xs, of_curve, color=colour)
        axes.set_title(figure.title, loc="left")
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(METRICS[of_curve[0].cell.metric].label)
        if figure.log_x:
            ticks = sorted({x for points in curves.values() for x, _ in points})
            axes.set_xscale("log")
            axes.minorticks_off()
            axes.set_xticks(ticks, _readable_labels(ticks))
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", alpha=0.25)
        many = len(axes.get_legend_handles_labels()[1]) > _IN_ONE_COLUMN
        # The axis begins at 0: there is room below curves of errors.
        place = {"loc": "lower left", "ncols": 2, "fontsize": 10} if many else {}
        _draw_legend(axes, figure, **place)
    return path


def select_curves(
    figure: Figure, rows: Sequence[Row]
) -> dict[str, list[tuple[float, Row]]]:
    """Sort the rows that a figure shows into curves of ``(x, row)``, by x."""
    curves: dict[str, list[tuple[float, Row]]] = {}
    for row in selected(figure, rows):
        x = row.cell.value_of(figure.x)
        if x is not None:
            name = str(row.cell.value_of(figure.by))
            curves.setdefault(figure.labels.get(name, name), []).append((x, row))
    return {name: sorted(p, key=lambda xr: xr[0]) for name, p in curves.items()}


def _draw_published(axes, figure: Figure, xs, rows: Sequence[Row], color: str) -> None:
    """Draw the published numbers of a curve as open diamonds of its colour."""
    pairs = zip(xs, (row.cell for row in rows), strict=True)
    printed = [(x, cell) for x, cell in pairs if cell.published is not None]
    if printed:
        axes.errorbar(
            [x for x, _ in printed],
            [cell.published for _, cell in printed],
            yerr=[cell.tolerance or 0 for _, cell in printed] if figure.bars else None,
            color=color,
            label="_published",
            zorder=5,
            **PUBLISHED,
        )


def _draw_legend(axes, figure: Figure, title: str = "", **place) -> None:
    """Draw the legend, with one entry for all published numbers."""
    handles, labels = axes.get_legend_handles_labels()
    if any(c.get_label() == "_published" for c in axes.containers):
        text = "published ± its spread" if figure.bars else "published"
        handles.append(axes.errorbar([], [], color="black", **PUBLISHED))
        labels.append(text)
    axes.legend(handles, labels, title=title or None, **place)


def _readable_labels(xs: Sequence[float]) -> list[str]:
    """Label the ticks of a logarithmic axis; of those too near each other, the last."""
    least_distance = (math.log(xs[-1] / xs[0]) or 1.0) / 11
    labels, last = [], math.inf
    for x in reversed(xs):
        is_far = last == math.inf or math.log(last / x) >= least_distance
        labels.append(f"{x:,}" if is_far else "")
        last = x if is_far else last
    return labels[::-1]


def draw_history(
    figure: Figure, rows: Sequence[Row], path: Path, data_home: Any = None
) -> Path | None:
    """Draw the error after each step, one line for each fit."""
    histories = select_histories(figure, rows)
    if not histories:
        return None
    with figure_file(path) as canvas:
        axes = canvas.add_subplot()
        for colour, (name, of_curve) in zip(
            itertools.cycle(COLOURS), histories.items()
        ):
            _draw_errors(axes, name, of_curve[0], colour)
            at_steps = [row.cell.at_step for row in of_curve]
            _draw_published(axes, figure, at_steps, of_curve, color=colour)
        axes.set_title(figure.title, loc="left")
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel("test error (%)")
        _scale_axes(axes, figure)
        axes.grid(alpha=0.25)
        shown = [row.records[0]["n_train"] for of in histories.values() for row in of]
        sizes = [f"{n:,}" for n in dict.fromkeys(shown)]
        many = {"fontsize": 10} if len(histories) >= _IN_ONE_COLUMN else {}
        _draw_legend(axes, figure, f"{' and '.join(sizes)} rows", **many)
    return path


def _draw_errors(axes, name: str, row: Row, colour: str) -> None:
    """Draw the error after each step: mean of the seeds, and a band over them."""
    n_steps = min(len(record["errors"]) for record in row.records)
    errors = [record["errors"][:n_steps] for record in row.records]
    steps = range(1, n_steps + 1)
    marker = "o" if n_steps <= 30 else None
    style = {"color": colour, "marker": marker, "lw": 1.2}
    axes.plot(steps, np.mean(errors, axis=0), label=name, **style)
    if len(errors) > 1:
        low, high = np.min(errors, axis=0), np.max(errors, axis=0)
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0)


def select_histories(figure: Figure, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the cells of each fit that the figure shows, by its name."""
    found: dict[str, list[Row]] = {}
    for row in selected(figure, rows):
        if "errors" in row.records[0]:
            value = row.cell.value_of(figure.by)
            name = value if isinstance(value, str) else f"{figure.by} = {value:,}"
            found.setdefault(figure.labels.get(name, name), []).append(row)
    return found


def _scale_axes(axes, figure: Figure) -> None:
    """Make axes logarithmic where asked, with enough ticks to read numbers off."""
    if figure.log_x:
        axes.set_xscale("log")
        _log_ticks(axes.xaxis, *axes.get_xlim())
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    if figure.log_y:
        axes.set_yscale("log")
        _log_ticks(axes.yaxis, *axes.get_ylim())


def _log_ticks(axis, low: float, high: float) -> None:
    """Set ticks of a logarithmic axis, fewer in a decade where decades are many."""
    from matplotlib.ticker import LogLocator, NullLocator

    decades = math.log10(high / low)
    subs = (1, 2, 5)
    if decades < 0.9:
        subs = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    if decades < 0.35:
        subs = (1, 1.1, 1.2, 1.3, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")
