"""One runner for every benchmark: steps in, records, tables and files out.

A benchmark is a module of this folder with

- ``TITLE``, the heading of its Markdown file;
- ``ABOUT``, a paragraph that says what was measured, or ``about(content)``;
- ``steps(settings)``, the list of its :class:`Step`;
- ``tables(content)``, its :class:`Table` of the records so far;
- ``prepare(settings)`` if something must be checked or warmed up before the first step;
- ``draw(content, folder)`` if there are figures; it returns their paths.

A step is a function of plain arguments that returns a record, or a list of records. It
runs in a process of its own, so that no contender meets another's memory or threads.
One whose library is missing, or whose process dies, leaves ``skipped`` and the reason.
"""

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TextIO

import numpy as np

from benchmarks._isolated import run_isolated
from kaucus._array.blocks import format_bytes
from kaucus.evaluation.clustering import format_seconds
from papers import (
    MissingPackageError,
    Split,
    describe_machine,
    load_split,
    one_line_each,
    peak_memory,
    replace_file,
    timed,
)
from papers._markdown import markdown_table
from papers._progress import StepProgress

NAMES = (
    "lssvm",
    "solvers",
    "kmeans-kernel",
    "kernel-kmeans",
    "cluster-rbf",
    "fast",
    "gpu",
    "tables",
    "pace",
    "pictures",
    "cluster",
    "intervals",
    "onnx",
    "attack",
    "features",
    "outliers",
    "quantiles",
    "gaussian-process",
    "clusters",
)
Content = dict[str, Any]
"""``about``, ``machine`` and, for each section, a list of records."""


class Settings(NamedTuple):
    """What the command line says."""

    quick: bool = False
    sizes: Sequence[int] | None = None
    large: bool = False
    parts: Sequence[str] | None = None
    device: str | None = None
    workers: Sequence[int] | None = None
    data_home: str | Path | None = None
    jobs: int = 1
    """Steps at a time; for errors and processor seconds, not for times."""
    tables: Sequence[str] | None = None
    contenders: Sequence[str] | None = None
    splits: int | None = None
    rows: Sequence[str] | None = None
    """Numbers of training rows of tables, as texts, and ``"all"``."""
    resume: bool = False
    """Whether steps that the folder has a record of are left out."""


class Step(NamedTuple):
    """Something to measure."""

    section: str
    """Where in the content its records go."""
    label: str
    """What the progress calls it."""
    function: Callable[..., dict | list]
    args: tuple | Callable[[Content], tuple] = ()
    """Its arguments, or a function that takes them from the records so far."""
    head: dict[str, Any] = {}  # noqa: RUF012 - never changed
    """What its record begins with, also where it is skipped."""
    imports: tuple[str, ...] = ()
    """What its process imports before the clock starts."""
    isolated: bool = True
    """Whether it runs in a process of its own."""


class Table(NamedTuple):
    """A table of results."""

    title: str
    headers: Sequence[str]
    rows: list[list]


class Contender(NamedTuple):
    """A model to be compared: how to make it, what it imports, its precision."""

    make: Callable[..., Any]
    imports: tuple[str, ...]
    dtype: str = "float32"


def load_benchmark(name: str) -> ModuleType:
    """Import the module of a benchmark by its name on the command line."""
    return importlib.import_module(f"benchmarks.{name.replace('-', '_')}")


def run_benchmark(
    benchmark: ModuleType,
    folder: Path,
    settings: Settings,
    *,
    stream: TextIO | None = None,
) -> tuple[Content, list[Path]]:
    """Run every step; write ``bench.json``, ``bench.md`` and the figures.

    The files are written after every step: a stop loses the rest, not what is done,
    and a run that is resumed begins with what is left.
    """
    if hasattr(benchmark, "prepare"):
        benchmark.prepare(settings)
    steps = benchmark.steps(settings)
    gpu = getattr(benchmark, "gpu_name", lambda settings: None)(settings)
    content: Content = {"about": "", "machine": describe_machine(gpu=gpu)}
    content |= {step.section: [] for step in steps}
    files = [folder / "bench.json", folder / "bench.md"]
    if settings.resume and files[0].exists():
        steps = _resumed(steps, content, json.loads(files[0].read_text()))
    with StepProgress(len(steps), stream) as progress:
        for step, records in _results(steps, content, progress, settings.jobs):
            content[step.section] += records
            write_files(benchmark, content, folder)
            progress.advance(f"{step.label}{_summary(records)}")
    return content, files + _draw(benchmark, content, folder)


