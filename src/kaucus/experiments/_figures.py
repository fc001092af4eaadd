"""Curves of a metric over a parameter or over the steps of a fit, as PNG files."""

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kaucus.contract import require
from kaucus.experiments._registry import METRICS
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
# For figures of many panels.
SMALL = {"font.size": 10, "axes.titlesize": 12, "axes.labelsize": 10}


def require_matplotlib() -> None:
    """Raise a :class:`MissingPackageError` with the remedy if it is not installed."""
    require("matplotlib", "plot")


@contextmanager
def figure_file(
    path: str | Path, width: float = 7.0, height: float = 4.5, **style: Any
) -> Iterator[Any]:
    """Yield an empty matplotlib figure, which is written to a PNG file at the end.

    Parameters
    ----------
    path : path
        The PNG file to write.
    width, height : float
        In inches.
    **style
        Settings of matplotlib that differ from ``STYLE``.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with rc_context({**STYLE, **style}):
        figure = Canvas(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)  # draws without a screen
        yield figure
        figure.savefig(path)


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
            label = f"{name}, published ± tolerance"
            _draw_published(axes, xs, of_curve, label, color=colour, alpha=0.8)
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
        axes.legend()
    return path


def select_curves(
    figure: Figure, rows: Sequence[Row]
) -> dict[str, list[tuple[float, Row]]]:
    """Sort the rows that a figure shows into curves of ``(x, row)``, by x."""
    curves: dict[str, list[tuple[float, Row]]] = {}
    for row in selected(figure, rows):
        x = row.cell.value_of(figure.x)
        if x is not None:
            curves.setdefault(str(row.cell.value_of(figure.by)), []).append((x, row))
    return {name: sorted(p, key=lambda xr: xr[0]) for name, p in curves.items()}


def _draw_published(axes, xs, rows: Sequence[Row], label: str, **style: Any) -> None:
    """Draw the published numbers among the rows as open markers."""
    pairs = zip(xs, (row.cell for row in rows), strict=True)
    printed = [(x, cell) for x, cell in pairs if cell.published is not None]
    if printed:
        axes.errorbar(
            [x for x, _ in printed],
            [cell.published for _, cell in printed],
            yerr=[cell.tolerance for _, cell in printed],
            fmt="D",
            ms=8,
            mfc="white",
            capsize=4,
            label=label,
            **style,
        )


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
        for colour, (name, errors) in zip(itertools.cycle(COLOURS), histories.items()):
            steps = range(1, len(errors) + 1)
            marker = "o" if len(steps) <= 30 else None
            axes.plot(steps, errors, color=colour, marker=marker, label=name)
        shown = selected(figure, rows)
        at_steps = [row.cell.at_step for row in shown]
        _draw_published(axes, at_steps, shown, "published ± tolerance", color="black")
        axes.set_title(figure.title, loc="left")
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel("test error (%)")
        _scale_axes(axes, figure)
        axes.grid(alpha=0.25)
        axes.legend()
    return path


def select_histories(figure: Figure, rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return the errors of each fit that the figure shows, by its name."""
    found: dict[str, list[float]] = {}
    for row in selected(figure, rows):
        record = row.records[0]
        if "errors" in record:
            value = row.cell.value_of(figure.by)
            name = value if isinstance(value, str) else f"{figure.by} = {value:,}"
            found.setdefault(f"{name}, {record['n_train']:,} rows", record["errors"])
    return found


def _scale_axes(axes, figure: Figure) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    if figure.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    if figure.log_y:
        axes.set_yscale("log")
        # 1, 2, 5, 10 ...: a curve within one decade needs them, and two decades have
        # no room for more.
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")
