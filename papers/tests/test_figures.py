"""Figures: which cells become which curve, and a PNG that is one."""

import pytest

from papers import MissingPackageError
from papers._figures import (
    _draw_legend,
    _draw_published,
    _log_ticks,
    _readable_labels,
    draw_curve,
    select_curves,
    selected,
)
from papers._report import Row
from papers._reproduce import FIGURES
from papers._spec import _CHOICES, Figure
from papers.tests.standins import make_cell

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


def test_published_numbers_are_open_diamonds_with_one_entry_in_the_legend():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure as Canvas

    axes = Canvas().add_subplot()
    figure = Figure(name="f", title="T", x="C", x_label="C", bars=True)
    for colour in ("red", "blue"):
        axes.plot([1], [2], label=colour)
        _draw_published(axes, figure, [10.0], ROWS[:1], color=colour)
    _draw_legend(axes, figure)
    markers = [c.lines[0] for c in axes.containers]
    assert {m.get_markerfacecolor() for m in markers} == {"none"}
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["red", "blue", "published ± its spread"]


@pytest.mark.parametrize(("low", "high"), [(1.0, 4.2), (0.9, 2.6), (33, 55), (1, 80)])
def test_a_logarithmic_axis_has_ticks_enough(low, high):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure as Canvas

    axes = Canvas().add_subplot()
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    _log_ticks(axes.yaxis, low, high)
    assert 4 <= sum(low <= tick <= high for tick in axes.get_yticks()) <= 10


def test_curves_may_have_names_of_their_own():
    figure = Figure(name="f", title="T", x="C", x_label="C", labels={"other": "ours"})
    assert set(select_curves(figure, ROWS)) == {"stand-in", "ours"}


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
