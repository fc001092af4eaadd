"""Targets of a fit, classes or numbers, and scores of its decision values.

Both kinds of targets answer the same questions, so that one fit serves both: which
columns the least squares are of, which rows are clustered together, how good decision
values are, and which rows are hard.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import Array, as_like
from kaucus.solvers import (
    Hardness,
    classification_score,
    log_losses,
    log_losses_of_rows,
    margin_hardness,
    random_hardness,
    regression_score,
    residual_hardness,
    two_columns,
)

SearchLoss = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(leave-one-out values (r, c, t), numbers of the r rows) to the losses of c models."""


class TargetUnit(NamedTuple):
    """Origin and size of a regressor's targets, y = offset + scale z.

    Fits are of z, so that an offset of the targets costs no digits of their spread, and
    a tolerance is relative to that. The scale is a power of two: it rounds nothing.
    """

    offset: np.ndarray
    """(t,)."""
    scale: np.ndarray
    """(t,)."""

    @classmethod
    def of(cls, Y: np.ndarray, weight: np.ndarray | None) -> "TargetUnit":
        """Return the weighted mean of each output, and the size of what is left.

        Rows of weight zero are passed over.
        """
        if weight is not None:
            Y, weight = Y[weight > 0], weight[weight > 0]
        # From the first row on: the mean of equal targets has no rounding then.
        offset = Y[0] + np.average(Y - Y[0], axis=0, weights=weight)
        largest = np.max(np.abs(Y - offset), axis=0)
        scale = np.ldexp(1.0, np.frexp(largest)[1] - 1)
        return cls(offset, np.where(largest > 0, scale, 1.0))

    def standard(self, Y: np.ndarray) -> np.ndarray:
        """Return z of targets, (n, t)."""
        return (Y - self.offset) / self.scale

    def values(self, Z: Array) -> Array:
        """Return y of standard targets or predictions, (n, t)."""
        return Z * as_like(self.scale, Z) + as_like(self.offset, Z)

    def restored(self, model: Any) -> Any:
        """Return a model of standard targets with coefficients for y.

        ``model`` is any named tuple with ``dual_coef`` and ``intercept``.
        """
        coef, intercept = model.dual_coef, model.intercept
        coef, intercept = coef * as_like(self.scale, coef), self.values(intercept)
        return model._replace(dual_coef=coef, intercept=intercept)

    def standardised(self, model: Any) -> Any:
        """Return a model of y with coefficients for standard targets."""
        coef, intercept = model.dual_coef, model.intercept
        offset, scale = (as_like(part, intercept) for part in self)
        intercept = (intercept - offset) / scale
        return model._replace(
            dual_coef=coef / as_like(self.scale, coef), intercept=intercept
        )


NO_UNIT = TargetUnit(np.zeros(1), np.ones(1))
"""That of targets which are fitted as they are: classes."""

RowWeights = Callable[[np.ndarray | None, np.ndarray], np.ndarray | None]
"""(weights of rows, their labels) to weights that count their classes' weights too."""


