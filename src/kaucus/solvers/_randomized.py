"""Solve the LS-SVM system by a randomized solver, in one run or the mean of several.

Several runs differ by their blocks alone. As the system is linear and the kernel the
same, their models are averaged by their weights (Andrecut 2016, eq. 67-68).
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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
from kaucus.solvers._checkpoint import fingerprint
from kaucus.solvers._result import LSSVMSolution, Watch, history_of
from kaucus.solvers._run import Rules, Run, run_blocks
from kaucus.solvers._scaling import scale_problems
from kaucus.solvers._systems import RANDOMIZED, Setting, Start, block_product


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
    problems = scale_problems(Y, sample_weight, held_out)
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
    rules = Rules(solver, max_iter, tol, watch or Watch())
    if checkpoint is not None:
        marks = fingerprint(
            kernel,
            X,
            y=Y,
            sample_weight=sample_weight,
            C=float(C),
            solver=solver,
            block_size=memory.block_size,
            n_runs=n_runs,
            random_state=rng.bit_generator.state,
            probability=held_out,
            warm_start=None if start is None else start.dual_coef,
        )
        rules = rules._replace(checkpoint=Path(checkpoint), fingerprint=marks)
    generators = [rng] if n_runs == 1 else _children(rng, n_runs)
    stop = threading.Event()

    def run(k: int) -> Run:
        setting = Setting(C, memory.block_size, generators[k], safeguard)
        systems = [
            RANDOMIZED[solver](operator, p, setting, None if i else start)
            for i, p in enumerate(problems)
        ]
        own = _rules_of(rules, k, n_runs)
        return run_blocks(k, systems, operator, setting, own, stop)

    if workers == 1:
        runs = _in_turn(run, n_runs)
    else:
        runs = _in_parallel(run, n_runs, workers, stop)
    return _average(runs, operator, held_out, memory.block_size)


def _children(rng: np.random.Generator, n_runs: int) -> list[np.random.Generator]:
    return [np.random.default_rng(int(rng.integers(2**63))) for _ in range(n_runs)]


def _rules_of(rules: Rules, run: int, n_runs: int) -> Rules:
    """Give each of several runs a checkpoint of its own."""
    if rules.checkpoint is None or n_runs == 1:
        return rules
    path = rules.checkpoint
    return rules._replace(checkpoint=path.with_name(f"{path.name}.run{run}"))


def _in_parallel(run, n_runs: int, workers: int, stop: threading.Event) -> list[Run]:
    """Run in threads; Ctrl-C ends every run after its step, and begins no other."""
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(run, k) for k in range(n_runs)]
        try:
            return [future.result() for future in futures]
        except BaseException as error:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            if not isinstance(error, KeyboardInterrupt):
                raise
    ended = [f for f in futures if not f.cancelled() and f.exception() is None]
    return _cut_short([future.result() for future in ended])


def _in_turn(run, n_runs: int) -> list[Run]:
    """Run one after the other; Ctrl-C ends a run after its step, and begins no other.

    On a GPU, or with one thread.
    """
    runs: list[Run] = []
    try:
        while len(runs) < n_runs:
            runs.append(run(len(runs)))
            if runs[-1].info.interrupted:
                return _cut_short(runs)
    except KeyboardInterrupt:
        return _cut_short(runs)
    return runs


def _cut_short(runs: list[Run]) -> list[Run]:
    """Return the runs to keep after Ctrl-C, which is raised where there are none.

    Those that had ended, if there are any: weights of a few steps would spoil their
    mean. The last one tells of Ctrl-C.
    """
    if not runs:
        raise KeyboardInterrupt
    *others, last = [r for r in runs if r.info.stop != "interrupted"] or runs
    info = last.info._replace(interrupted=True, converged=False)
    return [*others, last._replace(info=info)]


def _average(runs: list[Run], operator, held_out, step: int) -> RandomizedResult:
    """Average the weights of the runs (eq. 68), and judge unseen rows with them."""
    models = [
        _mean([run.systems[k].coefficients(run.states[k]) for run in runs])
        for k in range(len(runs[0].systems))
    ]
    unseen = None
    if held_out is not None:
        parts = [held_out[k : k + step] for k in range(0, len(held_out), step)]
        values = [_decide(operator, rows, *models[1]) for rows in parts]
        unseen = array_namespace(values[0]).concat(values, axis=0)
    worst = max((run.info for run in runs), key=lambda info: info.backward_error)
    info = worst._replace(
        n_iter=max(run.info.n_iter for run in runs),
        converged=all(run.info.converged for run in runs),
        n_fallbacks=sum(run.info.n_fallbacks for run in runs),
    )
    if any(run.info.interrupted for run in runs):
        info = info._replace(interrupted=True, stop="interrupted")
    solution = LSSVMSolution(*models[0], unseen, info)
    return RandomizedResult(solution, history_of([run.recorder for run in runs]))


def _mean(models: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    total_a, total_b = models[0]
    for a, b in models[1:]:
        total_a, total_b = total_a + a, total_b + b
    return total_a / len(models), total_b / len(models)


def _decide(operator: KernelOperator, rows: np.ndarray, a: Array, b: Array) -> Array:
    """Return the decision values of some training rows, (m, t), in their order."""
    return block_product(operator.rows(rows), a) + b[None, :]