def _resumed(steps: Sequence[Step], content: Content, before: Content) -> list[Step]:
    """Take over the records of a run before; return the steps that it has not done.

    Skipped ones are tried again.
    """
    left = []
    for step in steps:
        known = [
            record
            for record in before.get(step.section, ())
            if "skipped" not in record and step.head.items() <= record.items()
        ]
        content[step.section] += known
        if not known:
            left.append(step)
    return left


def _results(
    steps: Sequence[Step], content: Content, progress: StepProgress, jobs: int
) -> Iterator[tuple[Step, list[dict[str, Any]]]]:
    """Yield every step with its records; several at a time come as they are done."""
    if jobs <= 1:
        for step in steps:
            progress.begin(step.label)
            yield step, run_step(step, content)
        return
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(run_step, step, content): step for step in steps}
        for future in as_completed(futures):
            yield futures[future], future.result()


def run_step(step: Step, content: Content) -> list[dict[str, Any]]:
    """Run one step; return its records, or the reason why there is none."""
    args = step.args(content) if callable(step.args) else step.args
    try:
        result = (
            run_isolated(step.function, *args, imports=step.imports).result
            if step.isolated
            else step.function(*args)
        )
    except ModuleNotFoundError as error:
        result = {"skipped": str(error)}
    except RuntimeError as error:  # its process died: a crash of its library, or memory
        result = {"skipped": f"crashed: {error}"}
    records = result if isinstance(result, list) else [result]
    return [{**step.head, **record} for record in records]


def write_files(benchmark: ModuleType, content: Content, folder: Path) -> None:
    """Write the records as JSON and the tables as Markdown."""
    about = getattr(benchmark, "about", None)
    content["about"] = benchmark.ABOUT if about is None else about(content)
    replace_file(folder / "bench.json", one_line_each(content))
    parts = [f"# {benchmark.TITLE}", content["about"]]
    for table in benchmark.tables(content):
        parts += [f"## {table.title}", markdown_table(table.headers, table.rows)]
    machine = content["machine"].items()
    parts += ["## Machine", "\n".join(f"- {key}: {value}" for key, value in machine)]
    replace_file(folder / "bench.md", "\n\n".join(parts) + "\n")


def _draw(benchmark: ModuleType, content: Content, folder: Path) -> list[Path]:
    if not hasattr(benchmark, "draw"):
        return []
    try:
        return benchmark.draw(content, folder)
    except MissingPackageError as error:
        print(f"no figure: {error}")
        return []


def _summary(records: list[dict]) -> str:
    """Return the time of a step, or why it was skipped, for the progress."""
    first = records[0] if records else {}
    if "skipped" in first:
        return f": SKIPPED: {first['skipped']}"
    seconds = first.get("fit_seconds", first.get("seconds"))
    return "" if seconds is None else f": {format_seconds(seconds)}"


# ---- what many benchmarks measure ----------------------------------------------------


def fit_and_predict(model: Any, split: Split) -> dict[str, Any]:
    """Fit and predict once; return both times, the test error and the memory."""
    with peak_memory() as memory:
        _, fit_seconds = timed(model.fit, split.X_train, split.y_train)
        predicted, predict_seconds = timed(model.predict, split.X_test)
    return {
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "error_percent": float(100 * np.mean(predicted != split.y_test)),
        "memory": memory.rise,
    }


def load_digits(n: int, dtype: str, data_home: Any) -> Split:
    """Load the first n digits of MNIST, each with mean zero and norm one."""
    split = load_split("mnist", n_train=n, dtype=dtype, data_home=data_home)
    return split._replace(
        X_train=unit_rows(split.X_train), X_test=unit_rows(split.X_test)
    )


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Return the rows minus their mean, divided by their norm."""
    X = X - X.mean(axis=1, keepdims=True)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


# ---- cells of tables -----------------------------------------------------------------


def skipped_row(head: Sequence[str], record: dict, n_columns: int) -> list[str]:
    """Return the row of a contender that did not run: its head and the reason."""
    reason = f"skipped: {record['skipped']}"
    return [*head, reason, *[""] * (n_columns - len(head) - 1)]


def result_cells(record: dict) -> list[str]:
    """Return fit, predict, error and memory of :func:`fit_and_predict` as texts."""
    return [
        format_seconds(record["fit_seconds"]),
        format_seconds(record["predict_seconds"]),
        f"{record['error_percent']:.2f}",
        format_bytes(record["memory"]),
    ]


def ratio(value: float | None, ours: float | None) -> str:
    """Return theirs / ours with two digits, a dash where one of them is missing."""
    return f"{value / ours:.2f}" if value and ours else "–"
