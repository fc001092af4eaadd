"""The runner: keys, records, and cells that cannot run."""

import dataclasses
import io

import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

import papers._runner as runner
from papers import Settings, run_paper
from papers._report import report_lines
from papers._runner import job_key
from papers._store import ResultStore
from papers.tests.standins import make_cell, make_paper

METHODS = {"stand-in": GaussianNB, "svc": SVC}
NOT_DETERMINING = {
    "source": "Table 9",
    "published": 1.0,
    "tolerance": 0.5,
    "seeds": (0, 1, 2),
    "full_seeds": (0, 1),
    "full": True,
    "note": "a note",
    "at_most": 3.0,
}
DETERMINING = {
    "dataset": "mnist",
    "method": "svc",
    "metric": "accuracy_percent",
    "params": {"var_smoothing": 1e-3},
    "n_train": 100,
    "sample": "random",
    "normalize": "unit",
    "dtype": "float32",
    "at_step": 3,
    "keep_predictions": True,
}


def run(paper, tmp_path, **settings):
    stream = io.StringIO()
    outcome = run_paper(
        paper, tmp_path, Settings(**settings), methods=METHODS, stream=stream
    )
    return outcome, stream.getvalue().splitlines()


def test_every_field_either_determines_the_key_or_does_not():
    fields = {field.name for field in dataclasses.fields(make_cell())}
    assert fields == set(DETERMINING) | set(NOT_DETERMINING)


@pytest.mark.parametrize("field", DETERMINING)
def test_the_key_changes_with_what_determines_a_result(field):
    changed = make_cell(**{field: DETERMINING[field]})
    assert job_key(changed, 0, Settings()) != job_key(make_cell(), 0, Settings())


@pytest.mark.parametrize("field", NOT_DETERMINING)
def test_the_key_stays_when_only_the_comparison_changes(field):
    changed = make_cell(**{field: NOT_DETERMINING[field]})
    assert job_key(changed, 0, Settings()) == job_key(make_cell(), 0, Settings())


def test_the_key_changes_with_seed_settings_and_version(monkeypatch):
    cell = make_cell()
    keys = [
        job_key(cell, 0, Settings()),
        job_key(cell, 1, Settings()),
        job_key(cell, 0, Settings(device="cuda")),
        job_key(cell, 0, Settings(memory_budget="1GiB")),
    ]
    monkeypatch.setattr(runner, "__version__", "0.0.0")
    keys.append(job_key(cell, 0, Settings()))
    assert len(set(keys)) == len(keys)


def test_the_key_does_not_depend_on_the_order_of_parameters():
    first = make_cell(params={"a": 1, "b": 2})
    second = make_cell(params={"b": 2, "a": 1})
    assert job_key(first, 0, Settings()) == job_key(second, 0, Settings())


def test_a_record_says_what_ran_where_and_what_came_of_it(tmp_path):
    outcome, lines = run(make_paper(make_cell(n_train=500)), tmp_path)
    [record] = ResultStore(tmp_path / "results.json.gz").results.values()
    assert record == next(iter(outcome.results.values()))
    assert 0 < record["value"] < 50
    assert (record["n_train"], record["n_test"], record["seed"]) == (500, 899, 0)
    assert record["start"] <= record["end"]
    assert record["machine"]["versions"]["kaucus"] == record["kaucus"]
    assert {"fit_seconds", "predict_seconds", "peak_memory"} <= set(record)
    assert len(lines) == 1
    assert lines[0].startswith("[1/1] digits, 500 rows, stand-in, seed 0: test error")


def test_seeds_of_the_settings_replace_those_of_the_cell(tmp_path):
    outcome, _ = run(make_paper(make_cell(seeds=(7,))), tmp_path, seeds=(0, 1))
    assert [job.seed for job in outcome.jobs] == [0, 1]


def test_only_a_full_run_includes_the_long_cells(tmp_path):
    paper = make_paper(make_cell(), make_cell(full=True, n_train=100))
    short, _ = run(paper, tmp_path)
    full, _ = run(paper, tmp_path, full=True)
    assert (len(short.jobs), short.n_left_out) == (1, 1)
    assert (len(full.jobs), full.n_left_out) == (2, 0)
    assert "--full" in report_lines(short)[-1]


