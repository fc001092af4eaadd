"""Curves over the steps of a fit, misread pictures and confusion matrices, as PNG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaucus.experiments._data import load_split
from kaucus.experiments._figures import COLOURS, STYLE, new_figure
from kaucus.experiments._optional import require
from kaucus.experiments._report import Row
from kaucus.experiments._spec import Figure

# Pictures of a misread digit beside each other.
_ACROSS = 17
# Height and width of one of them with its text and margin, in pixels.
_CELL = (37, 31)


def draw_history(figure: Figure, rows: Sequence[Row], path: str | Path) -> Path | None:
    """Draw the error after each step, one line for each fit; None without any."""
    curves = select_histories(figure, rows)
    if not curves:
        return None
    require("matplotlib", extra="plot")
    from matplotlib import rc_context
    from matplotlib.ticker import LogLocator, NullLocator

    with rc_context(STYLE):
        canvas = new_figure()
        axes = canvas.add_subplot()
        for k, (name, record) in enumerate(curves.items()):
            steps = np.arange(1, len(record["errors"]) + 1)
            mark = "o" if len(steps) <= 30 else None
            colour = COLOURS[k % len(COLOURS)]
            axes.plot(steps, record["errors"], color=colour, marker=mark, label=name)
        _draw_published(axes, figure, rows)
        axes.set_title(figure.title, loc="left")
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel("test error (%)")
        if figure.log_x:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        if figure.log_y:
            axes.set_yscale("log")
            # 1, 2, 5, 10 ...: a curve within one decade needs them, and two decades
            # have no room for more.
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.25)
        axes.legend()
        canvas.savefig(path)
    return Path(path)


def select_histories(figure: Figure, rows: Sequence[Row]) -> dict[str, dict]:
    """Return the record of each fit that the figure shows, by its name."""
    found: dict[str, dict] = {}
    for row in selected(figure, rows):
        record = row.records[0]
        if "errors" in record:
            value = row.cell.value_of(figure.by)
            name = value if isinstance(value, str) else f"{figure.by} = {value:,}"
            found.setdefault(f"{name}, {record['n_train']:,} rows", record)
    return found


def selected(figure: Figure, rows: Sequence[Row]) -> list[Row]:
    """Return the rows with results that the figure selects."""
    return [
        row
        for row in rows
        if row.records
        and all(row.cell.value_of(k) == v for k, v in figure.select.items())
    ]


def _draw_published(axes, figure: Figure, rows: Sequence[Row]) -> None:
    """Draw published numbers as open markers at their steps."""
    printed = [r.cell for r in selected(figure, rows) if r.cell.published is not None]
    if not printed:
        return
    axes.errorbar(
        [cell.at_step for cell in printed],
        [cell.published for cell in printed],
        yerr=[cell.tolerance for cell in printed],
        fmt="D",
        ms=8,
        mfc="white",
        color="black",
        capsize=4,
        label="published ± tolerance",
    )


def draw_misread(
    figure: Figure, rows: Sequence[Row], path: str | Path, data_home: Any
) -> Path | None:
    """Draw the test pictures of the wrong class, true class → predicted one."""
    wanted = [r for r in selected(figure, rows) if "predictions" in r.records[0]]
    if not wanted:
        return None
    require("matplotlib", extra="plot")
    row = wanted[-1]
    cell, record = row.cell, row.records[0]
    split = load_split(cell.dataset, data_home=data_home, dtype="float32")
    predicted = np.asarray(record["predictions"])
    wrong = np.flatnonzero(predicted != split.y_test)
    canvas = new_figure(0.55 * _ACROSS, 0.72 * -(-len(wrong) // _ACROSS) + 0.7)
    axes = canvas.add_subplot()  # one for all: hundreds of them take minutes
    axes.imshow(picture_wall(split.X_test[wrong]), cmap="gray_r")
    for k, i in enumerate(wrong):
        x, y = k % _ACROSS * _CELL[1] + 14, k // _ACROSS * _CELL[0] + 6
        axes.text(x, y, f"{split.y_test[i]}→{predicted[i]}", ha="center", fontsize=7)
    axes.set_title(f"{figure.title}: {len(wrong)} of {len(predicted):,}", loc="left")
    axes.set_axis_off()
    canvas.savefig(path, dpi=120)
    return Path(path)


def picture_wall(pictures: np.ndarray) -> np.ndarray:
    """Put pictures of 28 × 28 side by side, each with room for a line above it."""
    height, width = _CELL
    wall = np.zeros((max(-(-len(pictures) // _ACROSS), 1) * height, _ACROSS * width))
    for k, picture in enumerate(pictures):
        top, left = k // _ACROSS * height + height - 28, k % _ACROSS * width
        wall[top : top + 28, left : left + 28] = picture.reshape(28, 28)
    return wall


def draw_confusion(
    figure: Figure, rows: Sequence[Row], path: str | Path
) -> Path | None:
    """Draw the confusion matrix of the last selected cell that has one."""
    wanted = [r for r in selected(figure, rows) if "confusion" in r.records[0]]
    if not wanted:
        return None
    require("matplotlib", extra="plot")
    confusion = wanted[-1].records[0]["confusion"]
    shares = np.asarray(confusion["percent"])
    names = confusion["classes"]
    canvas = new_figure(7.5, 6.5)
    axes = canvas.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    for i, j in np.ndindex(*shares.shape):
        colour = "white" if shares[i, j] > 50 else "black"
        axes.text(
            j, i, f"{shares[i, j]:.1f}", ha="center", va="center", color=colour, size=9
        )
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    axes.set_title(figure.title, loc="left")
    canvas.savefig(path, dpi=120)
    return Path(path)
