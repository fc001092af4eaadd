"""Run the cells of a paper, one after the other, and keep each result at once.

A result's key is a hash of all that determines it, so that a run which was killed
goes on where it was, and a changed cell is run anew.
"""

import functools
import hashlib
import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kaucus import __version__
from kaucus.estimators import StepProgress
from kaucus.evaluation import format_seconds
from kaucus.experiments._curves import (
    check_not_interrupted,
    curve_key,
    error_at,
    fit_curve,
)
from kaucus.experiments._data import load_split
from kaucus.experiments._measure import describe_machine, peak_memory, timed
from kaucus.experiments._methods import build_method
from kaucus.experiments._metrics import METRICS
from kaucus.experiments._registry import MEASUREMENTS, METHODS, check_name, look_up
from kaucus.experiments._spec import Cell, Paper
from kaucus.experiments._store import ResultStore

RESULTS_FILE = "results.json"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user, not the paper, decides about a run.

    Attributes
    ----------
    device : str or None
        Where the methods compute; None leaves that to them.
    memory_budget : int, str or None
        Bound on the methods' memory; None leaves it to them.
    data_home : path or None
        Folder with the data.
    seeds : tuple of int or None
        Seeds of every cell; None takes the cell's own.
    full : bool
        Whether to run the long cells too.
    fresh : bool
        Whether to run again what is already there.
    """

    device: str | None = None
    memory_budget: int | str | None = None
    data_home: str | Path | None = None
    seeds: tuple[int, ...] | None = None
    full: bool = False
    fresh: bool = False


@dataclass(frozen=True)
class Job:
    """One cell with one seed, and the key of its result."""

    cell: Cell
    seed: int
    key: str

    @property
    def label(self) -> str:
        """Text for progress lines."""
        return f"{self.cell.label}, seed {self.seed}"


@dataclass(frozen=True)
class Run:
    """What all jobs of one run share."""

    settings: Settings
    methods: Mapping[str, Any]
    machine: dict[str, Any]


@dataclass
class Outcome:
    """What a run has to show: its jobs, and the store with their results."""

    jobs: list[Job]
    store: ResultStore
    interrupted: bool = False
    n_left_out: int = 0
    n_reused: int = 0

    @property
    def results(self) -> dict[str, dict]:
        """Records of the finished jobs by key, in the jobs' order."""
        done = self.store.results
        return {job.key: done[job.key] for job in self.jobs if job.key in done}

    def problems(self, status: str) -> list[dict]:
        """List the records of jobs that were ``"skipped"`` or ``"failed"``."""
        found = (self.store.problems.get(job.key) for job in self.jobs)
        return [record for record in found if record and record["status"] == status]


def run_paper(
    paper: Paper,
    output: str | Path,
    settings: Settings | None = None,
    *,
    methods: Mapping[str, Any] = METHODS,
    gpu: str | None = None,
    stream: TextIO | None = None,
) -> Outcome:
    """Run every cell of a paper with every seed, except those already done.

    Parameters
    ----------
    paper : Paper
        What to run.
    output : path
        Folder for ``results.json``; results in it are not computed again.
    settings : Settings, default=None
        Device, data folder, seeds, ...; None takes the defaults.
    methods : mapping, default=METHODS
        Registry of methods.
    gpu : str, default=None
        Name of the GPU, for the record.
    stream : text stream, default=None
        Where progress goes; None is the standard error.

    Returns
    -------
    Outcome
        Also after Ctrl-C, with ``interrupted=True``. A cell whose data or optional
        package is missing is recorded as skipped, one that raised as failed.
    """
    settings = settings or Settings()
    for cell in paper.cells:
        check_name(cell.method, {**methods, **MEASUREMENTS})
    chosen = [cell for cell in paper.cells if settings.full or not cell.full]
    jobs = plan_jobs(chosen, settings)
    store = ResultStore(Path(output) / RESULTS_FILE)
    if settings.fresh:
        store.discard([job.key for job in jobs])
    run = Run(settings, methods, describe_machine(gpu=gpu))
    waiting = {job.key: job for job in jobs if job.key not in store.results}
    outcome = Outcome(
        jobs,
        store,
        n_left_out=len(paper.cells) - len(chosen),
        n_reused=sum(job.key in store.results for job in jobs),
    )
    try:
        with StepProgress(len(waiting), stream) as progress:
            for job in waiting.values():
                progress.begin(job.label)
                progress.advance(_run_and_store(job, run, store))
    except KeyboardInterrupt:
        outcome.interrupted = True
    return outcome


def plan_jobs(cells: Sequence[Cell], settings: Settings) -> list[Job]:
    """List each cell with each of its seeds."""
    return [
        Job(cell, seed, job_key(cell, seed, settings))
        for cell in cells
        for seed in settings.seeds or _seeds(cell, settings)
    ]


def _seeds(cell: Cell, settings: Settings) -> tuple[int, ...]:
    return cell.full_seeds if settings.full and cell.full_seeds else cell.seeds


