"""Least squares on representatives to which the hardest rows are added.

Where classes hardly overlap, the rows that matter are few and near the boundary, and
centres are not. So the columns of the first representatives are fitted, then the rows
that this fit finds hardest become representatives too, in a few rounds.

Nothing is computed twice: a round adds its own columns (``_grown_columns``).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    RowSource,
    array_namespace,
    as_like,
    astype,
    dense_rows,
    device_of,
    dtype_name,
    few_threads_for,
    resolve_budget,
    row_blocks,
    to_numpy,
)
from kaucus.kernels import Kernel
from kaucus.solvers._equations import RowData, solve_equations
from kaucus.solvers._grown_columns import (
    BlockPlan,
    GrownColumns,
    decision_values,
    first_columns,
    more_columns,
    plan_blocks,
)
from kaucus.solvers._low_rank import sum_equations
from kaucus.solvers._result import LSSVMSolution

# So many candidates for each row that is wanted: some repeat others.
_CANDIDATES = 1.25
# A row repeats another where ‖φ − φ'‖² is less than this share of ‖φ‖² + ‖φ'‖².
_REPEATS = 1e-5

Hardness = Callable[[Array, Array], Array]
"""(decision values, targets), both (b, t), to what orders the rows, (b,)."""


class Judge(NamedTuple):
    """Rows held out, by which it is decided what is added and when to stop.

    In the end they join the others.
    """

    X: Array
    Y: Array
    sample_weight: Array | None
    score: Callable[[np.ndarray], float]
    """Takes the decision values of the rows, (n, t), NumPy; minus a loss."""
    least_gain: float
    """A round must lessen the loss by more than this share, or it is the last; one
    after which the loss is larger is taken back."""


class GrownSolution(NamedTuple):
    """Coefficients of the first representatives and then of the rows added."""

    solution: LSSVMSolution
    rows: np.ndarray
    """Numbers of the rows added, in the order of their coefficients."""
    choice: int
    """Which hardness was used, of those given."""
    scores: list[float]
    """Of the rows held out, after each round but the last; empty without a judge."""


def margin_hardness(values: Array, targets: Array) -> Array:
    """Return by how much the best wrong class beats the right one, (b,).

    Targets are ±1; one column is for two classes.
    """
    xp = array_namespace(values)
    if values.shape[1] == 1:
        return -(values * targets)[:, 0]
    right = targets > 0
    low = xp.asarray(-xp.inf, dtype=values.dtype, device=device_of(values))
    best_wrong = xp.max(xp.where(right, low, values), axis=1)
    return best_wrong - xp.max(xp.where(right, values, low), axis=1)


def residual_hardness(values: Array, targets: Array) -> Array:
    """Return the squared residuals, summed over the outputs, (b,)."""
    return array_namespace(values).sum((values - targets) ** 2, axis=1)


def random_hardness(rng: np.random.Generator) -> Hardness:
    """Return a hardness that orders rows at random."""
    return lambda values, targets: as_like(rng.random(values.shape[0]), values)


def solve_with_hard_rows(
    kernel: Kernel,
    X: Array,
    Y: Array,
    Z: Array,
    additions: Sequence[int],
    hardness: Hardness | Sequence[Hardness],
    *,
    C: float,
    judge: Judge | None = None,
    first_fit: LSSVMSolution | None = None,
    sample_weight: Array | None = None,
    loo_rows: np.ndarray | None = None,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> GrownSolution:
    """Fit f(x) = Σ_q a_q k(x, z_q) + b to all rows, with hard rows among the z_q.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix, HostRows or RowSource of shape (n, d)
    Y : array of shape (n, t)
    Z : array of shape (m, d)
        The first representatives.
    additions : sequence of int
        How many rows each round adds. Rows that repeat a representative are passed
        over, as are rows of weight zero; so fewer may be added.
    hardness : callable or sequence of callables
        :func:`margin_hardness`, :func:`residual_hardness`, or another. Of several, the
        first round decides, by the judge.
    C : float
    judge : Judge, default=None
        Rows that are not among ``X``.
    first_fit : LSSVMSolution, default=None
        Coefficients of ``Z`` by which the first round orders the rows, where they are
        known from elsewhere; None fits ``Z`` to ``X``. Rows that were chosen for being
        undecided are ordered better by a fit that has not seen them alone.
    sample_weight, loo_rows
        As in :func:`solve_on_representatives`.
    memory_budget : int, str or None, default=None
        Holds five matrices of m × m, a block of K_nm, and K_nm itself where it can.
    callback : callable, default=None
        ``callback(n_rows_done, n)``, in which the rows of a round count by its work.

    Returns
    -------
    GrownSolution
        The same as :func:`solve_on_representatives` gives for ``Z`` and the rows added.

    Raises
    ------
    MemoryError
        If the matrices of m × m do not fit into the budget.

    Notes
    -----
    n m d + n m²/2 multiplications for m representatives in the end, as if they had been
    known from the start, and m³/6 in every round.
    """
    data = RowData(kernel, X, Y, sample_weight)
    m = Z.shape[0] + sum(additions)
    # The columns of a row source are not kept: its rows are in no one place.
    budget, may_keep = resolve_budget(memory_budget, Y), not isinstance(X, RowSource)
    plan = plan_blocks(X.shape[0], m, budget, Z, may_keep=may_keep)
    progress = _progress([Z.shape[0], *additions], callback)
    with few_threads_for(max(X.shape[0], m)):
        grown = first_columns(data, Z, plan, progress(0))
        choices = [hardness] if callable(hardness) else list(hardness)
        growth = _Growth(data, C, plan, judge, choices, progress, grown)
        for r, n_new in enumerate(additions):
            if not growth.add_round(r, n_new, first_fit if r == 0 else None):
                progress(len(additions))(X.shape[0], X.shape[0])  # no more rounds
                break
        growth.add_held_out()
        solution = solve_equations(data, growth.grown.columns, C, loo_rows)
        return GrownSolution(solution, growth.taken, growth.choice, growth.scores)


class _Growth:
    """Columns that grow round by round."""

    def __init__(
        self,
        data: RowData,
        C: float,
        plan: BlockPlan,
        judge: Judge | None,
        choices: list[Hardness],
        progress: Callable[[int], Callable[[int, int], object]],
        grown: GrownColumns,
    ) -> None:
        self._data, self._C, self._plan, self._judge = data, C, plan, judge
        self._choices, self._progress = choices, progress
        self.grown, self.taken = grown, np.empty(0, dtype=np.int64)
        self.choice, self.scores = 0, []
        self._before = grown.columns.Z.shape[0], 0

    def add_round(self, r: int, n_new: int, given: LSSVMSolution | None) -> bool:
        """Add the hardest rows by the fit so far, or a given one, if that will help.

        Returns
        -------
        bool
            False where no rows were added: there are none left, or the judge has seen
            no gain in the last round.
        """
        fit = self._fit(self.grown) if given is None else given
        if self._judge is not None:
            judged = fit if given is None else self._fit(self.grown)
            self.scores.append(self._score(self.grown, judged))
            if not _gains(self.scores, self._judge.least_gain):
                if self.scores[-1] < self.scores[-2]:  # smaller is better and quicker
                    self._take_back()
                return False
        known = [self.choice] if r else list(range(len(self._choices)))
        found = [self._hardest(fit, self._choices[c], n_new) for c in known]
        if not all(len(rows) for rows in found):
            return False
        data, plan, tell = self._data, self._plan, self._progress(r + 1)
        points = [_as_points(data.X, rows, self.grown.columns.Z) for rows in found]
        trials = [more_columns(data, self.grown, Z, plan, tell) for Z in points]
        best = 0
        if len(trials) > 1:
            best = int(np.argmax([self._score(t, self._fit(t)) for t in trials]))
        self._before = self.grown.columns.Z.shape[0], len(self.taken)
        self.choice, self.grown = known[best], trials[best]
        self.taken = np.concatenate([self.taken, found[best]])
        return True

    def _take_back(self) -> None:
        """Return to the columns before the last round."""
        m, n_taken = self._before
        self.grown = GrownColumns(self.grown.columns.leading(m), [])
        self.taken = self.taken[:n_taken]

    def _fit(self, grown: GrownColumns) -> LSSVMSolution:
        # Equations are used up.
        columns = grown.columns._replace(equations=grown.columns.equations.copy())
        return solve_equations(self._data, columns, self._C, None)

    def _hardest(
        self, fit: LSSVMSolution, hardness: Hardness, n_new: int
    ) -> np.ndarray:
        """Return the numbers of at most ``n_new`` rows, the hardest first."""
        data, grown = self._data, self.grown
        hard = np.concatenate(
            [
                to_numpy(hardness(values, astype(data.Y[rows, :], "float64")))
                for rows, values in decision_values(data, grown, fit, self._plan)
            ]
        )
        if data.sample_weight is not None:
            hard[to_numpy(data.sample_weight) == 0] = -np.inf
        hard[self.taken] = -np.inf
        order = np.argsort(-hard, kind="stable")[: int(np.ceil(_CANDIDATES * n_new))]
        order = order[np.isfinite(hard[order])]
        if len(order) == 0:
            return order
        points = _as_points(data.X, order, grown.columns.Z)
        return order[~_repeats(data.kernel, points, grown.columns.Z)][:n_new]

    def _score(self, grown: GrownColumns, fit: LSSVMSolution) -> float:
        assert self._judge is not None, "several choices need a judge"
        X, Z = self._judge.X, grown.columns.Z
        parts = []
        for rows in row_blocks(X.shape[0], 1, self._plan.height):
            K = self._data.kernel(astype(X[rows, :], dtype_name(Z)), Z)
            parts.append(to_numpy(K @ astype(fit.dual_coef, dtype_name(K))))
        return self._judge.score(np.concatenate(parts) + to_numpy(fit.intercept))

    def add_held_out(self) -> None:
        """Add the held-out rows to the equations."""
        if self._judge is None:
            return
        held = RowData(self._data.kernel, *self._judge[:3])
        blocks = list(row_blocks(held.X.shape[0], 1, self._plan.height))
        Z, _, shift, equations = self.grown.columns
        sum_equations(held, Z, shift, blocks, None, equations)


def _gains(scores: list[float], least: float) -> bool:
    """Tell whether the last round lessened the loss by enough."""
    if len(scores) < 2:
        return True
    return scores[-1] - scores[-2] > least * abs(scores[-2])


def _progress(numbers: Sequence[int], callback):
    """Return, for a round, what tells rows done; each by the work of its round."""
    before = np.concatenate([[0], np.cumsum(numbers)[:-1]])
    work = np.asarray(numbers) * (before + np.asarray(numbers) / 2)
    share = np.concatenate([[0.0], np.cumsum(work) / work.sum()])

    def of_round(r: int) -> Callable[[int, int], object]:
        def tell(done: int, n: int) -> None:
            if callback is not None:
                callback(round(n * share[r] + done * (share[r + 1] - share[r])), n)

        return tell

    return of_round


def _repeats(kernel: Kernel, points: Array, Z: Array) -> np.ndarray:
    """Tell which points repeat a point before them, or a representative."""
    norms, others = (to_numpy(kernel.diag(rows))[:, None] for rows in (points, Z))
    among, beside = to_numpy(kernel(points)), to_numpy(kernel(points, Z))
    repeats = np.tril(_near(among, norms, norms), k=-1).any(axis=1)
    return np.logical_or(repeats, _near(beside, norms, others).any(axis=1))


def _as_points(X: Array, rows: np.ndarray, Z: Array) -> Array:
    """Return rows as representatives, in the place and precision of the others."""
    return as_like(dense_rows(X, rows), Z, dtype=dtype_name(Z))


def _near(K: np.ndarray, norms: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Tell for which pairs 2 k(x, y) is all but k(x, x) + k(y, y)."""
    return (1 - _REPEATS) * (norms + others.T) <= 2 * K
