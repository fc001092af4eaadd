"""Parts, ranks and tables of the comparison of defaults."""

import json

import numpy as np
import pytest

from benchmarks import _sets as bench
from benchmarks import tables
from benchmarks._runner import Settings, run_benchmark
from papers._store import rounded


def record(name, contender, accuracy, seconds, scaled=True):
    return {
        "set": name,
        "contender": contender,
        "scaled": scaled,
        "rows": 100,
        "classes": 2,
        "accuracies": [accuracy],
        "seconds": seconds,
    }


RECORDS = [
    record("heart_statlog", "kaucus", 0.9, 0.1),
    record("heart_statlog", "SVC", 0.8, 1.0),
    record("splice_scale", "kaucus", 0.7, 0.1),
    record("splice_scale", "SVC", 0.8, 4.0),
    record("fourclass_scale", "kaucus", 1.0, 0.1),
    record("fourclass_scale", "SVC", 1.0, 2.0),
    record("climate_crashes", "kaucus", 1.0, 0.1),
]


def test_ranks_and_ratios():
    rows = {row[0]: row for row in bench.summary_rows(RECORDS)}
    assert rows["judging (2)"][2:4] == ["1.75", "1.25"]
    assert rows["all (3)"][2:4] == ["1.50", "1.50"]
    assert rows["all (3)"][4] == "86.67 against 86.67"
    assert rows["all (3)"][5] == "20.0 (10.0 at least)"


def test_a_set_that_one_has_not_done_is_not_shown():
    sets = [row[0] for row in bench.set_rows(RECORDS, scaled=True)]
    assert sets == ["fourclass_scale", "heart_statlog ¹", "splice_scale"]
    assert bench.set_rows(RECORDS, scaled=False) == []


def test_every_set_that_picked_the_defaults_is_measured():
    assert set(bench.PICKED_ON) <= {*bench.SMALL, *bench.LARGE}
    assert len(bench.GRID["C"]) * len(bench.GRID["gamma"]) == 25


def test_every_set_is_a_step_of_its_part_with_both_contenders():
    steps = tables.steps(Settings(parts=["sets"]))
    heads = [tuple(step.head.values()) for step in steps]
    assert len(set(heads)) == len(heads) == 2 * (13 + 10)
    # Steps of several jobs: processes of their own.
    assert all(step.isolated for step in steps)
    assert {step.section for step in steps} == {"sets"}


def test_a_part_that_is_not_known_is_an_error():
    with pytest.raises(FileNotFoundError, match="'sets'"):
        tables.steps(Settings(parts=["set"]))


