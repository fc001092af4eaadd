"""Points of the plane in the colours of their classes or clusters, as PNG files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaucus.experiments._data import load_split
from kaucus.experiments._figures import COLOURS, STYLE, new_figure
from kaucus.experiments._methods import build_method
from kaucus.experiments._optional import require
from kaucus.experiments._report import Row
from kaucus.experiments._spec import Cell, Figure

_PANEL = 2.4


def draw_points(
    figure: Figure,
    rows: Sequence[Row],
    path: str | Path,
    *,
    data_home: str | Path | None = None,
) -> Path | None:
    """Draw the data sets of a figure, one column of panels for each.

    Parameters
    ----------
    figure : Figure
        With ``by = "dataset"`` one row of panels: the classes. Otherwise two: the
        clusters of the cell whose parameter ``by`` is ``"linear"``, and those of
        the other cell of the largest value. Data sets of more than two features
        are passed over.
    rows : sequence of Row
        The table's rows; those that the figure selects and that have a value count.
    path : path
        The PNG file to write.
    data_home : path, default=None
        Folder with the data.

    Returns
    -------
    Path or None
        The file; None if there was nothing to draw.
    """
    chosen: dict[str, list[Row]] = {}
    for row in rows:
        wanted = all(row.cell.value_of(k) == v for k, v in figure.select.items())
        if wanted and row.mean is not None and _is_plane(row.cell, data_home):
            chosen.setdefault(row.cell.dataset, []).append(row)
    if not chosen:
        return None
    require("matplotlib", extra="plot")
    from matplotlib import rc_context

    n_down = 1 if figure.by == "dataset" else 2
    with rc_context(STYLE | {"font.size": 9, "axes.titlesize": 9}):
        canvas = new_figure(_PANEL * len(chosen), _PANEL * n_down + 0.4)
        panels = canvas.subplots(n_down, len(chosen), squeeze=False)
        for column, some in enumerate(chosen.values()):
            _draw_column(panels[:, column], figure, some, data_home)
        canvas.suptitle(figure.title, x=0.01, ha="left")
        canvas.savefig(path)
    return Path(path)


def _is_plane(cell: Cell, data_home) -> bool:
    return load_split(cell.dataset, data_home=data_home).X_train.shape[1] == 2


def _draw_column(panels, figure: Figure, rows: list[Row], data_home) -> None:
    """Draw the panels of one data set."""
    cell = rows[0].cell
    split = load_split(cell.dataset, data_home=data_home)
    X, y, name = split.X_train, split.y_train, cell.dataset.split("/")[-1]
    if figure.by == "dataset":
        _scatter(panels[0], X, y, name)
        return
    straight = [row for row in rows if row.cell.value_of(figure.by) == "linear"]
    others = [row for row in rows if row not in straight]
    best = max(others or straight, key=lambda row: row.mean or 0.0)
    for panel, row in zip(panels, [*straight[:1], best], strict=False):
        what = row.cell.value_of(figure.by)
        title = f"{name}, {what}: {row.mean:.3f}"
        _scatter(panel, X, _clusters(row.cell, X, y), title)


def _clusters(cell: Cell, X: np.ndarray, y: Any) -> np.ndarray:
    """Return the cell's clusters, by running it again."""
    method = build_method(cell.method, cell.params, seed=cell.seeds[0])
    return np.asarray(method.fit(X, y).predict(X))


def _scatter(panel, X: np.ndarray, labels: Any, title: str) -> None:
    for number, label in enumerate(np.unique(labels)):
        points = X[np.asarray(labels) == label]
        colour = COLOURS[number % len(COLOURS)]
        panel.scatter(points[:, 0], points[:, 1], s=5, color=colour, linewidths=0)
    panel.set_title(title, loc="left")
    panel.set_aspect("equal", adjustable="datalim")
    panel.set_xticks([])
    panel.set_yticks([])
