"""Drive a randomized solver: draw blocks, step, watch, stop, keep, average.

One run draws blocks of rows without replacement, pass after pass. Each block of the
kernel is made once and serves every problem: the model, and, where decision values of
unseen rows are wanted, a second one with the weight 0 for some rows (``_iterative``).

Several runs differ by their blocks alone. As the system is linear and the kernel the
same, their models are averaged by their weights (Andrecut 2016, eq. 67-68).
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    n_workers,
    one_blas_thread,
    take_rows,
)
from kaucus.kernels import Kernel
from kaucus.solvers._block_memory import plan_blocks
from kaucus.solvers._checkpoint import (
    Snapshot,
    as_host_state,
    digest,
    load_checkpoint,
    save_checkpoint,
)
from kaucus.solvers._history import Recorder, Watch, history_of
from kaucus.solvers._result import LSSVMSolution, SolveInfo
from kaucus.solvers._sampler import BlockSampler
from kaucus.solvers._scaling import ScaledTargets, scale_targets
from kaucus.solvers._steps import State
from kaucus.solvers._systems import (
    KNOW_RESIDUAL,
    Setting,
    Start,
    System,
    make_system,
)
from kaucus.solvers._theta import KernelRows, draw_block, product, theta_block

# Steps between two checkpoints.
_CHECKPOINT_STEPS = 5


class Rules(NamedTuple):
    """How long a run goes on, and what it leaves on the way."""

    solver: str
    max_iter: int
    tol: float
    watch: Watch
    checkpoint: Path | None = None
    fingerprint: dict[str, str] = {}  # noqa: RUF012 (never changed)


class _Run(NamedTuple):
    """What came of one run."""

    states: list[State]
    systems: list[System]
    recorder: Recorder
    info: SolveInfo


class RandomizedResult(NamedTuple):
    """A solution, and how it came about."""

    solution: LSSVMSolution
    history: dict[str, list]


def solve_ls_svm_randomized(
    kernel: Kernel,
    X: Array,
    Y: Array,
    *,
    C: float,
    solver: str,
    rng: np.random.Generator,
    memory_budget: int,
    sample_weight: Array | None = None,
    held_out: np.ndarray | None = None,
    block_size: int | None = None,
    max_iter: int = 1000,
    tol: float = 1e-3,
    n_runs: int = 1,
    start: Start | None = None,
    watch: Watch | None = None,
    checkpoint: str | Path | None = None,
    safeguard: bool = True,
) -> RandomizedResult:
    """Solve the LS-SVM system by random blocks of the kernel matrix.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
    C : float
        H = K + I/C.
    solver : str
        One of :data:`RANDOMIZED`.
    rng : numpy.random.Generator
    memory_budget : int
        Bytes. What blocks and vectors leave of it keeps rows of the kernel matrix.
    sample_weight : array of shape (n,), default=None
    held_out : integer array of shape (m,), default=None
        Rows for which decision values of a model fitted without them are wanted.
    block_size : int, default=None
        J; None is 2,000, or fewer where memory asks for it.
    max_iter : int, default=1000
        Most steps of a run.
    tol : float, default=1e-3
        Stop at this relative residual, or where a whole pass over the rows brings no
        significant change: of the residual (matching_pursuit, kaczmarz_mp), or of W
        (kaczmarz, nystrom), by this relative amount.
    n_runs : int, default=1
        Runs with other blocks, whose weights are averaged.
    start : Start, default=None
        Coefficients to begin with.
    watch : Watch, default=None
    checkpoint : path, default=None
        File for the state, every few steps; with several runs one for each.
    safeguard : bool, default=True
        Of kaczmarz_mp; False is the printed form, which diverges.

    Raises
    ------
    MemoryError
        If blocks of ``block_size`` do not fit into the budget.
    CheckpointError
        If the file is of another fit.
    """
    workers = min(n_runs, n_workers(X))
    if start is not None:
        start = Start(*(as_like(part, Y, dtype="float64") for part in start))
    problems = _problems(Y, sample_weight, held_out)
    memory = plan_blocks(
        X,
        n_targets=Y.shape[1],
        n_problems=len(problems),
        weighted=sample_weight is not None,
        block_size=block_size,
        budget=memory_budget,
        n_parallel=workers,
    )
    kernel_rows = KernelRows(kernel, X, memory.kept)
    rules = Rules(solver, max_iter, tol, watch or Watch())
    if checkpoint is not None:
        parameters = {
            "X": X,
            "y": Y,
            "sample_weight": sample_weight,
            "kernel": kernel,
            "C": float(C),
            "solver": solver,
            "block_size": memory.block_size,
            "n_runs": n_runs,
            "random_state": rng.bit_generator.state,
            "probability": held_out,
            "warm_start": None if start is None else start.dual_coef,
        }
        marks = {name: digest(value) for name, value in parameters.items()}
        rules = rules._replace(checkpoint=Path(checkpoint), fingerprint=marks)
    generators = [rng] if n_runs == 1 else _children(rng, n_runs)
    stop = threading.Event()

    def run(k: int) -> _Run:
        setting = Setting(C, memory.block_size, generators[k], safeguard)
        systems = [
            make_system(solver, kernel_rows, p, setting, None if i else start)
            for i, p in enumerate(problems)
        ]
        return _run(k, systems, kernel_rows, setting, _rules_of(rules, k, n_runs), stop)

    runs = [run(0)] if n_runs == 1 else _in_parallel(run, n_runs, workers, stop)
    return _average(runs, kernel_rows, held_out, memory.block_size)


def _problems(Y: Array, sample_weight, held_out) -> list[ScaledTargets]:
    """Return the model's targets, and those of the model without the held-out rows."""
    problems = [scale_targets(Y, sample_weight)]
    if held_out is not None:
        xp = array_namespace(Y)
        weight = np.ones(Y.shape[0])
        weight[held_out] = 0.0
        without = as_like(weight, Y)
        if sample_weight is not None:
            without = without * astype(sample_weight, "float64")
        problems.append(scale_targets(Y, xp.asarray(without)))
    return problems


