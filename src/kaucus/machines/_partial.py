"""Rows that come in parts: what is kept of them, and when a model is chosen anew.

As long as there are few rows, all are kept. The model is chosen anew from them, kernel,
C and representatives, whenever there are twice as many as at the last choice: together
that costs about two fits. In between, and for good when there are too many rows to be
kept, the representatives stay, and the normal equations of all rows seen are kept: the
coefficients are those of one fit of all rows on these representatives.

Of many rows a random sample is kept: for the temperature of probabilities, and for a
class whose rows come late. Such a class has no representatives, and nothing is known of
their kernel at rows that are gone; then the model is chosen anew from the sample, which
has the weight of all rows.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    as_like,
    astype,
    concat_rows,
    dtype_name,
    itemsize,
    products_in,
    resolve_budget,
    to_numpy,
)
from kaucus.kernels import Kernel
from kaucus.machines._problem import (
    UNSEEN_ROWS,
    Model,
    Plan,
    Problem,
    calibrated,
    errors_at,
    unseen_values,
)
from kaucus.machines._represented import fit_represented, refit_moved
from kaucus.machines._sizes import OPEN_REPRESENTATIVES, most_representatives
from kaucus.machines._stream import KeptRows, Stream, as_rows
from kaucus.machines._targets import Targets
from kaucus.machines._tuning import Tuning, better_C
from kaucus.representatives import represent_classes, speak_for
from kaucus.solvers import LSSVMSolution, RowData, RunningSums, add_rows, solve_running

# Rows that are kept: at least, for each representative that is asked for, and for each
# of the most that there may be. No more than an eighth of the memory budget.
_LEAST_KEPT, _KEPT_EACH, _KEPT_OPEN = 10_000, 10, 2
_KEPT_SHARE = 8
# The model is chosen anew when there are so many times the rows of the last choice;
# where every row of a group was a representative, earlier, unless rows are gone. Fewer
# new rows of a group than this are no reason, unless they are its first.
_ANEW, _ANEW_FEW, _FEW_ROWS = 2.0, 1.5, 10
# C is looked at again, beside its neighbours, when there are so many times the rows.
_C_ANEW = 1.25


class PartialFit(NamedTuple):
    """How parts of the rows are taken in."""

    plan: Plan
    """Its kernels are not used."""
    kernels: Callable[[Array, np.ndarray | None], Sequence[Sequence[Kernel]]]
    """Returns the kernels to choose from, of rows and weights; see ``Plan``."""
    targets: Targets
    """Of any rows; tells their kind."""
    place: Callable[[Array], Array]
    """Brings rows of the host to where the work is."""
    make_rng: Callable[[], np.random.Generator]
    """Draws for a choice of the model."""

    # ---- a stream begins -------------------------------------------------------------

    def begin(self, rows: Array, targets: np.ndarray, rng) -> Stream:
        """Return a stream of no rows; those given tell their kind."""
        nothing = KeptRows(rows[:0], targets[:0], np.empty(0), np.empty(0))
        groups, unit = self._count(targets[:0]), self.targets.unit
        return Stream(nothing, 0, 0.0, groups, rng, all_kept=True, unit=unit)

    def begin_with(self, model: Model, rng) -> Stream:
        """Return a stream in which the model's representatives are the rows seen."""
        chosen, columns = as_rows(model, self.targets, self.plan.memory_budget)
        points, weight, n = chosen.points, chosen.weights, len(chosen.weights)
        numbers = chosen.labels if self.targets.n_groups > 1 else columns
        groups = self._count(numbers)
        stream = Stream(
            KeptRows(to_numpy(points), numbers, weight, rng.random(n)),
            n,
            weight.sum(),
            groups,
            rng,
            all_kept=False,
            n_chosen=n,
            n_tuned=n,
            # Not every row of theirs is a representative.
            groups_chosen=groups + (groups > 0),
            precision=dtype_name(points),
            unit=self.targets.unit,
        )
        if self.plan.fit_on == "representatives":
            return stream
        fit_weight = self.targets.like(numbers).fit_weights(weight)
        data = _row_data(model, points, points, columns, fit_weight)
        sums = add_rows(data, points, memory_budget=self.plan.memory_budget)
        return stream._replace(sums=sums.on_host())

    # ---- a part comes ----------------------------------------------------------------

    def take_in(
        self, stream: Stream, model: Model | None, rows: Array, targets, weight
    ) -> tuple[Model, Stream]:
        """Learn from a part of the rows, which are on the host.

        Parameters
        ----------
        stream : Stream
        model : Model or None
            Of the earlier rows; its points are where the work is.
        rows, targets, weight
            Of the part.

        Returns
        -------
        model, stream
        """
        part = KeptRows(rows, targets, weight, stream.rng.random(len(targets)))
        stream = stream._replace(
            n_seen=stream.n_seen + len(targets),
            total=stream.total + weight.sum(),
            groups=stream.groups + self._count(targets),
        )
        if model is None or self._is_due(stream, model, rows):
            return self._choose_anew(stream, model, part)
        if self.plan.fit_on == "representatives":
            return self._move(stream, model, part)
        return self._go_on(stream, model, part)

    def _count(self, targets: np.ndarray) -> np.ndarray:
        of_rows = self.targets.like(targets)
        return np.bincount(of_rows.groups(), minlength=of_rows.n_groups)

    def _is_due(self, stream: Stream, model: Model, rows: Array) -> bool:
        """Tell whether the model is to be chosen anew."""
        if stream.groups_chosen is None:
            return True
        if self.plan.fit_on == "representatives" and not stream.all_kept:
            return False  # those that move need no rows but their own class's
        last = stream.n_seen > self.most_kept(rows)  # rows will be gone
        wanted = _ANEW_FEW if last else _ANEW
        if stream.all_kept and stream.n_seen >= wanted * stream.n_chosen:
            return True
        # Groups of which every row was a representative, or which were a smaller share.
        then, now = stream.groups_chosen, stream.groups
        have = np.bincount(_group_numbers(self, model), minlength=len(now))
        rose = now * stream.n_chosen >= _ANEW * then * stream.n_seen
        wanted = _ANEW_FEW if stream.all_kept else _ANEW
        many = (now - then >= _FEW_ROWS) | (then == 0)
        more = many & (now >= np.maximum(wanted * then, 1))
        return bool(np.any(((have >= then) | rose) & more))

    def most_kept(self, rows: Array) -> int:
        """Return how many rows are kept."""
        budget, size = resolve_budget(self.plan.memory_budget, rows), self.plan.size
        if isinstance(size, str):
            wanted = _KEPT_OPEN * most_representatives(size, budget)
        else:
            wanted = _KEPT_EACH * int(np.sum(size))
        fit = budget // _KEPT_SHARE // (itemsize(rows) * rows.shape[1])
        return max(min(max(wanted, _LEAST_KEPT), fit), 1)

    def _choose_anew(self, stream: Stream, model: Model | None, part: KeptRows):
        """Fit the rows kept and the new ones; of very many, a sample."""
        before, n_most = stream.kept, self.most_kept(part.rows)
        if not stream.all_kept:
            before = before.scaled(stream.total - part.weight.sum())
        kept = before.joined(part)
        keeps_equations = self.plan.fit_on != "representatives"
        few = kept.sample(2 * n_most) if keeps_equations else kept
        tunes = stream.n_seen >= _ANEW * stream.n_tuned or not stream.all_kept
        problem = self._problem(few.scaled(stream.total))
        tuned = None if tunes or model is None else Tuning(*model[:3])
        plan = self.plan._replace(
            kernels=[] if tuned else self.kernels(few.rows, problem.fit_weight),
            streamed=True,
            # How many representatives help is not told by the first of many rows.
            grows_fully=len(few.keys) > n_most,
        )
        model = fit_represented(problem, plan, self.make_rng(), tuned=tuned)
        stream = stream._replace(
            kept=kept,
            n_chosen=stream.n_seen,
            n_tuned=stream.n_seen if tunes else stream.n_tuned,
            n_C=0,
            groups_chosen=stream.groups,
            sums=None,
            precision=_precision_of_columns(model, part.rows),
        )
        if stream.all_kept and len(kept.keys) <= n_most:
            return model, stream
        stream = stream._replace(kept=kept.sample(n_most), all_kept=False)
        if not keeps_equations:
            return model, stream
        sums = self._add(model, stream, kept, None)
        chosen = model.representatives
        share = stream.total / chosen.weights.sum()  # where it was a sample
        chosen = chosen._replace(weights=chosen.weights * share)
        model = model._replace(representatives=chosen)
        stream = stream._replace(sums=sums.on_host())
        return self._solve(stream, model, sums)

    def _go_on(self, stream: Stream, model: Model, part: KeptRows):
        """Add the equations of new rows to those of the others, and solve."""
        before = stream.sums
        if before is None:
            before = self._add(model, stream, stream.kept, None)
        sums = self._add(model, stream, part, before)
        stream = self._with_part(stream, part)._replace(sums=sums.on_host())
        chosen = speak_for(
            model.representatives,
            self.place(part.rows),
            self.targets.like(part.targets).groups(),
            part.weight,
            metric=self.plan.kmeans.metric,
            memory_budget=self.plan.memory_budget,
        )
        model = model._replace(representatives=chosen)
        return self._solve(stream, model, sums)

    def _with_part(self, stream: Stream, part: KeptRows) -> Stream:
        """Return the stream with as many of the new rows as are kept."""
        kept, n_most = stream.kept.joined(part), self.most_kept(part.rows)
        all_kept = stream.all_kept and len(kept.keys) <= n_most
        return stream._replace(kept=kept.sample(n_most), all_kept=all_kept)

    def _problem(self, kept: KeptRows) -> Problem:
        weight = None if np.all(kept.weight == 1) else kept.weight
        targets = self.targets.like(kept.targets)
        return Problem.of(self.place(kept.rows), targets, weight)

    def _add(self, model: Model, stream: Stream, part: KeptRows, before):
        """Add rows to the running normal equations."""
        targets = self.targets.like(part.targets)
        points = astype(model.representatives.points, stream.precision)
        data = _row_data(
            model,
            points,
            self.place(part.rows),
            targets.columns(),
            targets.fit_weights(part.weight),
        )
        with products_in(self.plan.precision):
            return add_rows(
                data,
                points,
                before,
                memory_budget=self.plan.memory_budget,
                callback=self.plan.progress("row"),
            )

    def _solve(self, stream: Stream, model: Model, sums: RunningSums):
        """Solve for the coefficients, and choose C again when it is due."""
        plan = self.plan
        points = astype(model.representatives.points, stream.precision)
        due = not stream.all_kept and stream.n_seen >= _C_ANEW * stream.n_C
        tunes = due and len(plan.Cs) > 1
        wanted = tunes or plan.calibrates or plan.moves_intercept
        some = stream.kept.sample(UNSEEN_ROWS)
        problem = Problem.of(
            self.place(some.rows), self.targets.like(some.targets), some.weight
        )
        data = _row_data(
            model,
            points,
            problem.rows,
            problem.targets.columns(),
            problem.fit_weight,
        )
        every = np.arange(problem.n)
        loo_rows = every if wanted else None

        def solve(C: float) -> LSSVMSolution:
            return solve_running(data, points, sums, C=C, loo_rows=loo_rows)

        def loss(values: Array) -> float:
            return -problem.targets.score(to_numpy(values), problem.fit_weight, every)

        C = model.C
        with errors_at(C), products_in(plan.precision):
            solution = solve(C)
            if tunes:
                C, solution = better_C(solve, loss, C, solution)
        model = model._replace(C=C, solution=solution, fit_rows=None, unseen=None)
        if wanted:
            unseen = unseen_values(solution.loo_decision, problem, every)
            model = model._replace(unseen=unseen)
        stream = stream._replace(n_C=stream.n_seen if tunes else stream.n_C)
        return calibrated(model, problem, plan, stream.rng), stream

    def _move(self, stream: Stream, model: Model, part: KeptRows):
        """Cluster new rows together with the representatives, and solve for these."""
        rng, old = self.make_rng(), model.representatives
        size, n_classes = self.plan.size, self.targets.n_groups
        wanted = [OPEN_REPRESENTATIVES] * n_classes if isinstance(size, str) else size
        numbers = np.maximum(np.bincount(old.labels, minlength=n_classes), wanted)
        rows = self.place(part.rows)
        chosen = represent_classes(
            rows,
            part.targets,
            numbers.tolist(),
            options=self.plan.kmeans,
            sample_weight=part.weight,
            old=old,
            rng=rng,
            memory_budget=self.plan.memory_budget,
            callback=self.plan.progress(self.targets.clustered),
        )
        labels = np.concatenate([old.labels, part.targets])
        problem = Problem.of(
            self.place(concat_rows(to_numpy(old.points), part.rows)),
            self.targets.like(labels),
            np.concatenate([old.weights, part.weight]),
        )
        model = refit_moved(problem, self.plan, model, chosen, rng)
        return model, self._with_part(stream, part)


def _group_numbers(fit: PartialFit, model: Model) -> np.ndarray:
    """Return the group of each representative."""
    labels = model.representatives.labels
    return labels if fit.targets.n_groups > 1 else np.zeros_like(labels)


def _row_data(model: Model, points, rows, columns, weight) -> RowData:
    given = (as_like(columns, points), as_like(weight, points))
    return RowData(model.kernel, rows, *given)


def _precision_of_columns(model: Model, rows: Array) -> str:
    """Return the precision in which the kernel's columns have to be."""
    info = model.solution.info
    wide = info.solver == "normal_equations" and info.precision == "float64"
    return "float64" if wide else dtype_name(rows)
