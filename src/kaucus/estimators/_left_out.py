"""What a fitted model keeps so that its leave-one-out models can be asked for.

A fit costs and keeps nothing more for them: targets and weights are remembered, rows
are referred to. The factor that all leave-one-out models share is made when it is first
asked for, at the price of one solution of the system, and stays until the next fit.
Files of a model have neither.
"""

import copy
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    RowSource,
    array_namespace,
    as_like,
    astype,
    format_bytes,
    generator_from,
    is_sparse,
    itemsize,
    owned,
    products_in,
    resolve_budget,
    row_blocks,
    to_numpy,
)
from kaucus.contract import is_dask
from kaucus.estimators._kernel_input import map_rows, on_device
from kaucus.estimators._parameters import Constraint, as_float
from kaucus.machines import NO_UNIT, Model, Problem, TargetUnit
from kaucus.solvers import (
    LeftOutModels,
    Start,
    leave_out_on_representatives,
    leave_out_rows,
    move_left_out,
)

# Of the blocks in which new rows meet all leave-one-out models: kernel columns, what
# is solved for, influences and copies of these.
_BLOCK_BYTES, _NUMBERS = 256 * 2**20, 6
# Training rows that a model on representatives keeps from being freed.
_MOST_KEPT = 512 * 2**20
_DIRECT = ("cholesky", "eigh", "normal_equations")
_NOT_IN_FILES = (
    "a file or copy of a model does not have its training rows; fit again to have them"
)


class Training(NamedTuple):
    """The problem that was solved, as far as leave-one-out models need it."""

    values: np.ndarray
    """Targets in ``unit``, (n, t), or numbers of classes, (n,)."""
    weight: np.ndarray | None
    """In the least squares, (n,)."""
    C: float
    rows: Any = None
    """(n, d), or a given kernel matrix; None: the rows that the model keeps."""
    unit: TargetUnit = NO_UNIT


def _is_level(value: Any) -> bool:
    if isinstance(value, str) or np.ndim(value) > 1:
        return False
    levels = [as_float(v) for v in np.atleast_1d(np.asarray(value, dtype=object))]
    return len(levels) > 0 and all(0 < level < 1 for level in levels)


LEVELS = Constraint(_is_level, "a number between 0 and 1, or a sequence of such")


def levels_of(confidence_level: Any) -> list[float]:
    """Return the levels as a list, checked."""
    LEVELS.advise("Try 0.9.").check("confidence_level", confidence_level)
    return [float(v) for v in np.atleast_1d(confidence_level)]