def _children(rng: np.random.Generator, n_runs: int) -> list[np.random.Generator]:
    return [np.random.default_rng(int(rng.integers(2**63))) for _ in range(n_runs)]


def _rules_of(rules: Rules, run: int, n_runs: int) -> Rules:
    """Give each of several runs a checkpoint of its own."""
    if rules.checkpoint is None or n_runs == 1:
        return rules
    path = rules.checkpoint
    return rules._replace(checkpoint=path.with_name(f"{path.name}.run{run}"))


def _in_parallel(run, n_runs: int, workers: int, stop: threading.Event) -> list[_Run]:
    """Run in threads; Ctrl-C ends every run after its step."""
    if workers == 1:
        runs: list[_Run] = []
        while len(runs) < n_runs and not (runs and runs[-1].info.interrupted):
            runs.append(run(len(runs)))
        return runs
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(run, k) for k in range(n_runs)]
        try:
            return [future.result() for future in futures]
        except BaseException as error:
            stop.set()
            if not isinstance(error, KeyboardInterrupt):
                raise
            return [future.result() for future in futures]


def _run(
    number: int,
    systems: list[System],
    kernel_rows: KernelRows,
    setting: Setting,
    rules: Rules,
    stop: threading.Event,
) -> _Run:
    """Step through blocks until a rule says stop."""
    sampler = BlockSampler(kernel_rows.n, setting.block_size, setting.rng)
    step, states, recorder = _begin(number, systems, sampler, rules)
    progress = _Progress(rules, sampler.blocks_per_pass, recorder.rows)
    best = progress.best(states)
    reason = progress.reason(step)
    try:
        while not reason:
            results = _step_all(systems, states, sampler, kernel_rows, setting.C)
            change = _change(states[0]["W"], results[0].state["W"])
            states, step = [result.state for result in results], step + 1
            progress.took(max(result.residual for result in results), change, results)
            best = progress.best(states)
            asked = recorder.record(
                step,
                results[0].residual,
                change,
                lambda states=states: systems[0].coefficients(states[0]),
            )
            reason = progress.reason(step)
            if not reason and (asked or stop.is_set()):
                reason = "callback" if asked else "interrupted"
            if step % _CHECKPOINT_STEPS == 0 or reason:
                _save(rules, step, states, sampler, recorder)
    except KeyboardInterrupt:
        if step == 0:
            raise  # nothing to keep
        reason = "interrupted"
        _save(rules, step, states, sampler, recorder)
    info = progress.info(step, reason)
    return _Run(best, systems, recorder, info)


def _begin(number: int, systems, sampler: BlockSampler, rules: Rules):
    """Return step, states and recorder: of the checkpoint, or of a new run."""
    snap = None
    if rules.checkpoint is not None:
        snap = load_checkpoint(rules.checkpoint, rules.fingerprint)
    if snap is None:
        states = [system.start() for system in systems]
        return 0, states, Recorder(rules.watch, number)
    sampler.restore(snap.sampler)
    like = systems[0].targets.u
    states = [
        {name: as_like(value, like) for name, value in state.items()}
        for state in snap.states
    ]
    return snap.step, states, Recorder(rules.watch, number, snap.history)


def _save(rules: Rules, step: int, states, sampler: BlockSampler, recorder) -> None:
    if rules.checkpoint is None:
        return
    snap = Snapshot(
        step,
        [as_host_state(state) for state in states],
        sampler.state(),
        recorder.rows,
    )
    save_checkpoint(rules.checkpoint, rules.fingerprint, snap)


