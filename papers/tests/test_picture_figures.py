"""Figures of a model of pictures, and the cells of ``python -m papers pictures``."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kaucus import PatchKernelClassifier
from papers import load_paper
from papers._picture_figures import (
    draw_patches,
    draw_picture_model,
    hardest,
)
from papers._registry import build_method
from papers._report import Row
from papers._spec import Figure
from papers.tests.standins import make_cell


@pytest.fixture(scope="module")
def fitted():
    X, y = load_digits(return_X_y=True)
    model = PatchKernelClassifier(16, 3, image_shape=(8, 8), random_state=0)
    return model.fit(X[:200], y[:200]), X[200:300], y[200:300]


def test_a_png_is_written(fitted, tmp_path):
    pytest.importorskip("matplotlib")
    path = draw_picture_model(*fitted, tmp_path / "f.png", title="Digits")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_pictures_in_colour_are_drawn(tmp_path, rng):
    pytest.importorskip("matplotlib")
    X = rng.integers(0, 256, size=(20, 3 * 64)).astype(np.uint8)
    model = PatchKernelClassifier(4, 3, image_shape=(3, 8, 8), random_state=0)
    model.fit(X, np.arange(20) % 2)
    path = draw_picture_model(model, X, np.arange(20) % 2, tmp_path / "f.png")
    assert path.exists()


def test_the_hardest_are_those_of_the_least_probable_class(fitted):
    model, X, y = fitted
    order = hardest(model, X, y)
    wrong = np.flatnonzero(model.predict(X) != y)
    assert set(order[: len(wrong)]) >= set(wrong[:1])
    p = model.predict_proba(X)[np.arange(len(y)), y]
    assert np.all(np.diff(p[order]) >= 0)


def test_the_selected_cell_is_fitted_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    params = {"n_filters": 8, "patch_sizes": 3, "image_shape": [8, 8]}
    cell = make_cell(method="patch-kernel", params=params, n_train=60)
    figure = Figure(name="f", title="T", x="C", x_label="", kind="patches")
    rows = [Row(cell, "x", (1.0,), 1, 1.0)]
    assert draw_patches(figure, rows, tmp_path / "f.png").exists()
    assert draw_patches(figure, [], tmp_path / "g.png") is None


def test_every_cell_can_be_built_and_has_a_bar_or_says_why_not():
    for cell in load_paper("pictures").cells:
        model = build_method(cell.method, cell.params, seed=0)
        assert isinstance(model, PatchKernelClassifier)
        assert cell.at_most is not None or "not in a paper" in cell.source
        assert cell.dtype == "uint8"
