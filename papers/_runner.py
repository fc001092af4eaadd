"""Run the cells of a paper, one after the other, and store each result at once.

A result's key is a hash of all that determines it, so that a run which was killed
goes on where it was, and a changed cell is run anew.
"""

import functools
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from kaucus import __version__
from kaucus.evaluation.clustering import format_seconds, peak_memory
from papers._curves import (
    curve_key,
    error_at,
    fit_and_predict,
    fit_curve,
    hash_of,
)
from papers._data import Split, command_if_missing, load_split
from papers._machine import describe_machine, now
from papers._progress import StepProgress
from papers._registry import (
    MEASUREMENTS,
    METHODS,
    METRICS,
    build_method,
    look_up,
)
from papers._spec import Cell, Paper
from papers._store import ResultStore

RESULTS_FILE = "results.json.gz"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a run that the user decides, not the paper."""

    device: str | None = None
    """Where the methods compute; None leaves that to them."""
    memory_budget: int | str | None = None
    """Bound on the methods' memory; None leaves it to them."""
    data_home: str | Path | None = None
    """Folder with the data."""
    seeds: tuple[int, ...] | None = None
    """Seeds of every cell; None takes the cell's own."""
    full: bool = False
    """Whether to run the long cells too."""
    fresh: bool = False
    """Whether to run again what is already there."""
    report_only: bool = False
    """Whether to run nothing, and only report the results that are there."""


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
    """The jobs of a run, and the store with their results."""

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
        Folder for ``results.json.gz``; results in it are not computed again.
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
        look_up(cell.method, {**methods, **MEASUREMENTS})
    chosen = [cell for cell in paper.cells if settings.full or not cell.full]
    jobs = plan_jobs(chosen, settings)
    store = ResultStore(Path(output) / RESULTS_FILE)
    if settings.fresh and not settings.report_only:
        store.discard([job.key for job in jobs])
    run = Run(settings, methods, describe_machine(gpu=gpu))
    waiting = [job for job in jobs if job.key not in store.results]
    if settings.report_only:
        waiting = []
    missing = _missing_data(waiting, settings)
    # What can be run is run first; a download may end the rest.
    waiting.sort(key=lambda job: job.cell.dataset in missing)
    outcome = Outcome(
        jobs,
        store,
        n_left_out=len(paper.cells) - len(chosen),
        n_reused=sum(job.key in store.results for job in jobs),
    )
    try:
        with StepProgress(len(waiting), stream) as progress:
            for line in _opening(paper, waiting, missing, settings):
                print(line, file=stream or sys.stderr, flush=True)
            for job in waiting:
                progress.begin(job.label)
                progress.advance(_run_and_store(job, run, store))
    except KeyboardInterrupt:
        outcome.interrupted = True
    return outcome


def _missing_data(waiting: Sequence[Job], settings: Settings) -> dict[str, str]:
    """Return the data sets of jobs that are not here, and the command for each."""
    names = dict.fromkeys(job.cell.dataset for job in waiting)
    commands = {name: command_if_missing(name, settings.data_home) for name in names}
    return {name: command for name, command in commands.items() if command}


def _opening(
    paper: Paper, waiting: Sequence[Job], missing: dict[str, str], settings: Settings
) -> list[str]:
    """Say before the first job how long it takes, and which data is not here."""
    lines = []
    if waiting and paper.minutes and not settings.full:
        lines.append(f"About {paper.minutes:g} min on two quiet CPU cores.")
    for name, command in missing.items():
        n = sum(job.cell.dataset == name for job in waiting)
        lines.append(
            f"{name} is not here: {n} of {len(waiting)} results wait for its download, "
            f"and are skipped without a network. To fetch it first: {command}"
        )
    return lines


def stored_outcome(paper: Paper, folder: Path) -> Outcome:
    """Return the jobs of a full run and what the folders have of their results."""
    main, device = paper.results.get("folder", paper.name), paper.results.get("device")
    store = ResultStore(folder / main / RESULTS_FILE)
    jobs = plan_jobs(paper.cells, Settings(full=True, device=device))
    if "also" in paper.results:
        also = ResultStore(folder / paper.results["also"] / RESULTS_FILE)
        others = plan_jobs(paper.cells, Settings(full=True))
        store.results |= also.results
        jobs = [
            there if there.key in also.results else job
            for job, there in zip(jobs, others, strict=True)
        ]
    return Outcome(jobs, store)


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
    return hash_of(_determining(cell, seed, settings))