def test_a_cell_without_its_data_is_visibly_skipped(tmp_path, monkeypatch):
    def no_data(*args, **kwargs):
        raise FileNotFoundError("mnist is not in the\n data folder")

    monkeypatch.setitem(runner.load_split.__globals__["_LOADERS"], "mnist", no_data)
    paper = make_paper(make_cell(dataset="mnist"), make_cell())
    outcome, lines = run(paper, tmp_path)
    # Before it, where there is no data folder: the command that fetches the set.
    assert any(
        line.endswith("SKIPPED: mnist is not in the data folder") for line in lines
    )
    assert len(outcome.results) == 1
    assert report_lines(outcome) == [
        "skipped mnist, stand-in, seed 0: mnist is not in the data folder"
    ]


def test_a_skipped_cell_runs_when_its_data_are_there(tmp_path, monkeypatch):
    loaders = runner.load_split.__globals__["_LOADERS"]
    paper = make_paper(make_cell(dataset="later"))
    with monkeypatch.context() as patch:
        patch.setitem(loaders, "later", lambda *args: (tmp_path / "no").read_text())
        outcome, _ = run(paper, tmp_path)
        assert outcome.problems("skipped")
    monkeypatch.setitem(loaders, "later", loaders["digits"])
    outcome, _ = run(paper, tmp_path)
    assert not outcome.problems("skipped")
    assert len(outcome.results) == 1
    assert ResultStore(tmp_path / "results.json.gz").problems == {}


def test_a_cell_that_raises_is_recorded_and_the_others_run(tmp_path):
    paper = make_paper(make_cell(params={"var_smoothing": -1.0}), make_cell())
    outcome, lines = run(paper, tmp_path)
    [failed] = outcome.problems("failed")
    assert "var_smoothing" in failed["reason"]
    assert "Traceback" in failed["traceback"]
    assert "FAILED" in lines[0]
    assert len(outcome.results) == 1


def test_a_device_that_a_method_does_not_know_is_an_error_not_ignored(tmp_path):
    outcome, _ = run(make_paper(make_cell()), tmp_path, device="cuda")
    [failed] = outcome.problems("failed")
    assert "device='cuda'" in failed["reason"]


def test_an_unknown_method_is_an_error_before_anything_runs(tmp_path):
    paper = make_paper(make_cell(), make_cell(method="magic"))
    with pytest.raises(
        ValueError, match=r"'magic' is not known; use one of .*stand-in"
    ):
        run(paper, tmp_path)
    assert not (tmp_path / "results.json.gz").exists()


def test_a_report_runs_nothing_and_forgets_nothing(tmp_path):
    paper = make_paper(make_cell(n_train=500), make_cell(n_train=600))
    first = make_paper(paper.cells[0])
    run(first, tmp_path)
    outcome, _ = run(paper, tmp_path, report_only=True, fresh=True)
    assert [len(outcome.jobs), len(outcome.results)] == [2, 1]


def test_missing_data_is_said_at_once_and_what_can_be_run_is_run_first(
    tmp_path, monkeypatch
):
    from papers.datasets import _fetch

    monkeypatch.setattr(_fetch, "cache_folder", lambda: None)
    monkeypatch.delenv("KAUCUS_DATA", raising=False)
    paper = make_paper(make_cell(dataset="mnist", n_train=9), make_cell())
    outcome, lines = run(paper, tmp_path)
    assert "mnist is not here: 1 of 2 results wait for its download" in lines[0]
    assert (
        'python -c "from papers.datasets import load_mnist; load_mnist()"' in lines[0]
    )
    assert "digits" in lines[1]
    assert "SKIPPED" in lines[2]
    assert len(outcome.results) == 1


def test_the_time_is_said_before_a_quick_run(tmp_path):
    paper = dataclasses.replace(make_paper(make_cell()), minutes=2.5)
    _, lines = run(paper, tmp_path / "quick")
    assert lines[0] == "About 2.5 min on two quiet CPU cores."
    for folder, full in (("full", True), ("quick", False)):  # quick has all results
        _, lines = run(paper, tmp_path / folder, full=full)
        assert not any("About" in line for line in lines)
