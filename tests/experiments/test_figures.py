"""Figures: which cells become which curve, and a PNG that is one."""

import pytest

from kaucus.experiments import MissingPackageError
from kaucus.experiments._figures import (
    _readable_labels,
    draw_curve,
    select_curves,
    selected,
)
from kaucus.experiments._report import Row
from kaucus.experiments._reproduce import FIGURES
from kaucus.experiments._spec import _CHOICES, Figure
from tests.experiments.standins import make_cell

FIGURE = Figure(
    name="f", title="T", x="C", x_label="C (none)", select={"dataset": "digits"}
)


def row(*values, **changes):
    return Row(make_cell(**changes), "x", values, len(values), 1.0)


ROWS = [
    row(2.0, 2.2, params={"C": 10.0}, published=2.0, tolerance=0.1),
    row(3.0, params={"C": 1.0}),
    row(9.0, params={"C": 1.0}, method="other"),
    row(params={"C": 5.0}),
    row(4.0, params={"C": 1.0}, dataset="mnist"),
    row(4.0),
]


def test_curves_are_sorted_and_hold_only_what_is_selected_and_done():
    curves = select_curves(FIGURE, ROWS)
    assert {name: [x for x, _ in points] for name, points in curves.items()} == {
        "stand-in": [1.0, 10.0],
        "other": [1.0],
    }


@pytest.mark.parametrize("log_x", [False, True])
def test_a_png_is_written(tmp_path, log_x):
    pytest.importorskip("matplotlib")
    figure = Figure(name="f", title="T", x="C", x_label="C", log_x=log_x)
    path = draw_curve(figure, ROWS, tmp_path / "f.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw_writes_nothing(tmp_path):
    assert draw_curve(FIGURE, ROWS[-1:], tmp_path / "f.png") is None
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'kaucus\[plot\]'"):
        draw_curve(FIGURE, ROWS, tmp_path / "f.png")


def test_ticks_too_near_each_other_are_not_labelled():
    labels = _readable_labels([100, 1000, 2300, 2500])
    assert labels == ["100", "1,000", "", "2,500"]
    assert _readable_labels([7]) == ["7"]


def test_a_list_selects_each_of_its_values():
    figure = Figure(name="f", title="T", x="C", x_label="C", select={"C": [10.0, 5.0]})
    assert selected(figure, ROWS) == [ROWS[0]]  # C = 5 has no value


def test_every_kind_of_figure_in_a_file_can_be_drawn():
    assert set(FIGURES) == set(_CHOICES["kind"])