def _step_all(systems, states, sampler: BlockSampler, kernel_rows, C: float):
    """Take one step of each system with the same block of the kernel."""
    E, rows = draw_block(kernel_rows, sampler.draw())
    results = []
    for k, (system, state) in enumerate(zip(systems, states, strict=True)):
        last = k == len(systems) - 1
        block = theta_block(E, rows, system.targets, C, overwrite=last)
        results.append(system.step(block, state))
    return results


def _change(old: Array, new: Array) -> float:
    xp = array_namespace(new)
    size = float(xp.linalg.vector_norm(new))
    return float(xp.linalg.vector_norm(new - old)) / size if size > 0 else 0.0


class _Progress:
    """Residuals and changes so far, and what follows from them."""

    def __init__(self, rules: Rules, blocks_per_pass: int, rows: list[tuple]) -> None:
        self._rules, self._per_pass = rules, blocks_per_pass
        self._exact = rules.solver in KNOW_RESIDUAL
        self._residuals = [row[3] for row in rows]
        self._changes = [row[4] for row in rows]
        self._fallbacks = 0
        self._best: tuple[float, Any] = (np.inf, None)

    def took(self, residual: float, change: float, results) -> None:
        """Take note of a step."""
        self._residuals.append(residual)
        self._changes.append(change)
        self._fallbacks += any(result.fallback for result in results)

    def best(self, states: list[State]) -> list[State]:
        """Return the states to keep: the last, or those of the smallest residual."""
        if not self._exact or not self._residuals:
            return states
        if self._residuals[-1] <= self._best[0] or self._best[1] is None:
            self._best = (self._residuals[-1], states)
        return self._best[1]

    def reason(self, step: int) -> str:
        """Return why to stop, or an empty text."""
        rules, solver = self._rules, self._rules.solver
        if self._residuals and self._exact and self.residual <= rules.tol:
            return "residual"
        if solver == "nystrom" and step >= self._per_pass:
            return "complete"
        if step > self._per_pass and self._stalled():
            return "no change"
        return "max_iter" if step >= rules.max_iter else ""

    def _stalled(self) -> bool:
        """Tell whether a whole pass has brought no significant change."""
        tol, solver = self._rules.tol, self._rules.solver
        if solver in ("kaczmarz", "nystrom"):
            return max(self._changes[-self._per_pass :]) <= tol
        if solver == "block_descent":  # it may rise for a while
            return False
        before, now = self._residuals[-1 - self._per_pass], self._residuals[-1]
        return abs(before - now) <= tol * before

    @property
    def residual(self) -> float:
        """The residual of all rows: known, or the largest of the last pass."""
        if self._exact:
            return min(self._residuals)
        return max(self._residuals[-self._per_pass :])

    def info(self, step: int, reason: str) -> SolveInfo:
        """Tell what ran."""
        return SolveInfo(
            self._rules.solver,
            n_iter=step,
            backward_error=self.residual if self._residuals else 1.0,
            converged=reason in ("residual", "no change", "complete"),
            interrupted=reason == "interrupted",
            stop=reason,
            n_fallbacks=self._fallbacks,
        )


def _average(runs: list[_Run], kernel_rows, held_out, step: int) -> RandomizedResult:
    """Average the weights of the runs (eq. 68), and judge unseen rows with them."""
    models = [
        _mean([run.systems[k].coefficients(run.states[k]) for run in runs])
        for k in range(len(runs[0].systems))
    ]
    unseen = None
    if held_out is not None:
        parts = [held_out[k : k + step] for k in range(0, len(held_out), step)]
        values = [_decide(kernel_rows, rows, *models[1]) for rows in parts]
        unseen = array_namespace(values[0]).concat(values, axis=0)
    worst = max((run.info for run in runs), key=lambda info: info.backward_error)
    info = worst._replace(
        n_iter=max(run.info.n_iter for run in runs),
        converged=all(run.info.converged for run in runs),
        interrupted=any(run.info.interrupted for run in runs),
        n_fallbacks=sum(run.info.n_fallbacks for run in runs),
    )
    solution = LSSVMSolution(*models[0], unseen, info)
    return RandomizedResult(solution, history_of([run.recorder for run in runs]))


def _mean(models: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    total_a, total_b = models[0]
    for a, b in models[1:]:
        total_a, total_b = total_a + a, total_b + b
    return total_a / len(models), total_b / len(models)


def _decide(kernel_rows: KernelRows, rows: np.ndarray, a: Array, b: Array) -> Array:
    """Return the decision values of some training rows, (m, t), in their order."""
    E, order = draw_block(kernel_rows, rows)
    values = product(E[1:, 1:], a) + b[None, :]
    place = np.empty(kernel_rows.n, dtype=np.intp)
    place[order] = np.arange(len(order))
    return take_rows(values, as_like(place[rows], a))
