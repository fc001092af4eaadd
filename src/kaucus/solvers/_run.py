"""One run of a randomized solver: draw blocks, take steps, stop, save.

A run draws blocks of rows without replacement, pass after pass. Each block of the
kernel is made once and serves every problem: the model, and, where decision values of
unseen rows are wanted, a second one with the weight 0 for some rows (``_cg``).
"""

import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import Array, array_namespace, as_like
from kaucus.kernels import KernelOperator
from kaucus.solvers._checkpoint import (
    Fingerprint,
    Layout,
    Snapshot,
    Taken,
    load_checkpoint,
    remove_leftovers,
    save_checkpoint,
)
from kaucus.solvers._result import Recorder, SolveInfo, Watch
from kaucus.solvers._systems import (
    Setting,
    State,
    StepResult,
    System,
    draw_block,
    theta_block,
)

# Steps between two checkpoints.
_CHECKPOINT_STEPS = 5


class Rules(NamedTuple):
    """When a run stops, who watches it, and where it is saved."""

    solver: str
    max_iter: int
    tol: float
    watch: Watch
    checkpoint: Path | None = None
    fingerprint: Fingerprint | None = None


class BlockSampler:
    """Cuts random permutations of n rows into blocks, and shuffles anew when through.

    Parameters
    ----------
    n : int
    block_size : int
        The largest block. A pass has ⌈n / block_size⌉ blocks, all of nearly one size,
        so that no row is left over (the paper leaves out the remainder).
    rng : numpy.random.Generator
    """

    def __init__(self, n: int, block_size: int, rng: np.random.Generator) -> None:
        self.blocks_per_pass = -(-n // block_size)
        self.rng = rng
        self._n = n
        self._order = np.arange(n)
        self._position = self.blocks_per_pass  # through: the first draw shuffles

    def draw(self) -> np.ndarray:
        """Return the rows of the next block."""
        if self._position == self.blocks_per_pass:
            self._order, self._position = self.rng.permutation(self._n), 0
        cuts = np.linspace(0, self._n, self.blocks_per_pass + 1).astype(np.intp)
        start, stop = cuts[self._position], cuts[self._position + 1]
        self._position += 1
        return self._order[start:stop]

    def state(self) -> dict[str, Any]:
        """Return what :meth:`restore` needs."""
        return {
            "order": self._order,
            "position": self._position,
            "generator": self.rng.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where :meth:`state` was asked."""
        self._order, self._position = state["order"], state["position"]
        self.rng.bit_generator.state = state["generator"]


class Run(NamedTuple):
    """Result of one run."""

    states: list[State]
    systems: list[System]
    recorder: Recorder
    info: SolveInfo


class _Job(NamedTuple):
    """What all steps of a run use."""

    systems: list[System]
    sampler: BlockSampler
    operator: KernelOperator
    C: float
    rules: Rules
    layout: Layout
    recorder: Recorder


def run_blocks(
    number: int,
    systems: list[System],
    operator: KernelOperator,
    setting: Setting,
    rules: Rules,
    stop: threading.Event,
) -> Run:
    """Step through blocks until a rule says stop.

    Where the run stands is one object that is replaced as a whole: whenever Ctrl-C
    comes, what is kept, and saved, is what some number of whole steps has left.
    """
    sampler = BlockSampler(operator.shape[0], setting.block_size, setting.rng)
    shapes = [system.shapes for system in systems]
    keeps_best = systems[0].knows_residual
    layout = Layout(shapes, operator.shape[0], sampler.blocks_per_pass, keeps_best)
    here = _begin(systems, sampler, rules, layout)
    recorder = Recorder(rules.watch, number, [taken.row for taken in here.log])
    job = _Job(systems, sampler, operator, setting.C, rules, layout, recorder)
    reason = _reason(job, here)
    try:
        while not reason:
            if stop.is_set():
                raise KeyboardInterrupt  # which came in another thread
            here = _advance(job, here)
            asked = recorder.show(here.log[-1].row)
            reason = _reason(job, here) or ("callback" if asked else "")
            if here.step % _CHECKPOINT_STEPS == 0 or reason:
                _save(job, here)
    except KeyboardInterrupt:
        if here.step == 0:
            raise  # nothing to keep
        reason = "interrupted"
        _save(job, here)
    recorder.rows = [taken.row for taken in here.log]
    return Run(here.best, systems, recorder, _info(job, here, reason))


def _begin(systems, sampler: BlockSampler, rules: Rules, layout: Layout) -> Snapshot:
    """Return the state of the checkpoint, or the start."""
    snap = None
    if rules.checkpoint is not None and rules.fingerprint is not None:
        remove_leftovers(rules.checkpoint)
        snap = load_checkpoint(rules.checkpoint, rules.fingerprint, layout)
    if snap is None:
        states = [system.begin() for system in systems]
        return Snapshot(0, states, states, sampler.state(), [])
    sampler.restore(snap.sampler)
    like = systems[0].targets.u
    states, best = (
        [{name: as_like(v, like) for name, v in state.items()} for state in some]
        for some in (snap.states, snap.best)
    )
    return snap._replace(states=states, best=best)


def _save(job: _Job, here: Snapshot) -> None:
    rules = job.rules
    if rules.checkpoint is not None and rules.fingerprint is not None:
        save_checkpoint(rules.checkpoint, rules.fingerprint, job.layout, here)


def _advance(job: _Job, here: Snapshot) -> Snapshot:
    """Return the state after one more step; ``here`` is not changed."""
    results = _step_all(job, here.states)
    states, step = [result.state for result in results], here.step + 1
    residual = max(result.residual for result in results)
    row = job.recorder.row_of(
        step,
        results[0].residual,
        _change(here.states[0]["W"], states[0]["W"]),
        lambda: job.systems[0].coefficients(states[0]),
    )
    taken = Taken(row, residual, any(result.fallback for result in results))
    log = [*here.log, taken]
    best = states if job.layout.best_step(log) == step else here.best
    return Snapshot(step, states, best, job.sampler.state(), log)


def _step_all(job: _Job, states: list[State]) -> list[StepResult]:
    """Take one step of each system with the same block of the kernel."""
    E, rows = draw_block(job.operator, job.sampler.draw())
    results = []
    for k, (system, state) in enumerate(zip(job.systems, states, strict=True)):
        last = k == len(job.systems) - 1
        block = theta_block(E, rows, system.targets, job.C, overwrite=last)
        results.append(system.step(block, state))
    return results


def _change(old: Array, new: Array) -> float:
    xp = array_namespace(new)
    size = float(xp.linalg.vector_norm(new))
    return float(xp.linalg.vector_norm(new - old)) / size if size > 0 else 0.0


# ---- when to stop --------------------------------------------------------------------


def _reason(job: _Job, here: Snapshot) -> str:
    """Return why to stop, or an empty text."""
    system, per_pass = job.systems[0], job.layout.blocks_per_pass
    if here.log and system.knows_residual and _residual(job, here) <= job.rules.tol:
        return "residual"
    if system.one_pass and here.step >= per_pass:
        return "complete"
    if here.step > per_pass and _stalled(job, here):
        return "no change"
    return "max_iter" if here.step >= job.rules.max_iter else ""


def _stalled(job: _Job, here: Snapshot) -> bool:
    """Tell whether a whole pass has brought no significant change."""
    tol, per_pass = job.rules.tol, job.layout.blocks_per_pass
    if not job.systems[0].knows_residual:
        return max(taken.row[4] for taken in here.log[-per_pass:]) <= tol
    if job.systems[0].may_rise:
        return False
    before, now = here.log[-1 - per_pass].residual, here.log[-1].residual
    return abs(before - now) <= tol * before


def _residual(job: _Job, here: Snapshot) -> float:
    """Return the residual of all rows: known, or the largest of the last pass."""
    if job.systems[0].knows_residual:
        return min(taken.residual for taken in here.log)
    return max(taken.residual for taken in here.log[-job.layout.blocks_per_pass :])


def _info(job: _Job, here: Snapshot, reason: str) -> SolveInfo:
    return SolveInfo(
        job.rules.solver,
        n_iter=here.step,
        backward_error=_residual(job, here) if here.log else 1.0,
        converged=reason in ("residual", "no change", "complete"),
        interrupted=reason == "interrupted",
        stop=reason,
        n_fallbacks=sum(taken.fallback for taken in here.log),
    )
