"""Figure of a model of pictures: filters, responses of a picture, hardest pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaucus import PatchKernelClassifier
from kaucus._array.segments import convolve
from kaucus.evaluation.displays import figure_file
from kaucus.kernels._patches import FilterWork, n_positions
from papers._data import load_split
from papers._figures import SMALL, selected
from papers._registry import build_method
from papers._report import Row
from papers._spec import Figure

# Panels of a row, rows of filters, and pictures of the fit that is drawn.
_ACROSS, _FILTER_ROWS = 12, 3
_N_TRAIN, _N_TEST = 1000, 500


def draw_patches(
    figure: Figure, rows: Sequence[Row], path: Path, data_home: Any = None
) -> Path | None:
    """Draw the model of the first selected cell, fitted again on some pictures."""
    found = selected(figure, rows)
    if not found:
        return None
    cell = found[0].cell
    split = load_split(cell.dataset, dtype="uint8", data_home=data_home)
    some = slice(0, min(cell.n_train or _N_TRAIN, _N_TRAIN))
    model = build_method(cell.method, cell.params, seed=cell.seeds[0])
    model.fit(split.X_train[some], split.y_train[some])
    X_test, y_test = split.X_test[:_N_TEST], split.y_test[:_N_TEST]
    return draw_picture_model(model, X_test, y_test, path, title=figure.title)


def draw_picture_model(
    model: PatchKernelClassifier,
    X: np.ndarray,
    y: np.ndarray,
    path: str | Path,
    *,
    title: str = "",
) -> Path:
    """Draw filters, responses of one picture, and the hardest of some pictures.

    Parameters
    ----------
    model : PatchKernelClassifier
        Fitted.
    X, y : arrays of shape (n, d) and (n,)
        Test pictures, and their classes.
    path : path
        The PNG file to write.
    title : str, default=""
        Text above.
    """
    filters = model.kernel_.parts[0][0].bank.filters[: _ACROSS * _FILTER_ROWS]
    n_down = _FILTER_ROWS + 2  # responses, and hardest pictures
    with figure_file(path, 0.9 * _ACROSS, 1.05 * n_down + 0.5, **SMALL) as canvas:
        panels = canvas.subplots(n_down, _ACROSS)
        for panel in panels.ravel():
            panel.set_axis_off()
        for panel, one in zip(panels[:_FILTER_ROWS].ravel(), filters, strict=False):
            _show(panel, one)
        panels[0, 0].set_title("filters", loc="left")
        _draw_responses(panels[_FILTER_ROWS], model, X[:1])
        _draw_hardest(panels[_FILTER_ROWS + 1], model, X, y)
        canvas.suptitle(title, x=0.01, ha="left")
    return Path(path)


def hardest(model: PatchKernelClassifier, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the numbers of the pictures, least probable true class first."""
    column = np.searchsorted(model.classes_, y)
    p = np.asarray(model.predict_proba(X))
    return np.argsort(p[np.arange(len(y)), column], kind="stable")


def _draw_responses(panels, model: PatchKernelClassifier, X: np.ndarray) -> None:
    """Draw a picture, and its responses to the first filters."""
    how, bank = model.kernel_.how, model.kernel_.parts[0][0].bank
    few = bank.part(slice(0, len(panels) - 1))
    work = FilterWork(how._replace(threshold=0.0), few, 1, X[:1])
    images = work.images(X[:1])
    scale = work.contrast(images)
    z = convolve(images, work.filters, scale=scale, bias=work.bias)[0]
    _show(panels[0], X[0].reshape(how.shape))
    panels[0].set_title("picture", loc="left")
    grid = n_positions(how.shape, bank.size)
    for k, panel in enumerate(panels[1 : 1 + z.shape[1]]):
        panel.imshow(z[:, k].reshape(grid), cmap="RdBu_r", vmin=-4, vmax=4)
    panels[1].set_title("responses", loc="left")


def _draw_hardest(panels, model: PatchKernelClassifier, X, y) -> None:
    """Draw the hardest pictures, true class → predicted one."""
    order = hardest(model, X, y)[: len(panels)]
    predicted = model.predict(X[order])
    for panel, i, said in zip(panels, order, predicted, strict=False):
        _show(panel, X[i].reshape(model.image_shape_))
        panel.set_title(f"{y[i]} → {said}", fontsize=8)


def _show(panel, image: np.ndarray) -> None:
    """Show an image of any number of channels, from its darkest to its brightest."""
    low, high = float(image.min()), float(image.max())
    shown = (image - low) / max(high - low, 1e-12)
    if shown.shape[0] == 3:
        panel.imshow(shown.transpose(1, 2, 0))
    else:
        panel.imshow(shown.mean(axis=0), cmap="gray")
