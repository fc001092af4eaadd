"""Driver of the solvers by random blocks: draw a block, take a step, stop.

A run draws blocks of rows without replacement, pass after pass. Each block of the
kernel is made once and serves every problem: the model, and, where decision values of
held-out rows are wanted, a second one with the weight 0 for these rows. Several runs
differ by their blocks alone. As the system is linear and the kernel the same, their
models are averaged by their weights (Andrecut 2016, eq. 67-68).
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    n_workers,
    one_blas_thread,
)
from kaucus.kernels import Kernel, KernelOperator
from kaucus.solvers import _block_descent, _projections  # noqa: F401
from kaucus.solvers._block_memory import plan_blocks
from kaucus.solvers._result import (
    Interrupted,
    LSSVMSolution,
    Recorder,
    SolveInfo,
    Watch,
    history_of,
)
from kaucus.solvers._scaling import scale_problems
from kaucus.solvers._systems import (
    RANDOMIZED,
    Setting,
    Start,
    State,
    StepResult,
    System,
    block_product,
    draw_block,
    theta_block,
)


class RandomizedResult(NamedTuple):
    """A solution, and its history over the steps."""

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
    safeguard: bool = True,
) -> RandomizedResult:
    """Solve the LS-SVM system by random blocks of the kernel matrix.

    ``memory_budget`` keeps rows of the kernel matrix, beside blocks and vectors; a run
    stops at the relative residual ``tol``, or where a whole pass over the rows brings
    no significant change: of the residual (matching_pursuit, kaczmarz_mp), or of W
    (kaczmarz, nystrom). Ctrl-C raises :class:`Interrupted` with the best iterate.
    """
    if start is not None:
        start = Start(*(as_like(part, Y, dtype="float64") for part in start))
    problems = scale_problems(Y, sample_weight, held_out)
    workers = min(n_runs, n_workers(X))
    memory = plan_blocks(
        X,
        n_targets=Y.shape[1],
        n_problems=len(problems),
        weighted=sample_weight is not None,
        block_size=block_size,
        budget=memory_budget,
        n_parallel=workers,
    )
    # Products are in the precision of the kernel, as the blocks are.
    operator = KernelOperator(
        kernel, X, memory_budget=memory.operator, keep="rows", widen=False
    )
    rngs = [rng] if n_runs == 1 else _children(rng, n_runs)
    stop = threading.Event()

    def make_run(k: int) -> _Run:
        setting = Setting(C, memory.block_size, rngs[k], safeguard)
        systems = [
            RANDOMIZED[solver](operator, p, setting, None if i else start)
            for i, p in enumerate(problems)
        ]
        return _Run(systems, Recorder(watch or Watch(), k), max_iter, tol, stop)

    runs = [make_run(k) for k in range(n_runs)]
    try:
        _run_all(runs, workers)
    except KeyboardInterrupt:
        stepped = [run.models()[0] for run in runs if run.residuals]
        best = Start(*_mean(stepped)) if stepped else None
        raise Interrupted(best) from None
    return _average(runs, operator, solver, held_out, memory.block_size)


def _children(rng: np.random.Generator, n_runs: int) -> list[np.random.Generator]:
    return [np.random.default_rng(int(rng.integers(2**63))) for _ in range(n_runs)]


def _run_all(runs: list["_Run"], workers: int) -> None:
    """Run each, one after the other or in threads; Ctrl-C ends all after their step."""
    if workers == 1:
        for run in runs:
            run.to_the_end()
        return
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(run.to_the_end) for run in runs]
        try:
            for future in futures:
                future.result()
        except BaseException:
            runs[0].stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def draw_blocks(
    n: int, per_pass: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield blocks of nearly one size, of a new permutation of n rows in every pass.

    No row is left over; the paper leaves out the remainder.
    """
    cuts = np.linspace(0, n, per_pass + 1).astype(np.intp)[1:-1]
    while True:
        yield from np.split(rng.permutation(n), cuts)


