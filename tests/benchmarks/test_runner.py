"""The runner of the benchmarks: what it writes, and what it does when a step fails."""

import json
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as command
from benchmarks import _runner as runner
from benchmarks._runner import NAMES, Settings, Step, Table, load_benchmark


def square(x):
    return {"x": x, "seconds": x * x}


def two_records():
    return [{"x": 1}, {"x": 2}]


def dies():
    raise RuntimeError("out of memory")


def benchmark(*steps):
    def tables(content):
        rows = [[r.get("x"), r.get("skipped", "")] for r in content["squares"]]
        return [Table("Squares", ["x", "why"], rows)]

    return SimpleNamespace(
        TITLE="A title", ABOUT="What it is.", steps=lambda s: list(steps), tables=tables
    )


def here(function, *args, **options):
    return Step("squares", "a step", function, *args, isolated=False, **options)


def test_records_go_to_json_and_tables_to_markdown(tmp_path, capsys):
    made = benchmark(here(square, (3,)), here(two_records))
    content, files = runner.run_benchmark(made, tmp_path, Settings())
    assert [r["x"] for r in content["squares"]] == [3, 1, 2]
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert json.loads((tmp_path / "bench.json").read_text()) == content
    text = (tmp_path / "bench.md").read_text()
    for part in ("# A title", "What it is.", "## Squares", "- cpu: "):
        assert part in text
    assert "[1/2] a step: 9.00 s" in capsys.readouterr().err


def test_a_step_may_need_what_an_earlier_one_found(tmp_path):
    later = here(square, lambda content: (content["squares"][0]["seconds"],))
    made = benchmark(here(square, (2,)), later)
    content, _ = runner.run_benchmark(made, tmp_path, Settings())
    assert content["squares"][1]["x"] == 4


def test_a_step_that_fails_is_recorded_and_the_others_run(tmp_path, capsys):
    made = benchmark(here(dies, head={"x": 7}), here(square, (1,)))
    content, _ = runner.run_benchmark(made, tmp_path, Settings())
    assert content["squares"][0] == {"x": 7, "skipped": "crashed: out of memory"}
    assert content["squares"][1]["x"] == 1
    assert "SKIPPED: crashed" in capsys.readouterr().err


@pytest.mark.slow
def test_a_step_runs_in_a_process_of_its_own():
    assert runner.run_step(Step("squares", "a step", square, (5,)), {}) == [square(5)]


def test_files_are_there_after_every_step(tmp_path):
    def stop():
        raise KeyboardInterrupt

    made = benchmark(here(square, (3,)), here(stop))
    with pytest.raises(KeyboardInterrupt):
        runner.run_benchmark(made, tmp_path, Settings())
    assert json.loads((tmp_path / "bench.json").read_text())["squares"]


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_says_what_it_is(name):
    module = load_benchmark(name)
    assert module.TITLE
    assert hasattr(module, "about") or module.ABOUT
    assert callable(module.steps)
    assert callable(module.tables)


def test_missing_data_is_one_line_before_anything_runs(monkeypatch, capsys, tmp_path):
    def no_data(settings):
        raise FileNotFoundError("no mnist;\nset KAUCUS_DATA")

    monkeypatch.setattr(load_benchmark("lssvm"), "prepare", no_data)
    assert command.main(["lssvm", "--quick", "--output", str(tmp_path / "out")]) == 3
    assert capsys.readouterr().err == "benchmarks: no mnist; set KAUCUS_DATA\n"
    assert not list(tmp_path.iterdir())


def test_the_command_line_passes_its_arguments(monkeypatch, capsys, tmp_path):
    seen = []

    def fake(benchmark, folder, settings):
        seen.append((folder, settings))
        return {"about": "what it is", "contenders": [], "approximate": []}, [folder]

    monkeypatch.setattr(command, "run_benchmark", fake)
    argv = ["kernel-kmeans", "--sizes", "7", "8", "--large", "--device", "cuda"]
    assert command.main([*argv, "--output", str(tmp_path)]) == 0
    assert seen == [(tmp_path, Settings(sizes=[7, 8], large=True, device="cuda"))]
    assert "what it is" in capsys.readouterr().out
