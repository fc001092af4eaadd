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

import functools
import math

import numpy as np

from kaucus.backend import (
    NotPositiveDefiniteError,
    astype,
    dtype_name,
    generator_from,
    is_sparse,
    itemsize,
    products_in,
    resolve_budget,
    to_numpy,
)
from kaucus.estimators._base import indefinite_kernel
from kaucus.estimators._kernel_input import (
    beside,
    fitting_rows,
    in_precision_of,
    map_rows,
    on_device,
)
from kaucus.estimators._kmeans_kernel_growth import Growth, most_representatives
from kaucus.estimators._kmeans_kernel_kept import KeptRows, Stream
from kaucus.estimators._kmeans_kernel_tuning import better_C
from kaucus.estimators._progress import share_reporter
from kaucus.estimators._validation import left_out_shares
from kaucus.representatives import Representatives, speak_for
from kaucus.solvers import LSSVMSolution, RowData, add_rows, solve_running

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
# Rows whose leave-one-out values are asked for.
_UNSEEN_ROWS = 2000


class StreamMixin:
    """``partial_fit`` of the k-means kernel estimators.

    They give ``_learn`` (a fit of given rows), ``_as_targets`` (targets as the columns
    of a least squares), ``_groups_of`` (of targets: classes, or all in one),
    ``_judged`` (weights, with those of classes), ``_loss`` (of leave-one-out values)
    and ``_store_running``.
    """

    def _take_in(self, X, targets, weight):
        """Learn from a part of the rows; the model so far stays where that fails."""
        before = getattr(self, "_stream", None) or self._begin(X, targets)
        weight = np.ones(len(targets)) if weight is None else weight
        rows = X if is_sparse(X) else to_numpy(X)
        part = KeptRows(rows, targets, weight, before.rng.random(len(targets)))
        stream = before._replace(
            n_seen=before.n_seen + len(targets),
            total=before.total + weight.sum(),
            groups=before.groups + self._count_groups(targets),
        )
        take = self._choose_anew if self._is_due(X, stream) else self._go_on
        self._stream = take(X, stream, part)
        return self

    def _begin(self, X, targets) -> Stream:
        """Return a stream of no rows, or one that begins with the model of a fit."""
        rng = generator_from(self.random_state)
        if hasattr(self, "representatives_"):
            return self._begin_with_model(X, rng)
        rows = X[:0] if is_sparse(X) else to_numpy(X[:0, :])
        nothing = KeptRows(rows, targets[:0], np.empty(0), np.empty(0))
        none = self._count_groups(targets[:0])
        return Stream(nothing, 0, 0.0, none, rng, all_kept=True)

    def _begin_with_model(self, X, rng) -> Stream:
        """Return a stream in which representatives are the rows seen so far."""
        chosen, targets = self._so_far(X)
        n, weight = len(chosen.weights), chosen.weights
        labels = self._targets_of(chosen, targets)
        points = on_device(chosen.points, self.device)
        data = self._row_data(points, points, targets, self._judged(weight, labels))
        sums, _ = add_rows(data, points, memory_budget=self.memory_budget)
        groups = self._count_groups(labels)
        return Stream(
            KeptRows(to_numpy(chosen.points), labels, weight, rng.random(n)),
            n,
            weight.sum(),
            groups,
            rng,
            all_kept=False,
            n_chosen=n,
            n_tuned=n,
            # Not every row of theirs is a representative.
            groups_chosen=groups + (groups > 0),
            sums=sums.on_host(),
            precision=dtype_name(X),
        )

    def _so_far(self, X) -> tuple[Representatives, np.ndarray]:
        """Return the representatives, and targets that speak for the model.

        Least squares of the representatives alone, with targets t and weights W, have
        the solution a, b if K (W (K a + b − t) + a / C) = 0 and 1ᵀ W (K a + b − t) = 0.
        Both hold for t = f(Z) + W⁻¹ a / C where 1ᵀ a = 0, as in a machine of all rows,
        whose targets these are. Else the mean of W⁻¹ a is taken off, for the second.
        """
        coef = to_numpy(self.dual_coef_).astype(np.float64)
        chosen = self._representatives_like(X)
        now = map_rows(
            self._values_on_device,
            self.representatives_,
            self.device,
            self.memory_budget,
        )
        weight = self._judged(chosen.weights, chosen.labels)
        pull = coef / np.where(weight > 0, weight, np.inf)[:, None]
        pull = (pull - coef.sum(axis=0) / weight.sum()) / self.C_
        return chosen, to_numpy(now).astype(np.float64) + pull

    def _representatives_like(self, X) -> Representatives:
        """Return what earlier rows have left behind, in the kind of ``X``."""
        weights = to_numpy(self.representative_weights_).astype(np.float64)
        points = in_precision_of(self.representatives_, X)
        labels = self._representative_groups()
        return Representatives(points, labels, weights, self.n_iter_, 0, True)

    def _count_groups(self, targets) -> np.ndarray:
        return np.bincount(self._groups_of(targets), minlength=self._n_groups)

    def _is_due(self, X, stream: Stream) -> bool:
        """Tell whether the model is to be chosen anew."""
        if stream.groups_chosen is None:
            return True
        last = stream.n_seen > self._most_kept(X)  # rows will be gone
        wanted = _ANEW_FEW if last else _ANEW
        if stream.all_kept and stream.n_seen >= wanted * stream.n_chosen:
            return True
        # Groups of which every row was a representative, or which were a smaller share.
        then, now = stream.groups_chosen, stream.groups
        have = np.bincount(self._representative_groups(), minlength=self._n_groups)
        rose = now * stream.n_chosen >= _ANEW * then * stream.n_seen
        wanted = _ANEW_FEW if stream.all_kept else _ANEW
        many = (now - then >= _FEW_ROWS) | (then == 0)
        more = many & (now >= np.maximum(wanted * then, 1))
        return bool(np.any(((have >= then) | rose) & more))

    def _most_kept(self, X) -> int:
        """Return how many rows are kept."""
        budget = resolve_budget(self.memory_budget, X)
        if isinstance(self.n_representatives, str):
            wanted = _KEPT_OPEN * most_representatives(self.target, budget)
        else:
            wanted = _KEPT_EACH * self._n_wanted
        room = budget // _KEPT_SHARE // (itemsize(X) * X.shape[1])
        return max(min(max(wanted, _LEAST_KEPT), room), 1)

    def _for_good(self, growth: Growth, rows) -> Growth:
        """Return what is added: as much as may be, where more rows come than are kept.

        How many representatives help is not told by the first of many rows.
        """
        if rows.shape[0] <= self._most_kept(rows):
            return growth
        return growth._replace(least_gain=-math.inf)

    def _choose_anew(self, X, stream: Stream, part: KeptRows) -> Stream:
        """Fit the rows kept and the new ones; of very many, a sample."""
        before, n_most = stream.kept, self._most_kept(X)
        if not stream.all_kept:
            before = before.scaled(stream.total - part.weight.sum())
        kept = before.and_then(part)
        few = kept.sample(2 * n_most) if self._keeps_equations else kept
        tune = stream.n_seen >= _ANEW * stream.n_tuned or not stream.all_kept
        weight = few.scaled(stream.total).weight
        weight = None if np.all(weight == 1) else weight
        self._learn(beside(X, few.rows), few.targets, weight, stream=True, tune=tune)
        stream = stream._replace(
            kept=kept,
            n_chosen=stream.n_seen,
            n_tuned=stream.n_seen if tune else stream.n_tuned,
            n_C=0,
            groups_chosen=stream.groups,
            sums=None,
            precision=self._precision_of_columns(X),
        )
        if stream.all_kept and len(kept.keys) <= n_most:
            return stream
        stream = stream._replace(kept=kept.sample(n_most), all_kept=False)
        if not self._keeps_equations:
            return stream
        sums, interrupted = self._add(X, stream, kept, None)
        chosen = self._representatives_like(X)
        share = stream.total / chosen.weights.sum()  # where it was a sample
        chosen = chosen._replace(weights=chosen.weights * share)
        stream = stream._replace(sums=sums.on_host())
        return self._solve_running(X, stream, chosen, sums, interrupted)

    def _go_on(self, X, stream: Stream, part: KeptRows) -> Stream:
        """Add the equations of new rows to those of the others, and solve."""
        before = stream.sums
        if before is None:
            before, _ = self._add(X, stream, stream.kept, None)
        sums, interrupted = self._add(X, stream, part, before)
        kept, n_most = stream.kept.and_then(part), self._most_kept(X)
        stream = stream._replace(
            kept=kept.sample(n_most),
            all_kept=stream.all_kept and len(kept.keys) <= n_most,
            sums=sums.on_host(),
        )
        chosen = speak_for(
            self._representatives_like(X),
            beside(X, part.rows),
            self._groups_of(part.targets),
            part.weight,
            metric=self.metric,
            memory_budget=self.memory_budget,
        )
        return self._solve_running(X, stream, chosen, sums, interrupted)

    def _add(self, X, stream: Stream, part: KeptRows, before):
        """Return the equations of the rows and of those before, and of an interrupt."""
        rows = fitting_rows(beside(X, part.rows), self.device, self.memory_budget)
        points = self._points(X, stream)
        weight = self._judged(part.weight, part.targets)
        targets = self._as_targets(part.targets)
        with products_in(self.precision):
            return add_rows(
                self._row_data(points, rows, targets, weight),
                points,
                before,
                memory_budget=self.memory_budget,
                callback=share_reporter(self.verbose, "row"),
            )

    def _solve_running(self, X, stream: Stream, chosen, sums, interrupted) -> Stream:
        """Solve for the coefficients, and store the model; C too, where it is due."""
        points = self._points(X, stream)
        due = not stream.all_kept and stream.n_seen >= _C_ANEW * stream.n_C
        tune = due and isinstance(self.C, str)
        some = stream.kept.sample(_UNSEEN_ROWS if tune or self._wants_unseen else 0)
        weight = self._judged(some.weight, some.targets)
        rows = on_device(beside(X, some.rows), self.device)
        targets, shares = self._as_targets(some.targets), left_out_shares(some.weight)
        data = self._row_data(points, rows, targets, weight, shares)

        def solve(C: float) -> LSSVMSolution:
            loo_rows = np.arange(len(some.keys))
            return solve_running(
                data, points, sums, C=C, loo_rows=loo_rows, interrupted=interrupted
            )

        try:
            with products_in(self.precision):
                solution = solve(self.C_)
                if tune:
                    loss = functools.partial(self._loss, some.targets, weight)
                    self.C_, solution = better_C(solve, loss, self.C_, solution)
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, self.C_) from error
        self._report_least_squares(solution.info)
        self._store_running(X, chosen, solution, some, weight)
        return stream._replace(n_C=stream.n_seen if tune else stream.n_C)

    def _points(self, X, stream: Stream):
        """Return the representatives where the work is, as the equations have them."""
        points = on_device(in_precision_of(self.representatives_, X), self.device)
        return astype(points, stream.precision)

    def _row_data(self, points, rows, targets, weight, shares=None) -> RowData:
        return RowData(
            self.kernel_,
            astype(rows, dtype_name(points)),
            beside(points, targets),
            beside(points, weight),
            beside(points, shares),
        )

    def _precision_of_columns(self, X) -> str:
        """Return the precision in which the kernel's columns have to be."""
        info = self.solve_info_
        wide = info.solver == "normal_equations" and info.precision == "float64"
        return "float64" if wide else dtype_name(X)