@pytest.fixture
def small_tables(tmp_path):
    """Return a folder with two tables of a part, one of them among the large ones."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "tables" / "develop"
    folder.mkdir(parents=True)
    for name in ("magic", "segmentation"):
        X = rng.normal(size=(120, 2))
        rows = np.column_stack([X, X[:, 0] > 0])
        path = folder / f"{name}.csv.gz"
        np.savetxt(path, rows, delimiter=",", header="a,b,target", comments="")
    return tmp_path


def test_every_row_is_for_large_tables_and_contenders_of_frames(small_tables):
    settings = Settings(
        parts=["develop"], data_home=small_tables, rows=["50", "all"], splits=2
    )
    heads = [step.head for step in tables.steps(settings)]
    of_all = [head for head in heads if head["size"] == "all"]
    assert {head["table"] for head in of_all} == {"magic"}
    assert {head["contender"] for head in of_all} == (
        set(tables.DEFAULTS) & tables.TAKE_FRAMES
    )
    assert len(heads) - len(of_all) == 2 * 2 * len(tables.DEFAULTS)
    assert [head["split"] for head in heads] == sorted(h["split"] for h in heads)
    for wrong in ({"tables": ["magi"]}, {"contenders": ["SVM"]}, {"rows": ["none"]}):
        with pytest.raises(FileNotFoundError, match="there are"):
            tables.steps(settings._replace(**wrong))


def test_a_run_that_is_resumed_does_what_is_left(small_tables, tmp_path):
    settings = Settings(
        parts=["develop"], data_home=small_tables, rows=["50"], splits=1, jobs=2
    )
    settings = settings._replace(contenders=["HistGradientBoosting"])
    first, _ = run_benchmark(tables, tmp_path, settings._replace(tables=["magic"]))
    assert len(first["records"]) == 1
    marked = {**first["records"][0], "loss": 12.5}
    (tmp_path / "bench.json").write_text(
        json.dumps({**first, "records": [marked, {**marked, "skipped": "crashed"}]})
    )
    both, _ = run_benchmark(tables, tmp_path, settings._replace(resume=True))
    found = {record["table"]: record["loss"] for record in both["records"]}
    assert len(both["records"]) == 2
    assert found["magic"] == 12.5
    assert found["segmentation"] < 20


def test_classes_without_rows_to_learn_have_no_probability():
    data = tables.Split(None, np.array([0, 2, 2]), None, np.array([1, 3]))
    P = np.array([[0.25, 0.75], [1.0, 0.0]])
    found = tables._of_all_classes(P, np.array([0, 2]), data)
    np.testing.assert_allclose(found, [[0.25, 0, 0.75, 0], [1, 0, 0, 0]])
    said = tables._of_all_classes(np.array([1.0, 0.0]), np.array([0, 2]), data)
    np.testing.assert_allclose(said, [2, 0])


def test_parts_that_were_not_run_have_no_table_and_no_text(tmp_path):
    content = {"sets": [*RECORDS, {"skipped": "crashed"}]}
    titles = [table.title for table in tables.tables(content)]
    assert titles == ["Sets, ranks", "Sets, scaled columns", "Sets, without scaling"]
    assert tables.about(content) == bench.ABOUT
    assert tables.draw(content, tmp_path) == []
    assert tables.tables({"records": []}) == []


LOSSES = {
    ("a", "kaucus Table"): 1.0,
    ("a", "CatBoost"): 2.0,
    ("a", "LightGBM"): 4.0,
    ("b", "kaucus Table"): 3.0,
    ("b", "CatBoost"): 3.0,
    ("b", "LightGBM"): 6.0,
    ("b", "tuned CatBoost"): 2.0,
}


def test_ranks_ratios_and_ratings_of_losses():
    ranks = {"kaucus Table": 1.25, "CatBoost": 1.75, "LightGBM": 3.0}
    assert tables.mean_ranks(LOSSES) == pytest.approx(ranks)
    ratios = tables.relative_losses(LOSSES)
    assert ratios["kaucus Table"] == pytest.approx(np.sqrt(0.5))
    assert ratios["LightGBM"] == pytest.approx(2.0)
    ratings = tables.elo(LOSSES)
    assert ratings["kaucus Table"] > ratings["CatBoost"] > ratings["LightGBM"]
    assert np.mean(list(ratings.values())) == pytest.approx(1000)


def test_losses_are_what_others_publish():
    y = np.array([0, 0, 1, 1])
    P = np.array([[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8]])
    assert tables.loss(P, y, y, False) == pytest.approx(25.0)
    three = np.array([0, 1, 2, 2])
    even = np.full((4, 3), 1 / 3)
    assert tables.loss(even, three, three, False) == pytest.approx(np.log(3))
    assert tables.loss(y * 1.0, y, y, True) == 0.0
    assert tables.loss(y, y, y, False) is None
    assert tables.calibration(np.array([[1.0, 0.0], [0.4, 0.6]]), y[1:3]) == (
        pytest.approx(20.0)
    )


@pytest.mark.parametrize("name", ["HistGradientBoosting", "LightGBM", "CatBoost"])
def test_boosting_takes_texts_gaps_and_levels_that_it_has_not_seen(name):
    pandas = pytest.importorskip("pandas")
    if name != "HistGradientBoosting":
        pytest.importorskip(name.lower())
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {
            "size": np.where(rng.random(300) < 0.1, np.nan, rng.normal(size=300)),
            "kind": rng.choice(["a", "b", None], 300),
            "name": [f"name {i}" for i in range(300)],
        }
    )
    y = (X["kind"] == "a").to_numpy().astype(int)
    model = tables.CONTENDERS[name](False, 0).fit(X[:200], y[:200])
    assert (np.ravel(model.predict(X[200:])) == y[200:]).mean() > 0.9


@pytest.mark.slow
@pytest.mark.data
def test_a_quick_run(tmp_path, data_home, monkeypatch):
    monkeypatch.setattr(bench, "QUICK", ("heart_statlog",))
    settings = Settings(quick=True, parts=["sets"], data_home=data_home, jobs=2)
    content, _ = run_benchmark(tables, tmp_path, settings)
    done = {(r["contender"], r["scaled"]) for r in content["sets"]}
    assert done == {(c, scaled) for c in bench.CONTENDERS for scaled in (True, False)}
    assert all(np.mean(r["accuracies"]) > 0.6 for r in content["sets"])
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["sets"] == rounded(content["sets"])
    assert "heart_statlog" in (tmp_path / "bench.md").read_text()
