"""Misclassified images, confusion matrices and points of the plane, as PNG files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaucus.evaluation import clustering_accuracy
from kaucus.evaluation.displays import COLOURS, figure_file
from papers._confusion import class_names, mean_percent
from papers._data import load_split
from papers._figures import SMALL, selected
from papers._registry import build_method
from papers._report import Row
from papers._spec import Cell, Figure

# Misclassified images in a row.
_ACROSS = 17
# Height and width of one of them with its text and margin, in pixels.
_FRAME = (37, 31)
# Side of a panel of points, in inches, and data sets side by side.
_PANEL, _SETS_ACROSS = 2.4, 3
# What a data set is called in the paper.
_TITLES = {"rings-2-6": "circles (rings 2, 6)"}
_POINTS = {"font.size": 9, "axes.titlesize": 9}
_DPI = {"figure.dpi": 120}


def draw_misread(
    figure: Figure, rows: Sequence[Row], path: Path, data_home: Any = None
) -> Path | None:
    """Draw the test images of the wrong class, true class → predicted one."""
    row = _last_with("predictions", figure, rows)
    if row is None:
        return None
    split = load_split(row.cell.dataset, data_home=data_home, dtype="float32")
    predicted = np.array(list(row.records[0]["predictions"]), dtype=int)
    wrong = np.flatnonzero(predicted != split.y_test)
    n_down = -(-len(wrong) // _ACROSS)
    size = (0.55 * _ACROSS, 0.66 * n_down + 0.4)
    with figure_file(path, *size, **SMALL, **_DPI) as canvas:
        axes = canvas.add_subplot()  # one for all: hundreds of them take minutes
        axes.imshow(_side_by_side(split.X_test[wrong]), cmap="gray_r")
        for k, i in enumerate(wrong):
            x, y = k % _ACROSS * _FRAME[1] + 14, k // _ACROSS * _FRAME[0] + 6
            text = f"{split.y_test[i]}→{predicted[i]}"
            axes.text(x, y, text, ha="center", fontsize=7)
        title = f"{figure.title}: {len(wrong)} of {len(predicted):,}"
        axes.set_title(title, loc="left")
        axes.set_axis_off()
    return path


def _side_by_side(images: np.ndarray) -> np.ndarray:
    """Put images of 28 × 28 into one, each with space for a line of text above it."""
    height, width = _FRAME
    out = np.zeros((max(-(-len(images) // _ACROSS), 1) * height, _ACROSS * width))
    for k, image in enumerate(images):
        top, left = k // _ACROSS * height + height - 28, k % _ACROSS * width
        out[top : top + 28, left : left + 28] = image.reshape(28, 28)
    return out


def draw_first_pictures(
    figure: Figure, rows: Sequence[Row], path: Path, data_home: Any = None
) -> Path | None:
    """Draw the first 200 pictures, or the first ten of each class if in colours."""
    split = load_split(figure.select["dataset"], data_home=data_home, dtype="uint8")
    if split.X_train.shape[1] == 784:
        images, across = split.X_train[:200].reshape(-1, 28, 28), 20
    else:
        every = (
            np.flatnonzero(split.y_train == c)[:10] for c in np.unique(split.y_train)
        )
        first = split.X_train[np.concatenate(list(every))]
        images, across = first.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), 10
    lines = [
        np.hstack(list(images[k : k + across])) for k in range(0, len(images), across)
    ]
    sheet = np.vstack(lines)
    width = sheet.shape[1] / 70
    height = width * sheet.shape[0] / sheet.shape[1]
    with figure_file(path, width, height + 0.4, **SMALL, **_DPI) as canvas:
        axes = canvas.add_subplot()
        axes.imshow(sheet, cmap="gray_r")
        axes.set_title(figure.title, loc="left")
        axes.set_axis_off()
    return path


def draw_confusion(
    figure: Figure, rows: Sequence[Row], path: Path, data_home: Any = None
) -> Path | None:
    """Draw the confusion matrix, mean over seeds, of the last cell that has one."""
    row = _last_with("confusion", figure, rows)
    if row is None:
        return None
    names = class_names(row.cell.dataset, row.records[0]["confusion"]["classes"])
    with figure_file(path, 7.5, 6.5, **SMALL, **_DPI) as canvas:
        from sklearn.metrics import ConfusionMatrixDisplay

        axes = canvas.add_subplot()
        shares = mean_percent(row.records)
        ConfusionMatrixDisplay(shares, display_labels=names).plot(
            ax=axes,
            cmap="Blues",
            values_format=".1f",
            colorbar=False,
            text_kw={"size": 9},
            xticks_rotation=45 if max(map(len, names)) > 3 else 0,
        )
        axes.set(xlabel="predicted class", ylabel="true class")
        n = len(row.records)
        axes.set_title(figure.title + f", mean of {n} seeds" * (n > 1), loc="left")
    return path


def _last_with(key: str, figure: Figure, rows: Sequence[Row]) -> Row | None:
    """Return the last selected row whose first record has a key."""
    found = [row for row in selected(figure, rows) if key in row.records[0]]
    return found[-1] if found else None


def draw_points(
    figure: Figure, rows: Sequence[Row], path: Path, data_home: Any = None
) -> Path | None:
    """Draw the data sets of two features, one panel or two for each.

    With ``by = "dataset"`` one panel: the classes. Otherwise two, one above the other:
    the clusters of k-means, which is the linear kernel's run of the least objective,
    and those of the kernel whose best run agrees best with the classes.
    """
    chosen: dict[str, list[Row]] = {}
    for row in selected(figure, rows):
        if _has_two_features(row.cell, data_home):
            chosen.setdefault(row.cell.dataset, []).append(row)
    if not chosen:
        return None
    n_panels = 1 if figure.by == "dataset" else 2
    across = min(_SETS_ACROSS, len(chosen))
    down = n_panels * -(-len(chosen) // across)
    with figure_file(path, _PANEL * across, _PANEL * down + 0.4, **_POINTS) as canvas:
        panels = canvas.subplots(down, across, squeeze=False)
        for k, of_set in enumerate(chosen.values()):
            top = k // across * n_panels
            own = panels[top : top + n_panels, k % across]
            _draw_column(own, figure, of_set, data_home)
        for panel in panels.flat:
            panel.set_visible(panel.has_data())
        canvas.suptitle(figure.title, x=0.01, ha="left")
    return path


def _has_two_features(cell: Cell, data_home) -> bool:
    return load_split(cell.dataset, data_home=data_home).X_train.shape[1] == 2


def _draw_column(panels, figure: Figure, rows: list[Row], data_home) -> None:
    """Draw the panels of one data set."""
    cell = rows[0].cell
    split = load_split(cell.dataset, data_home=data_home)
    X, y, name = split.X_train, split.y_train, cell.dataset.split("/")[-1]
    name = _TITLES.get(name, name)
    if figure.by == "dataset":
        _scatter(panels[0], X, np.unique(y, return_inverse=True)[1], name)
        return
    for panel, (kind, row) in zip(panels, _pair_of_runs(rows).items(), strict=False):
        method = build_method(row.cell.method, row.cell.params, seed=row.cell.seeds[0])
        labels = method.fit(X, y).predict(X)
        title = f"{name}, {kind}: {clustering_accuracy(y, labels):.3f}"
        _scatter(panel, X, match_labels(y, labels), title)


def _pair_of_runs(rows: list[Row]) -> dict[str, Row]:
    """Return the cells of k-means and of the best kernel, by their names."""
    found = {}
    for row in rows:
        if _choice(row) == ("linear", "objective"):
            found["k-means"] = row
    runs = [row for row in rows if row.cell.value_of("choose") == "accuracy"]
    best = max(runs, key=lambda row: row.values[0])
    return found | {str(best.cell.value_of("kernel")): best}


def _choice(row: Row) -> tuple[Any, Any]:
    return row.cell.value_of("kernel"), row.cell.value_of("choose")


def match_labels(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return for each row the number of the class that its cluster agrees best with.

    Clusters beyond the number of classes have further numbers.
    """
    from scipy.optimize import linear_sum_assignment

    classes, own = np.unique(y), np.unique(labels)
    shared = [[np.sum((labels == a) & (y == c)) for c in classes] for a in own]
    matched = dict(zip(own, range(len(classes), len(classes) + len(own)), strict=True))
    pairs = zip(*linear_sum_assignment(shared, maximize=True), strict=True)
    matched |= {own[i]: int(j) for i, j in pairs}
    return np.array([matched[label] for label in labels])


def _scatter(panel, X: np.ndarray, numbers: np.ndarray, title: str) -> None:
    """Draw points in the colour of their number."""
    for number in np.unique(numbers):
        points = X[numbers == number]
        colour = COLOURS[number % len(COLOURS)]
        panel.scatter(points[:, 0], points[:, 1], s=5, color=colour, linewidths=0)
    panel.set_title(title, loc="left")
    panel.set_aspect("equal", adjustable="datalim")
    panel.locator_params(nbins=4)
