"""A killed run goes on where it was: nothing twice, nothing lost."""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from papers import Settings, StoreError, run_paper
from papers._report import HEADERS, report_rows, summarise
from papers._store import ResultStore
from papers.tests.standins import Constant, four_cells

ROOT = Path(__file__).parents[2]
FIT = HEADERS.index("fit")


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setattr(Constant, "log", tmp_path / "fits.log", raising=False)
    return tmp_path / "fits.log"


def start(output, log, hang_at):
    command = [sys.executable, "-m", "papers.tests.standins"]
    return subprocess.Popen(
        [*command, str(output), str(log), str(hang_at)],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )


def wait_for_lines(path, n, process):
    for _ in range(600):
        if path.exists() and len(path.read_text().splitlines()) >= n:
            return
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.1)
    raise AssertionError(f"{path} did not reach {n} lines")


def table(outcome):
    """Return the report's rows without their times."""
    return [row[:FIT] + row[FIT + 1 :] for row in report_rows(summarise(outcome))]


def run(output, **settings):
    return run_paper(
        four_cells(), output, Settings(**settings), methods={"stand-in": Constant}
    )


@pytest.mark.slow
def test_a_killed_run_continues_without_running_a_cell_twice(tmp_path, log):
    output = tmp_path / "killed"
    process = start(output, log, hang_at=3)
    try:
        wait_for_lines(log, 3, process)
    finally:
        process.kill()
        process.wait()
    killed = log.read_text().splitlines()
    assert killed == ["1 0", "1 1", "8 0"]
    assert len(ResultStore(output / "results.json.gz").results) == 2

    resumed = run(output)
    assert log.read_text().splitlines() == [*killed, "8 0", "8 1"]
    assert (resumed.n_reused, len(resumed.results)) == (2, 4)
    assert table(resumed) == table(run(tmp_path / "whole"))


def test_a_finished_run_is_not_run_again(tmp_path, log):
    first = run(tmp_path)
    again = run(tmp_path)
    assert len(log.read_text().splitlines()) == 4
    assert again.results == first.results


def test_fresh_runs_all_again_but_keeps_other_results(tmp_path, log):
    run(tmp_path, seeds=(5,))
    run(tmp_path)
    run(tmp_path, fresh=True)
    assert len(log.read_text().splitlines()) == 2 + 4 + 4
    assert len(ResultStore(tmp_path / "results.json.gz").results) == 2 + 4


def test_fresh_forgets_before_it_runs(tmp_path, log, monkeypatch):
    """A fresh run that is killed at once must not go on with the old results."""
    run(tmp_path)

    def interrupt(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(Constant, "fit", interrupt)
    run(tmp_path, fresh=True)
    assert ResultStore(tmp_path / "results.json.gz").results == {}


def test_ctrl_c_keeps_what_is_done(tmp_path, log, monkeypatch):
    fit = Constant.fit

    def interrupted_fit(self, X, y):
        if self.constant == 8:
            raise KeyboardInterrupt
        return fit(self, X, y)

    monkeypatch.setattr(Constant, "fit", interrupted_fit)
    stopped = run(tmp_path)
    assert stopped.interrupted
    assert len(ResultStore(tmp_path / "results.json.gz").results) == 2
    monkeypatch.undo()
    Constant.log = log
    resumed = run(tmp_path)
    assert not resumed.interrupted
    assert resumed.n_reused == 2


def test_a_half_written_file_is_never_the_results_file(tmp_path, monkeypatch):
    """Death between writing and renaming leaves the old content."""
    store = ResultStore(tmp_path / "results.json.gz")
    store.add("a", {"value": 1})

    def die(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", die)
    with pytest.raises(KeyboardInterrupt):
        store.add("b", {"value": 2})
    assert list(ResultStore(tmp_path / "results.json.gz").results) == ["a"]


_OF_LATER = json.dumps({"format": 99}).encode()


@pytest.mark.parametrize(
    "content", [b"{", *(gzip.compress(text, mtime=0) for text in (b"[]", _OF_LATER))]
)
def test_a_strange_results_file_is_not_overwritten(tmp_path, content):
    path = tmp_path / "results.json.gz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"results\.json\.gz.*move it away"):
        ResultStore(path)
    assert path.read_bytes() == content


def test_records_come_back_with_their_machines_and_seven_digits(tmp_path):
    store = ResultStore(tmp_path / "results.json.gz")
    one, two = {"cpu": "one"}, {"cpu": "two"}
    for key, machine in (("a", one), ("b", two), ("c", one)):
        store.add(key, {"machine": machine, "value": 1 / 3, "curve": [2e-9 / 3]})
    again = ResultStore(store.path).results
    assert [record["machine"] for record in again.values()] == [one, two, one]
    assert again == store.results
    assert again["a"]["value"] == pytest.approx(1 / 3, rel=1e-6)
    assert again["a"]["curve"] == pytest.approx([2e-9 / 3], rel=1e-6)