class _Run:
    """One run: its systems, where they stand, and when it ends."""

    def __init__(
        self,
        systems: list[System],
        recorder: Recorder,
        max_iter: int,
        tol: float,
        stop: threading.Event,
    ) -> None:
        self.systems, self.recorder = systems, recorder
        self.max_iter, self.tol, self.stop = max_iter, tol, stop
        first = systems[0]
        self.known, self.n = first.knows_residual, first.operator.shape[0]
        self.per_pass = -(-self.n // first.setting.block_size)
        self.states = self.best = [system.begin() for system in systems]
        self.residuals: list[float] = []
        self.changes: list[float] = []
        self.n_fallbacks, self.reason = 0, ""

    def to_the_end(self) -> None:
        """Take steps until a rule says stop."""
        rng = self.systems[0].setting.rng
        blocks = draw_blocks(self.n, self.per_pass, rng)
        while not self.reason and not self.stop.is_set():
            results = self._step(next(blocks))
            asked = self._take(results)
            self.reason = self._reason() or ("callback" if asked else "")

    def _step(self, drawn: np.ndarray) -> list[StepResult]:
        """Step each system with the same block of the kernel."""
        first, last = self.systems[0], len(self.systems) - 1
        E, rows = draw_block(first.operator, drawn)
        C = first.setting.C
        results = []
        for k, system in enumerate(self.systems):
            block = theta_block(E, rows, system.targets, C, overwrite=k == last)
            results.append(system.step(block, self.states[k]))
        return results

    def _take(self, results: list[StepResult]) -> bool:
        """Store the results of a step; return whether the watch asks for the end."""
        before, states = self.states[0]["W"], [result.state for result in results]
        self.residuals.append(max(result.residual for result in results))
        self.changes.append(_change(before, states[0]["W"]))
        self.n_fallbacks += any(result.fallback for result in results)
        self.states = states
        if not self.known or self.residuals[-1] <= min(self.residuals):
            self.best = states
        return self.recorder.record(
            len(self.residuals),
            results[0].residual,
            self.changes[-1],
            lambda: self.systems[0].coefficients(states[0]),
        )

    def _reason(self) -> str:
        """Return why to stop, or an empty text."""
        first, step = self.systems[0], len(self.residuals)
        if self.known and self.error() <= self.tol:
            return "residual"
        if first.one_pass and step >= self.per_pass:
            return "complete"
        if step > self.per_pass and self._stalled(first):
            return "no change"
        return "max_iter" if step >= self.max_iter else ""

    def _stalled(self, first: System) -> bool:
        """Return whether a whole pass has brought no significant change."""
        if not self.known:
            return max(self.changes[-self.per_pass :]) <= self.tol
        if first.may_rise:
            return False
        before, now = self.residuals[-1 - self.per_pass], self.residuals[-1]
        return abs(before - now) <= self.tol * before

    def error(self) -> float:
        """Return the residual of all rows: known, or the largest of the last pass."""
        if self.known:
            return min(self.residuals)
        return max(self.residuals[-self.per_pass :])

    def models(self) -> list[tuple[Array, Array]]:
        """Return the coefficients a and b of each system, of the best step."""
        pairs: zip[tuple[System, State]] = zip(self.systems, self.best, strict=True)
        return [system.coefficients(state) for system, state in pairs]


def _change(old: Array, new: Array) -> float:
    """Return ‖new − old‖ / ‖new‖."""
    xp = array_namespace(new)
    size = float(xp.linalg.vector_norm(new))
    return float(xp.linalg.vector_norm(new - old)) / size if size > 0 else 0.0


def _average(
    runs: list[_Run], operator: KernelOperator, solver: str, held_out, step: int
) -> RandomizedResult:
    """Average the weights of the runs (eq. 68); decide on held-out rows with them."""
    every = [run.models() for run in runs]
    models = [_mean(list(found)) for found in zip(*every, strict=True)]
    unseen = None
    if held_out is not None:
        a, b = models[1]
        parts = [held_out[k : k + step] for k in range(0, len(held_out), step)]
        values = [block_product(operator.rows(rows), a) + b[None, :] for rows in parts]
        unseen = array_namespace(a).concat(values, axis=0)
    worst = max(runs, key=lambda run: run.error())
    info = SolveInfo(
        solver,
        n_iter=max(len(run.residuals) for run in runs),
        backward_error=worst.error(),
        converged=all(r.reason in ("residual", "no change", "complete") for r in runs),
        stop=worst.reason,
        n_fallbacks=sum(run.n_fallbacks for run in runs),
    )
    solution = LSSVMSolution(*models[0], unseen, info)
    return RandomizedResult(solution, history_of([run.recorder for run in runs]))


def _mean(models: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    total_a, total_b = models[0]
    for a, b in models[1:]:
        total_a, total_b = total_a + a, total_b + b
    return total_a / len(models), total_b / len(models)
