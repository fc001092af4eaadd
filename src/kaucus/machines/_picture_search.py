"""What is left open in a machine for pictures, and how it is chosen.

Mirror images, threshold, cells and power; then γ and C: by the leave-one-out loss of
some of the training pictures, each in its turn, with the others as they are. Values
that are known to be good come first, and give way only to what is better by twice the
standard error of the difference.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    map_blocks,
    n_workers,
    on_gpu,
    take_rows,
    to_numpy,
)
from kaucus.kernels import add_gaussian, learn_distances
from kaucus.machines._folds import gains
from kaucus.machines._picture_plan import PicturePlan, features_for, make_parts
from kaucus.machines._problem import Problem
from kaucus.machines._targets import (
    ClassTargets,
    Targets,
    all_classes,
    of_rows,
    output_spread,
)
from kaucus.solvers import fit_temperature, softmax, solve_ls_svm

GAMMAS = (0.125, 0.25, 0.5, 1.0, 2.0)
CS = (10.0, 30.0, 100.0, 300.0, 1000.0)
# What is compared; the search begins with the first of each.
ALTERNATIVES = {
    "mirror": (False, True),
    "threshold": (1.0, 0.5, 1.5),
    "cells": (3, 4, 2),
    "power": (0.5, 0.35, 1.0),
}
FIRST_GAMMA, FIRST_C = 0.25, 100.0
# Standard errors by which an alternative must be better.
_ERRORS = 2.0
# Pictures and filters by which alternatives are compared; pictures for gamma and C.
# With few filters a low threshold looks better than it is in a model of many: more
# responses are above it. On a GPU there is time for as many as most models have.
_SEARCHED_CPU, _SEARCHED_GPU = (1000, 256, 2500), (6000, 3072, 10_000)


class Judge:
    """Leave-one-out losses of some of the pictures, and what is chosen by them."""

    def __init__(self, problem: Problem, plan: PicturePlan, budget: int, order):
        self.X, self.targets = problem.rows, problem.targets
        self.problem, self.plan = problem, plan
        self.budget, self.order = budget, order
        self.few, self.filters, self.many = (
            _SEARCHED_GPU if on_gpu(self.X) else _SEARCHED_CPU
        )
        # Three matrices: distances, the kernel and its factor, in float64 at most.
        most = max(math.isqrt(budget // 48), 20)
        self.few, self.many = (min(k, most, len(order)) for k in (self.few, self.many))
        self.results: list[dict] = []

    def structure(self) -> dict:
        """Choose mirror, threshold, cells and power, each in its turn."""
        chosen = {name: values[0] for name, values in self.plan.choices.items()}
        open_ones = {k: v for k, v in self.plan.choices.items() if len(v) > 1}
        if not open_ones:
            return chosen
        tell = _counter(self.plan, "alternative", open_ones)
        gamma = _nearest(self.plan.gammas, FIRST_GAMMA)
        # At the best of three C: at a fixed one, what is smoother would look better.
        Cs = sorted({_nearest(self.plan.Cs, FIRST_C / k) for k in (1, 3, 10)})
        rows = self.order[: self.few]
        weight = of_rows(self.problem.fit_weight, rows)
        X = take_rows(self.X, rows)
        some = slice(0, -(-self.filters // len(self.plan.banks)))
        banks = [bank.part(some) for bank in self.plan.banks]

        def losses(trial: dict) -> np.ndarray:
            how = features_for(self.plan, trial)
            parts = make_parts(banks, trial["cells"], self.plan.combine)
            options = {"budget": self.budget, "sample_weight": weight}
            D = [learn_distances(X, how, part, **options)[0] for part in parts]
            tell()
            found = self._losses(D, [(gamma, C) for C in Cs], trial)
            return min(found, key=lambda losses: np.average(losses, weights=weight))

        least = losses(chosen)
        for name, values in open_ones.items():
            for value in values[1:]:
                trial = {**chosen, name: value}
                if gains(least - (found := losses(trial)), weight, _ERRORS):
                    least, chosen = found, trial
        return chosen

    def width(self, distances: list[Array]) -> tuple[float, float]:
        """Choose γ and C by distances of pictures, the first of the order."""
        gammas, Cs = self.plan.gammas, self.plan.Cs
        gamma, C = _nearest(gammas, FIRST_GAMMA), _nearest(Cs, FIRST_C)
        if len(gammas) * len(Cs) == 1:
            return gamma, C
        n = min(self.many, distances[0].shape[0])
        D = [part[:n, :n] for part in distances]
        tell = _counter(self.plan, "pair of gamma and C", {"g": gammas, "C": Cs})
        known: dict[tuple[float, float], float] = {}

        def best(pairs) -> tuple[float, float]:
            new = [pair for pair in pairs if pair not in known]
            for pair, found in zip(new, self._losses(D, new, {}), strict=True):
                weight = of_rows(self.problem.fit_weight, self.order[:n])
                known[pair] = float(np.average(found, weights=weight))
                tell()
            return min(pairs, key=lambda pair: known[pair])

        _, C = best([(gamma, c) for c in Cs])
        return best([(g, C) for g in gammas])

    def _losses(self, D: list[Array], pairs, chosen: dict) -> Iterator[np.ndarray]:
        """Yield the leave-one-out losses of the first pictures, for each γ and C."""
        xp, rows = array_namespace(D[0]), self.order[: D[0].shape[0]]
        columns, fit_weight = self.targets.columns()[rows], self.problem.fit_weight
        weight = of_rows(fit_weight, rows)

        def left_out(pair: tuple[float, float]) -> np.ndarray:
            K, (gamma, C) = None, pair
            for part in D:
                K = add_gaussian(K, xp.asarray(part, copy=True), gamma, len(D))
            Y, n = as_like(columns, K), len(rows)
            options = {"n_leave_one_out": n, "overwrite_K": True}
            found = solve_ls_svm(K, Y, C=C, sample_weight=as_like(weight, K), **options)
            return to_numpy(found.loo_decision)

        # A thread for each: BLAS's own threads wait for each other by spinning.
        workers = min(n_workers(D[0]), len(pairs))
        found = map_blocks(left_out, pairs, workers=workers)
        for (gamma, C), values in zip(pairs, found, strict=True):
            losses = _row_losses(self.targets, values, rows, fit_weight)
            loss = float(np.average(losses, weights=weight))
            self.results.append({**chosen, "gamma": gamma, "C": C, "loss": loss})
            yield losses


def _row_losses(
    targets: Targets,
    values: np.ndarray,
    rows: np.ndarray,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return the loss of each row: log-loss of its class, or squared error.

    ``weight`` is of all rows of ``targets``.
    """
    if not isinstance(targets, ClassTargets):
        unit = output_spread(targets.values, weight)
        return np.mean(((values - targets.values[rows]) / unit) ** 2, axis=1)
    decision, labels = all_classes(values), targets.values[rows]
    temperature = fit_temperature(decision, labels, of_rows(weight, rows))
    p = softmax(decision, temperature)
    return -np.log(np.maximum(p[np.arange(len(rows)), labels], 1e-300))


def _nearest(values: Sequence[float], wanted: float) -> float:
    return min(values, key=lambda value: abs(math.log(value / wanted)))


def _counter(plan: PicturePlan, what: str, choices: dict) -> Callable[[], None]:
    """Return a function that counts one trial of a stage."""
    report, done = plan.progress(what), [0]
    total = 1 + sum(len(values) - 1 for values in choices.values())

    def tell() -> None:
        done[0] += 1
        if report is not None:
            report(min(done[0], total), total)

    return tell