def job_key(cell: Cell, seed: int, settings: Settings) -> str:
    """Hash all that determines a result.

    What was published, and notes on it, are not part of it: to correct them does
    not make a result stale.
    """
    text = json.dumps(_determining(cell, seed, settings), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _determining(cell: Cell, seed: int, settings: Settings) -> dict[str, Any]:
    """Return all that determines a result."""
    determining = {
        "dataset": cell.dataset,
        "n_train": cell.n_train,
        "sample": cell.sample,
        "dtype": cell.dtype,
        "normalize": cell.normalize,
        "method": cell.method,
        "params": dict(cell.params),
        "metric": cell.metric,
        "seed": seed,
        "device": settings.device,
        "memory_budget": settings.memory_budget,
        "kaucus": __version__,
    }
    # Only where they are used: results from before there were curves stay valid.
    curve = {"at_step": cell.at_step, "keep_predictions": cell.keep_predictions}
    return determining | {key: value for key, value in curve.items() if value}


def _run_and_store(job: Job, run: Run, store: ResultStore) -> str:
    """Run one job, keep what came of it, and return a line about it."""
    try:
        if job.cell.at_step is None:
            record = _run_job(job, run)
        else:
            record = _read_curve(job, run, store)
    except (FileNotFoundError, ImportError) as error:
        return _store_problem(job, "skipped", error, run, store)
    except Exception as error:  # the other cells can still run
        return _store_problem(job, "failed", error, run, store)
    store.add(job.key, record)
    metric = METRICS[job.cell.metric]
    value = f"{metric.label} {record['value']:.{metric.digits}f}"
    return f"{job.label}: {value}, fit {format_seconds(record['fit_seconds'])}"


def _load(job: Job, settings: Settings):
    """Load the job's data, unless it is what the last job had."""
    cell = job.cell
    by_seed = cell.sample == "random" or cell.dataset.startswith("uci/")
    return _load_split(
        cell.dataset,
        n_train=cell.n_train,
        sample=cell.sample,
        dtype=cell.dtype,
        seed=job.seed if by_seed else 0,
        data_home=settings.data_home,
    )


# Methods do not change their data, and neighbouring cells mostly have the same.
_load_split = functools.lru_cache(maxsize=1)(load_split)


def _run_job(job: Job, run: Run) -> dict[str, Any]:
    """Load, fit, predict, score; return the record."""
    if job.cell.method in MEASUREMENTS:
        return _run_measurement(job, run)
    start, settings = _now(), run.settings
    split = _load(job, settings)
    estimator = build_method(
        job.cell.method,
        job.cell.params,
        normalize=job.cell.normalize,
        device=settings.device,
        seed=job.seed,
        memory_budget=settings.memory_budget,
        methods=run.methods,
    )
    with peak_memory() as memory:
        _, fit_seconds = timed(estimator.fit, split.X_train, split.y_train)
        check_not_interrupted(estimator)
        predicted, predict_seconds = timed(estimator.predict, split.X_test)
    return {
        **_describe(job, settings),
        "value": METRICS[job.cell.metric].score(split.y_test, predicted),
        "n_train": len(split.X_train),
        "n_test": len(split.X_test),
        "solver": _fitted(estimator, "solver_"),
        "n_iter": _fitted(estimator, "n_iter_"),
        "start": start,
        "end": _now(),
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "peak_memory": memory.rise,
        "machine": run.machine,
    }


def _run_measurement(job: Job, run: Run) -> dict[str, Any]:
    """Let a measurement do all of it; return the record."""
    start, settings = _now(), run.settings
    if settings.device not in (None, "cpu"):
        raise ValueError(
            f"device={settings.device!r} was asked for, but {job.cell.method!r} "
            "computes on the host; leave the device out for it."
        )
    cell = job.cell
    with peak_memory() as memory:
        measure = look_up(cell.method, MEASUREMENTS)
        done = measure(
            cell.dataset, cell.params, seed=job.seed, data_home=settings.data_home
        )
    return {
        **_describe(job, settings),
        "value": done.value,
        "n_train": done.n_rows,
        "n_test": 0,
        "solver": None,
        "n_iter": None,
        "start": start,
        "end": _now(),
        "fit_seconds": done.seconds,
        "predict_seconds": 0.0,
        "peak_memory": memory.rise,
        "machine": run.machine,
        "detail": done.detail,
    }


def _read_curve(job: Job, run: Run, store: ResultStore) -> dict[str, Any]:
    """Read a number off a fit that other cells share; return the record."""
    start, cell, settings = _now(), job.cell, run.settings
    assert cell.at_step is not None
    key = curve_key(_determining(cell, job.seed, settings))
    shared = [r for r in store.results.values() if r.get("curve") == key]
    if shared:
        record = shared[0]
    else:
        estimator = build_method(
            cell.method,
            cell.params,
            normalize=cell.normalize,
            device=settings.device,
            seed=job.seed,
            memory_budget=settings.memory_budget,
            methods=run.methods,
        )
        keep = cell.keep_predictions
        record = fit_curve(estimator, _load(job, settings), keep_predictions=keep)
        record |= {"start": start, "end": _now(), "machine": run.machine}
    return {
        **record,
        **_describe(job, settings),
        "curve": key,
        "at_step": cell.at_step,
        "value": error_at(record, cell.at_step),
    }


def _describe(job: Job, settings: Settings) -> dict[str, Any]:
    """Say in the results file what was run, for people who read it."""
    cell = job.cell
    return {
        "dataset": cell.dataset,
        "method": cell.method,
        "params": dict(cell.params),
        "normalize": cell.normalize,
        "dtype": cell.dtype,
        "sample": cell.sample,
        "metric": cell.metric,
        "seed": job.seed,
        "device": settings.device,
        "memory_budget": settings.memory_budget,
        "kaucus": __version__,
    }


def _store_problem(
    job: Job, status: str, error: Exception, run: Run, store: ResultStore
) -> str:
    """Keep why a job has no result; return a line about it."""
    reason = " ".join(str(error).split()) or type(error).__name__
    record = _describe(job, run.settings)
    record |= {"label": job.label, "status": status, "reason": reason}
    if status == "failed":
        record["traceback"] = "".join(traceback.format_exception(error))
    store.add_problem(job.key, record)
    return f"{job.label}: {status.upper()}: {reason}"


def _fitted(estimator: Any, name: str) -> Any:
    """Read a fitted attribute of an estimator, or of a pipeline's last step."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    value = getattr(last, name, None)
    return value if value is None or isinstance(value, str) else int(np.max(value))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
