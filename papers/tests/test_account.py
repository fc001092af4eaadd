"""Each printed number has one mark, and the marks are counted."""

import numpy as np
import pytest

from papers import load_split
from papers._account import (
    FIT,
    NO_RUN,
    Entry,
    Reading,
    Table,
    count,
    strict_line,
    sum_up,
    table_markdown,
    totals_markdown,
)
from papers._accounts import nearest_end
from papers._ends import measure_ends, measure_shape
from papers.tests.standins import make_cell


def entry(ours, **changes):
    return Entry("d", "C2", 0.5, ours, 0.1, **changes)


OTHER = (Reading("no", [0.9]), Reading("none", []), Reading("with more", [0.45, 0.55]))
FOUR = [
    entry([0.4, 0.6]),
    entry([0.7], readings=OTHER),
    entry([0.7], readings=OTHER[:2]),
    entry([0.5], misprint="a slip"),
]


def test_each_number_has_one_mark():
    marks = ["within", "explained", "not explained", "misprint"]
    assert [one.mark for one in FOUR] == marks
    assert count(FOUR) == dict.fromkeys(marks, 1)
    assert FOUR[1].explanation.reason == "with more"


def test_what_no_run_shows_is_counted_apart():
    """Neither a fitted number nor other data may pass as the result of a run."""
    by_fit = entry([0.7], readings=(Reading("a fit", [0.5], FIT),))
    by_text = entry([0.7], readings=(Reading("other data", [], NO_RUN),))
    assert [by_fit.mark, by_text.mark] == ["explained", "explained"]
    line = strict_line([*FOUR, by_fit, by_text])
    assert "Of the 3 explained numbers rest 1 on a run, 0 on one number" in line
    assert "only a run without a fitted number counts, 3 are not explained." in line
    text = table_markdown(Table("T", [by_fit, by_text]))
    assert "- Explained by a number fitted to few: a fit: d C2." in text
    assert "- Explained by the printed text, without a run: other data: d C2." in text


def test_a_table_shows_marks_and_lists_reasons():
    text = table_markdown(Table("T", [FOUR[1]._replace(column=c) for c in "ab"]))
    assert text.count("0.700 (0.500)ᵉ") == 2
    assert "- Explained: with more: d a; d b." in text
    assert "**?**" in table_markdown(Table("T", [FOUR[2]]))
    assert "- Misprint: a slip: d C2." in table_markdown(Table("T", [FOUR[3]]))


def test_numbers_are_summed_up():
    printed, ours, marks = sum_up(FOUR)
    assert printed == "4 numbers"
    # Of the three that are no misprints.
    assert ours == "differs by 0.133 on average; seeds by ± 0.141"
    assert marks == "1 within, 1 explained, 1 not explained, 1 misprint"


def test_the_totals_are_sums():
    last = totals_markdown([("A", Table("T", FOUR)), ("B", Table("U", FOUR[:1]))])
    cells = [cell.strip() for cell in last.splitlines()[-1].split("|")[1:-1]]
    assert cells == ["**sum**", "**5**", "**2**", "**1**", "**1**", "**1**"]


def test_the_nearest_end_of_a_run_is_compared():
    cell = make_cell(published=0.5, tolerance=0.01)
    assert nearest_end([0.2, 0.49, 0.52], cell) == [0.49]
    assert nearest_end([], cell) == []


@pytest.mark.parametrize("kernel", ["k-means", "linear"])
def test_ends_are_those_of_all_runs(kernel):
    params = {"kernel": kernel, "n_runs": 6}
    done = measure_ends("clustering/smiley", params, seed=0)
    assert done.detail["n_runs"] == done.n_rows == 6
    assert round(done.value, 4) in done.detail["ends"]
    assert done.detail["ends"] == sorted(set(done.detail["ends"]))
    more = measure_ends("clustering/smiley", params | {"draws": 3}, seed=0)
    assert more.detail["n_runs"] == 18


def test_k_means_and_the_linear_kernel_have_the_same_least_objective():
    """Algorithm 1 is Algorithm 2 with a linear kernel, once both find the optimum."""
    found = [
        measure_ends("clustering/cassini", {"kernel": k, "n_runs": 20}, seed=0).value
        for k in ("k-means", "linear")
    ]
    assert np.ptp(found) < 0.05


def test_shapes_are_those_of_the_rows():
    split = load_split("clustering/cassini")
    found = {
        what: measure_shape("clustering/cassini", {"what": what}, seed=0).value
        for what in ("rows", "columns", "clusters")
    }
    assert (found["rows"], found["columns"]) == split.X_train.shape
    assert found["clusters"] == 3