class KnowsLeftOut:
    """Mixin of estimators that know every leave-one-out model in closed form."""

    _training: Training | None = None
    _no_training = "it was not fitted to rows"
    """Why there is none."""
    _left_out: LeftOutModels | None = None
    _calibration: Any = None
    """Residuals or decision values of rows held out; None before ``conformalize``."""
    _is_sent = False
    """Whether this is a copy for a worker, which takes the models along."""

    @property
    def is_conformalized_(self) -> bool:
        """Whether :meth:`conformalize` was given rows since the last fit."""
        return self._calibration is not None

    def _remember(self, training: Training | None, reason: str = "") -> None:
        """Keep the problem of a fit, or the reason why it cannot be kept."""
        if training is not None:  # what is the caller's may change
            values, weight = (None if v is None else np.array(v) for v in training[:2])
            rows = None if training.rows is None else owned(training.rows)
            training = Training(values, weight, training.C, rows)
        self._training, self._no_training = training, reason
        self._left_out = self._calibration = None

    def _remember_fit(self, X, values, C: float, weight, unit=NO_UNIT) -> None:
        """Keep the problem of an LS-SVM of all rows."""
        rows = X if self._precomputed else None  # X_fit_ has them
        self._remember(Training(values, weight, C, rows, unit))

    def _remember_represented(self, X, problem: Problem, model: Model) -> None:
        """Keep the problem of a model on representatives, where all rows count."""
        targets, n, weight = problem.targets, problem.n, problem.fit_weight
        if model.fit_rows is not None:
            self._remember(None, "fit_on='boundary' fits rows that are not like others")
        elif (n_bytes := _bytes_of(X)) > _MOST_KEPT:
            self._remember(
                None,
                f"the training rows take {format_bytes(n_bytes)}, and a model keeps no "
                f"more than {format_bytes(_MOST_KEPT)} of them in memory",
            )
        elif model.solution.info.solver == "normal_equations":
            rows = X.at_rest() if isinstance(X, RowSource) else X
            given = (targets.values, weight, model.C, rows, targets.unit)
            self._remember(Training(*given))
        elif problem.weight is None and model.representatives.points.shape[0] == n:
            # Every row is a representative; they come group by group.
            values = targets.values[np.argsort(targets.clusters(None), kind="stable")]
            weight = targets.like(values).fit_weights(None)
            self._remember(Training(values, weight, model.C, None, targets.unit))
        else:
            self._remember(None, "fit_on='representatives' fits centres, not rows")

    def _left_out_models(self) -> LeftOutModels:
        """Return the leave-one-out models, made at the first call."""
        check_is_fitted(self, "dual_coef_")
        if self._left_out is None:
            self._check_has_left_out()
            with products_in(None):
                self._left_out = self._make_left_out()
        return self._left_out

    def _check_has_left_out(self) -> None:
        """Raise where the fit has no leave-one-out models in closed form."""
        info, reason = self.solve_info_, self._no_training
        if self._training is not None:
            if info.solver in _DIRECT:
                return
            reason = f"solver={info.solver!r} approximates one model by iterations"
        raise ValueError(
            "Leave-one-out models are not known: "
            f"{reason}. Hold rows out and use method='split': "
            "model.conformalize(X_held_out, y_held_out)."
        )

    def _make_left_out(self) -> LeftOutModels:
        """Solve the system of the fit once more, with all that it leaves out."""
        training = self._training
        support = None if self._precomputed else self._support_rows()
        represented = self.solve_info_.solver == "normal_equations"
        given = training.rows if training.rows is not None else support
        kernel, rows = self._kernel_and_rows(self.kernel_, given)
        like = rows
        if represented:
            like = points = on_device(as_like(support, rows), self.device)
        Y = as_like(self._target_columns(training.values), like)
        problem = {
            "C": training.C,
            "memory_budget": self.memory_budget,
            "sample_weight": as_like(training.weight, Y),
        }
        if not represented:
            return _in_unit(leave_out_rows(kernel, rows, Y, **problem), training.unit)
        fitted = training.unit.standardised(Start(self.dual_coef_, self.intercept_))
        models = leave_out_on_representatives(
            kernel,
            rows,
            Y,
            points,
            *(as_like(part, Y) for part in fitted),
            rng=generator_from(self.random_state),
            **problem,
        )
        return _in_unit(models, training.unit)

    def _target_columns(self, values: np.ndarray) -> np.ndarray:
        """Return the columns of the least squares, (n, t)."""
        return values

    def _over_left_out(self, X, function):
        """Return a function of blocks of rows and all leave-one-out models.

        ``function(f, models, x, K)`` takes decision values, (b, t), the models, rows
        and their kernel columns.
        """
        X = self._validate(X, reset=False)
        made = self._left_out_models()

        def of_rows(rows):
            models = move_left_out(made, rows)
            n = models.left_out.residuals.shape[0]
            budget = resolve_budget(self.memory_budget, models.left_out.residuals)
            limit = min(budget // 4, _BLOCK_BYTES)
            parts = [
                function(*self._columns_of(rows[block, :], models))
                for block in row_blocks(rows.shape[0], 8 * n * _NUMBERS, limit)
            ]
            xp = array_namespace(parts[0])
            return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)

        if self._precomputed:
            return of_rows(X)
        return map_rows(of_rows, X, self.device, self.memory_budget)

    def _columns_of(self, rows, models: LeftOutModels):
        """Return decision values, models, rows and their kernel columns."""
        if self._precomputed:
            K = astype(rows, "float64")
            f = K @ as_like(self.dual_coef_, K) + as_like(self.intercept_, K)
            return f, models, rows, K
        return self._values_on_device(rows), models, rows, models.columns(rows)

    # ---- copies ----------------------------------------------------------------------

    def _for_rows(self, X, method: str):
        """Return self; for a Dask collection a copy that takes the models along."""
        if method == "split" or not is_dask(X):
            return self
        models = move_left_out(self._left_out_models(), np.empty(0))
        sent = copy.copy(self)
        sent._left_out, sent._is_sent = models, True
        sent._training = self._training._replace(rows=None)
        return sent

    def __getstate__(self):
        state = super().__getstate__()
        if state.get("_is_sent"):
            return state
        training = state.get("_training")
        state.pop("_left_out", None)
        if training is not None and training.rows is not None:
            state |= {"_training": None, "_no_training": _NOT_IN_FILES}
        return state


def _in_unit(models: LeftOutModels, unit: TargetUnit) -> LeftOutModels:
    """Return leave-one-out models of standard targets for those of the user."""
    rows = models.left_out
    scale = as_like(unit.scale, rows.residuals)
    residuals, values = rows.residuals * scale, unit.values(rows.values)
    rows = rows._replace(residuals=residuals, values=values)
    return models._replace(scale=models.scale * scale**2, left_out=rows)


def _bytes_of(X: Any) -> int:
    """Return the memory of rows; none for rows that are read again when needed."""
    if isinstance(X, RowSource):
        return 0
    return X.data.nbytes if is_sparse(X) else itemsize(X) * X.shape[0] * X.shape[1]


def check_calibrated(calibration) -> None:
    """Raise where rows held out are needed and none were given."""
    if calibration is None:
        raise ValueError(
            "method='split' needs rows that were not fitted; give them first: "
            "model.conformalize(X_held_out, y_held_out)."
        )


def checked_predictions(predictions) -> np.ndarray:
    """Return predictions that a user gives as finite numbers, (n, t)."""
    given = np.asarray(to_numpy(predictions), dtype=np.float64)
    given = given.reshape(given.shape[0] if given.ndim else 1, -1)
    if not np.isfinite(given).all():
        row = int(np.argmin(np.isfinite(given).all(axis=1)))
        raise ValueError(
            f"predictions has {given[row].tolist()[:3]} in row {row}; pass a finite "
            "number for every row."
        )
    return given


def refuse_dask(X) -> None:
    """Raise where rows to compare with are a Dask collection."""
    if is_dask(X):
        raise TypeError(
            "conformalize needs its rows in one place, and X is a Dask collection. A "
            "few thousand rows are enough: X[:5000].compute()."
        )