class ClassTargets(NamedTuple):
    """Labels 0 to k − 1, fitted as columns of ±1 and judged by the log-loss."""

    values: np.ndarray
    """The label of each row, (n,)."""
    n_classes: int
    weigh: RowWeights

    clustered, unit = "class", NO_UNIT

    @property
    def n_groups(self) -> int:
        """Number of groups of which a stream counts the rows: the classes."""
        return self.n_classes

    def like(self, values: np.ndarray) -> "ClassTargets":
        """Return the targets of other rows."""
        return self._replace(values=values)

    def columns(self) -> np.ndarray:
        """Return the columns of the least squares, (n, t)."""
        return one_vs_rest_targets(self.values, self.n_classes)

    def clusters(self, weight: np.ndarray | None) -> np.ndarray:
        """Return the numbers of the groups of rows that are clustered apart, (n,)."""
        return self.values

    def groups(self) -> np.ndarray:
        """Return the numbers of the groups of which a stream counts the rows, (n,)."""
        return self.values

    def fit_weights(self, weight: np.ndarray | None) -> np.ndarray | None:
        """Return the weights of the rows in the least squares, (n,)."""
        return self.weigh(weight, self.values)

    def search(self, weight: np.ndarray | None) -> tuple[np.ndarray, SearchLoss]:
        """Return columns and the loss by which kernels and C are compared."""

        def loss(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return log_losses(values, self.values[rows], of_rows(weight, rows))

        return self.columns(), loss

    def losses(
        self, values: np.ndarray, weight: np.ndarray | None, rows: np.ndarray
    ) -> np.ndarray:
        """Return the log-loss of each of some rows by c models, (r, c)."""
        return log_losses_of_rows(values, self.values[rows], of_rows(weight, rows))

    def score(
        self, values: np.ndarray, weight: np.ndarray | None, rows: np.ndarray
    ) -> float:
        """Return minus the log-loss of the decision values of some rows, (r, t)."""
        return classification_score(
            all_classes(values),
            self.values[rows],
            "neg_log_loss",
            of_rows(weight, rows),
        ).value

    def hardness(
        self, weight: np.ndarray | None, like: Array, rng: np.random.Generator
    ) -> Mapping[str, Hardness]:
        """Return the ways to order rows of which some are to be representatives."""
        return {"residual": margin_hardness, "random": random_hardness(rng)}


class NumberTargets(NamedTuple):
    """Numbers, judged by the squared error, each output in its own unit."""

    values: np.ndarray
    """The outputs of each row in ``unit``, (n, t)."""
    n_bins: int
    unit: TargetUnit = NO_UNIT

    clustered, n_groups = "bin", 1

    @classmethod
    def of(
        cls,
        Y: np.ndarray,
        n_bins: int,
        weight: np.ndarray | None,
        unit: TargetUnit | None = None,
    ) -> "NumberTargets":
        """Return the targets of a fit, in a given unit or that of the rows."""
        unit = TargetUnit.of(Y, weight) if unit is None else unit
        return cls(unit.standard(Y), n_bins, unit)

    def like(self, values: np.ndarray) -> "NumberTargets":
        """Return the targets of other rows."""
        return self._replace(values=values)

    def columns(self) -> np.ndarray:
        """Return the columns of the least squares, (n, t)."""
        return self.values

    def clusters(self, weight: np.ndarray | None) -> np.ndarray:
        """Return the numbers of the groups of rows that are clustered apart, (n,)."""
        return target_bins(self.values, weight, self.n_bins)

    def groups(self) -> np.ndarray:
        """Return the numbers of the groups of which a stream counts the rows, (n,)."""
        return np.zeros(len(self.values), dtype=np.int64)

    def fit_weights(self, weight: np.ndarray | None) -> np.ndarray | None:
        """Return the weights of the rows in the least squares, (n,)."""
        return weight

    def search(self, weight: np.ndarray | None) -> tuple[np.ndarray, None]:
        """Return columns by whose squared errors kernels and C are compared."""
        return self.values / output_spread(self.values, weight), None

    def losses(
        self, values: np.ndarray, weight: np.ndarray | None, rows: np.ndarray
    ) -> np.ndarray:
        """Return the squared error of each of some rows by c models, (r, c).

        ``values`` and targets are in units of each output's spread.
        """
        targets = self.values[rows] / output_spread(self.values, weight)
        return np.mean((values - targets[:, None, :]) ** 2, axis=2)

    def score(
        self, values: np.ndarray, weight: np.ndarray | None, rows: np.ndarray
    ) -> float:
        """Return minus the mean squared error of predictions of some rows, (r, t)."""
        unit = output_spread(self.values, weight)
        return regression_score(
            values / unit,
            self.values[rows] / unit,
            "neg_mean_squared_error",
            of_rows(weight, rows),
        ).value

    def hardness(
        self, weight: np.ndarray | None, like: Array, rng: np.random.Generator
    ) -> Mapping[str, Hardness]:
        """Return the ways to order rows of which some are to be representatives."""
        unit = as_like(output_spread(self.values, weight), like)
        return {
            "residual": lambda values, targets: residual_hardness(
                values / unit, targets / unit
            ),
            "random": random_hardness(rng),
        }


Targets = ClassTargets | NumberTargets


def all_classes(values: Array) -> Array:
    """Return one column of decision values for each class, also for two classes."""
    return two_columns(values) if values.shape[1] == 1 else values


def one_vs_rest_targets(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return targets of ±1, (n, t): t is 1 for two classes, else one per class.

    The papers code the classes as 0 and 1; with an intercept, both codes give the
    same classifier (decision values 2 f − 1).
    """
    if n_classes == 2:
        return np.where(labels == 1, 1.0, -1.0)[:, None]
    return np.where(labels[:, None] == np.arange(n_classes)[None, :], 1.0, -1.0)


def target_bins(Y: np.ndarray, weight: np.ndarray | None, n_bins: int) -> np.ndarray:
    """Return the bin of each row's target, (n,): equal weights in each, 0 is lowest.

    Several outputs are binned by the first principal component of their standardised
    values. Equal targets are in one bin, so that there may be fewer of them.
    """
    s = np.ones(len(Y)) if weight is None else weight
    centred = Y - np.average(Y, axis=0, weights=s)
    scaled = centred / output_spread(Y, s)
    _, directions = np.linalg.eigh(scaled.T @ (s[:, None] * scaled))
    first = directions[:, -1] * (1 if directions[0, -1] >= 0 else -1)
    order, groups = np.unique(scaled @ first, return_inverse=True)
    mass = np.bincount(groups, weights=s, minlength=len(order))
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    bins = np.minimum((n_bins * middle).astype(np.int64), n_bins - 1)
    return np.unique(bins, return_inverse=True)[1][groups]


def output_spread(Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the standard deviation of each output; 1 for a constant."""
    mean = np.average(Y, axis=0, weights=weight)
    spread = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
    return np.where(spread > 0, spread, 1.0)


def of_rows(values: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """Return the values, such as weights, of some rows; None where there are none."""
    return None if values is None else values[rows]