def _determining(cell: Cell, seed: int, settings: Settings) -> dict[str, Any]:
    """Return all that determines a result."""
    determining = {**_describe(cell, seed, settings), "n_train": cell.n_train}
    # Only where they are used: results from before there were curves stay valid.
    curve = {"at_step": cell.at_step, "keep_predictions": cell.keep_predictions}
    return determining | {key: value for key, value in curve.items() if value}


def _describe(cell: Cell, seed: int, settings: Settings) -> dict[str, Any]:
    """Return what was run, for people who read the results file."""
    names = ("dataset", "method", "normalize", "dtype", "sample", "metric")
    return {
        **{name: getattr(cell, name) for name in names},
        "params": dict(cell.params),
        "seed": seed,
        "device": settings.device,
        "memory_budget": settings.memory_budget,
        "kaucus": __version__,
    }


def _run_and_store(job: Job, run: Run, store: ResultStore) -> str:
    """Run one job, store its record, and return a line about it."""
    cell, start = job.cell, now()
    what = _describe(cell, job.seed, run.settings)
    try:
        if cell.method in MEASUREMENTS:
            found = _run_measurement(job, run)
        elif cell.at_step is not None:
            found = _read_curve(job, run, store)
        else:
            found = _fit_and_score(job, run)
    except Exception as error:  # the other cells can still run
        problem = _describe_problem(error, job.label)
        store.add_problem(job.key, what | problem)
        return f"{job.label}: {problem['status'].upper()}: {problem['reason']}"
    times = {"start": start, "end": now(), "machine": run.machine}
    store.add(job.key, {**times, **found, **what})
    metric = METRICS[cell.metric]
    value = f"{metric.label} {found['value']:.{metric.digits}f}"
    return f"{job.label}: {value}, fit {format_seconds(found['fit_seconds'])}"


def _describe_problem(error: Exception, label: str) -> dict[str, Any]:
    """Say why a job has no result: its data or a package is missing, or it failed."""
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, FileNotFoundError | ImportError):
        return {"label": label, "status": "skipped", "reason": reason}
    text = "".join(traceback.format_exception(error))
    return {"label": label, "status": "failed", "reason": reason, "traceback": text}


def _fit_and_score(job: Job, run: Run) -> dict[str, Any]:
    """Fit, predict and score; return the numbers."""
    split = _load(job, run.settings)
    predicted, record = fit_and_predict(_build(job, run), split)
    return record | {"value": METRICS[job.cell.metric].score(split.y_test, predicted)}


def _run_measurement(job: Job, run: Run) -> dict[str, Any]:
    """Run a measurement in place of a fit; return the numbers."""
    cell, settings = job.cell, run.settings
    if settings.device not in (None, "cpu"):
        raise ValueError(
            f"device={settings.device!r} was asked for, but {cell.method!r} "
            "computes on the host; leave the device out for it."
        )
    with peak_memory() as memory:
        done = MEASUREMENTS[cell.method](
            cell.dataset, cell.params, seed=job.seed, data_home=settings.data_home
        )
    return {
        "value": done.value,
        "n_train": done.n_rows,
        "n_test": 0,
        "solver": None,
        "n_iter": None,
        "fit_seconds": done.seconds,
        "predict_seconds": 0.0,
        "peak_memory": memory.rise,
        "detail": done.detail,
    }


def _read_curve(job: Job, run: Run, store: ResultStore) -> dict[str, Any]:
    """Return the numbers of a fit that cells of other steps share, and the step's."""
    cell = job.cell
    assert cell.at_step is not None
    key = curve_key(_determining(cell, job.seed, run.settings))
    shared = [r for r in store.results.values() if r.get("curve") == key]
    record = shared[0] if shared else _fit_curve(job, run)
    value = error_at(record, cell.at_step)
    return {**record, "curve": key, "at_step": cell.at_step, "value": value}


def _fit_curve(job: Job, run: Run) -> dict[str, Any]:
    split, keep = _load(job, run.settings), job.cell.keep_predictions
    return fit_curve(_build(job, run), split, keep_predictions=keep)


def _load(job: Job, settings: Settings) -> Split:
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


def _build(job: Job, run: Run) -> Any:
    return build_method(
        job.cell.method,
        job.cell.params,
        normalize=job.cell.normalize,
        device=run.settings.device,
        seed=job.seed,
        memory_budget=run.settings.memory_budget,
        methods=run.methods,
    )
