"""The contract of estimators: parameters, validation, results of the rows' kind."""

import contextlib
import functools
import importlib
import importlib.util
import inspect
import math
import numbers
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import metaestimators
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d
from sklearn.utils.validation import validate_data as _validate_data

from kaucus._array import namespace as nx
from kaucus._array.blocks import parse_bytes, resolve_budget, row_blocks
from kaucus._array.linalg import diagonal
from kaucus._array.namespace import Array
from kaucus._array.rows import (
    BatchRows,
    RowSource,
    as_matrix,
    as_rows,
    longest_rows,
    look_at,
    rows_for_device,
    summary_of,
)
from kaucus.kernels._cells import MahalanobisRBF
from kaucus.kernels._kernel import (
    CallableKernel,
    DistanceKernel,
    Kernel,
    KernelName,
    Laplacian,
    Precomputed,
    kernel_class,
    kernel_names,
    resolve_gamma,
    resolve_kernel,
)
from kaucus.kernels._metric import MappedKernel, RowMap

# ----------------------------------------------------------------------------------
# Parameters of estimators as tables: a constraint for each, one checker for all.
#
# A class lists the constraints of its parameters in ``_parameters``; those of its bases
# hold as well. :meth:`FollowsX._check_parameters` runs them all before the data is
# looked at, then ``_check_combinations`` for what no single parameter can tell.
#
# >>> positive = POSITIVE | one_of("auto")
# >>> positive.check("C", "auto")
# >>> positive.check("C", -1)
# Traceback (most recent call last):
# ...
# ValueError: C=-1 must be a positive, finite number, or 'auto'.
# ----------------------------------------------------------------------------------

# Types of parameters, for type checkers.
KernelLike = KernelName | Sequence[KernelName] | Kernel | Callable[..., Any]
Seed = int | np.random.Generator | np.random.RandomState | None

# The inverse of a smaller number overflows.
SMALLEST = 1e-300
# What arrays and libraries can count.
LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True)
class Constraint:
    """Constraint on a parameter, as a predicate and as text."""

    admits: Callable[[Any], bool]
    expected: str
    """Completes the sentence "must be ..."."""
    remedy: str = ""
    detail: Callable[[Any], str] = lambda value: ""
    """Text appended to ``expected`` for a value that is nearly right."""

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError with the value, what was expected, and the remedy."""
        if not self.admits(value):
            expected = f"{self.expected}{self.detail(value)}"
            text = f"{name}={shortened(value)} must be {expected}. {self.remedy}"
            raise ValueError(text.rstrip())

    def __or__(self, other: "Constraint") -> "Constraint":
        return replace(
            self,
            admits=lambda value: self.admits(value) or other.admits(value),
            expected=f"{self.expected}, or {other.expected}",
            detail=lambda value: self.detail(value) + other.detail(value),
        )

    def advise(self, remedy: str) -> "Constraint":
        """Return the same constraint with another remedy."""
        return replace(self, remedy=remedy)


# ---- constraints ---------------------------------------------------------------------


def one_of(*choices: Any) -> Constraint:
    """Constraint: one of some values, of the same type (1 is not True)."""

    def admits(value: Any) -> bool:
        # `in` compares with ==, which arrays answer with arrays.
        return any(
            value is choice or (type(value) is type(choice) and value == choice)
            for choice in choices
        )

    expected = f"one of {list(choices)}" if len(choices) > 1 else repr(choices[0])
    return Constraint(admits, expected)


def count(least: int = 1, most: int = LARGEST_COUNT) -> Constraint:
    """Admit whole numbers from ``least`` to ``most``."""

    def admits(value: Any) -> bool:
        return is_whole(value) and least <= int(value) <= most

    def detail(value: Any) -> str:
        return f", at most {most}" if is_whole(value) and int(value) > most else ""

    return Constraint(admits, f"a whole number, {least} or more", detail=detail)


def not_text(expected: str) -> Constraint:
    """Admit everything but a text, which would be one of some names."""
    return Constraint(lambda value: not isinstance(value, str), expected)


def instance_of(kinds: Any, expected: str) -> Constraint:
    """Admit objects of some types."""
    return Constraint(lambda value: isinstance(value, kinds), expected)


def _is_size(value: Any) -> bool:
    if value is not None:
        parse_bytes(value)  # raises with words of its own
    return True


def generator_from(random_state: object) -> np.random.Generator:
    """Turn scikit-learn's ``random_state`` into a ``Generator``.

    ``None`` gives fresh entropy, an int a seed; a ``Generator`` is used as it is; a
    ``RandomState`` gives the seed of a new one, so that it advances as scikit-learn
    users expect.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if random_state is None:
        return np.random.default_rng()
    is_int = isinstance(random_state, int | np.integer)
    if is_int and not isinstance(random_state, bool) and random_state >= 0:
        return np.random.default_rng(int(random_state))
    raise ValueError(
        f"random_state={random_state!r} cannot seed a generator; "
        "pass None, an int of 0 or more, a RandomState or a Generator."
    )


def _is_random_state(value: Any) -> bool:
    if not isinstance(value, np.random.RandomState):
        generator_from(value)  # raises with words of its own, and advances nothing
    return True


def _is_sequence_of_positive(value: Any) -> bool:
    try:
        grid = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    in_range = np.isfinite(grid) & (grid >= SMALLEST)
    return grid.ndim == 1 and grid.size > 0 and bool(in_range.all())


POSITIVE = Constraint(
    lambda value: SMALLEST <= as_float(value) < math.inf,
    "a positive, finite number",
    detail=lambda value: (
        f", {SMALLEST:g} or more" if 0 < as_float(value) < SMALLEST else ""
    ),
)
NOT_NEGATIVE = Constraint(
    lambda value: 0 <= as_float(value) < math.inf, "a finite number, zero or more"
)
FINITE = Constraint(lambda value: math.isfinite(as_float(value)), "a finite number")
SEQUENCE = Constraint(
    _is_sequence_of_positive, "a non-empty sequence of positive, finite numbers"
)
NONE = Constraint(lambda value: value is None, "None")
BOOLEAN = instance_of(bool | np.bool_, "True or False")
PRECISION = one_of(*nx.PRECISIONS)
LEARN_METRIC = one_of("auto", True, False)
MEMORY_BUDGET = Constraint(
    _is_size, "a number of bytes, a string such as '4GiB' or None"
)
RANDOM_STATE = Constraint(_is_random_state, "a seed, a generator or None")


# ---- values --------------------------------------------------------------------------


def is_whole(value: Any) -> bool:
    """Return True for a whole number; False for a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def as_float(value: Any) -> float:
    """Convert to float; NaN if not a number, inf on overflow."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number such as 10**400
        return math.inf


def shortened(value: Any) -> str:
    """Return the repr of a value, shortened to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"


# ----------------------------------------------------------------------------------
# Checks that numbers are of a size that can be computed with.
#
# Squares of very large numbers overflow, squares of very small ones vanish, and what
# comes of that is NaN or a wrong model. Here such numbers are refused, with the value,
# what was expected, and what to do, before or, at the latest, after the work.
# ----------------------------------------------------------------------------------

# Sums of squares of numbers up to these stay far from overflow, in any dimension.
_LARGEST = {"float32": 1e15, "float64": 1e100}
# Solvers sum products of kernel values, in float64.
_LARGEST_KERNEL = 1e100
# Square roots of weights and their products with kernel values stay in float32.
_LARGEST_WEIGHT = 1e30


def check_magnitude(X: Array, *, fitted: bool) -> None:
    """Check that squares of the entries neither overflow nor all underflow.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    fitted : bool
        Whether these rows are fitted; of rows to predict all may be very small.
    """
    largest, dtype = _largest(X), nx.dtype_name(X)
    limit = _LARGEST[dtype]
    unit = _power_of_ten(largest)
    remedy = f"Scale X, for example as X / {unit}"
    if dtype == "float32":
        remedy = f"Pass X as float64, or scale it, for example as X / {unit}"
    if largest > limit:
        raise ValueError(
            f"X has a value of size {largest:.3g}; squares of such {dtype} numbers "
            f"overflow. Expected at most {limit:g}. {remedy}; take the value out if "
            "it is an error."
        )
    if fitted and 0 < largest < 1 / limit:
        raise ValueError(
            f"The largest value of X is of size {largest:.3g}; squares of such {dtype} "
            f"numbers vanish. Expected at least {1 / limit:g}. {remedy}."
        )


def check_targets(Y: np.ndarray) -> None:
    """Check that a regressor's targets, (n, t), are finite and can be squared."""
    finite = np.isfinite(Y).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"y[{row}] is {Y[row].tolist()}: missing, or not finite; a regressor needs "
            "a number for every row. Take such rows out of X and y."
        )
    if (largest := _largest(Y)) > _LARGEST["float64"]:
        raise ValueError(
            f"y has a value of size {largest:.3g}, whose square overflows; expected at "
            f"most {_LARGEST['float64']:g}. Scale y, for example as y / "
            f"{_power_of_ten(largest)}."
        )


def _largest(X: Array) -> float:
    """Return the largest absolute value, without a copy of X."""
    X = longest_rows(X)
    values = X.data if nx.is_sparse(X) else X
    if 0 in values.shape:
        return 0.0
    xp = nx.array_namespace(values)
    return max(float(xp.max(values)), -float(xp.min(values)))


def _power_of_ten(value: float) -> str:
    """Return the power of ten below a positive number, as text."""
    return f"1e{math.floor(math.log10(value))}" if value > 0 else "1"


def check_kernel_values(kernel: Kernel, X: Array) -> None:
    """Check that gamma, and the kernel of each row with itself, can be computed with.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    """
    dtype = nx.dtype_name(X)
    gamma = getattr(kernel, "gamma", None)
    if gamma is not None and not _is_held_by(dtype, gamma):
        raise ValueError(
            f"gamma={gamma:.3g} is out of the range of {dtype}, the precision of X. "
            "Pass X as float64, scale it, or pass another gamma."
        )
    if isinstance(kernel, CallableKernel):  # checks each of its values itself
        return
    with np.errstate(over="ignore", invalid="ignore"):
        rows = longest_rows(X)
        on_diagonal = nx.to_numpy(kernel.diag(rows))
    largest = float(np.max(np.abs(on_diagonal)))  # NaN stays NaN
    limit = min(_LARGEST_KERNEL, float(np.finfo(dtype).max))
    if not largest <= limit:
        raise ValueError(
            f"The kernel of some row with itself is {largest:.3g} in {dtype}; expected "
            f"at most {limit:.0e}. Scale the data, for example with "
            "StandardScaler, pass another gamma, or pass X as float64."
        )


def _is_held_by(dtype: str, value: float) -> bool:
    """Return True if a positive number is neither infinite nor 0 in a precision."""
    with np.errstate(over="ignore", under="ignore"):
        return 0 < np.dtype(dtype).type(value) < np.inf


def check_weight_range(weight: np.ndarray | None) -> None:
    """Check that the largest weight is a number of ordinary size."""
    if weight is None:
        return
    largest = float(weight.max())
    if not 1 / _LARGEST_WEIGHT <= largest <= _LARGEST_WEIGHT:
        raise ValueError(
            f"The largest weight of a row is {largest:.3g} (sample_weight times "
            f"class_weight); expected {1 / _LARGEST_WEIGHT:g} to {_LARGEST_WEIGHT:g}. "
            "Pass sample_weight / sample_weight.max(); C times that maximum keeps the "
            "fit as it is meant."
        )


def check_coefficients(coef: Array, kernel: object) -> None:
    """Check that a solution is finite."""
    xp = nx.array_namespace(coef)
    if not bool(xp.all(xp.isfinite(coef))):
        n_bad = int((~np.isfinite(nx.to_numpy(coef))).sum())
        raise ValueError(
            f"{n_bad} coefficients are not finite: products of the values of "
            f"kernel={kernel!r}, of y, C and the weights overflow. Scale X and y, for "
            "example with StandardScaler, pass X as float64, or lower C."
        )


def check_results(values: Array) -> Array:
    """Return results of rows, (n, t); raise if one is not finite."""
    xp = nx.array_namespace(values)
    if bool(xp.all(xp.isfinite(values))):
        return values
    finite = np.isfinite(nx.to_numpy(values)).all(axis=1)
    row = int(np.argmin(finite))
    found = nx.to_numpy(values)[row].tolist()[:3]
    raise ValueError(
        f"The result for row {row} of X is {found}, because its kernel values "
        "overflow. Scale X as the training rows were scaled, or take "
        "such rows out."
    )


# ----------------------------------------------------------------------------------
# Checks of labels, weights and kernel matrices, before any long work.
#
# Each error names the value it got, what was expected, and what to do.
# ----------------------------------------------------------------------------------


def check_one_label_type(y) -> None:
    """Check that labels are not text and numbers mixed, which NumPy makes text."""
    if isinstance(y, list | tuple):
        _check_label_types(y)


def encode_labels(y) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and, for each row, the number of its class.

    Raises
    ------
    ValueError
        If the labels are continuous, of mixed types, or all equal.
    """
    y = column_or_1d(y)
    if y.dtype == object:
        _check_label_types(y)
        y = y if isinstance(y[0], str) else np.array(y.tolist())
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {kind}. y has values such as {y[:3].tolist()}; a "
            "classifier needs classes: whole numbers, texts or booleans. Use "
            "a regressor for numbers that are measured, or turn them into classes."
        )
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes.tolist()[0]!r}); a classifier needs at "
            "least two classes. Check how the training rows were chosen."
        )
    return classes, np.searchsorted(classes, y)  # no sort of millions of rows


def check_known_labels(y, classes, known) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of a stream, and the number of each row's class.

    Parameters
    ----------
    y : array-like of shape (n,)
    classes : array-like of shape (k,) or None
        What the caller says the classes are; needed where ``known`` is None.
    known : array of shape (k,) or None
        The classes of earlier calls.

    Raises
    ------
    ValueError
        If the classes are missing, change, or do not have a label of ``y``.
    """
    y = column_or_1d(y)
    if known is None and classes is None:
        raise ValueError(
            "partial_fit needs classes=, all labels that will ever come, at its first "
            "call; for example classes=np.unique(y_all)."
        )
    given = known if classes is None else np.unique(np.asarray(on_host(classes)))
    if known is not None and not np.array_equal(given, known):
        raise ValueError(
            f"classes={given.tolist()} is not what it was at the first call, "
            f"{known.tolist()}. Pass None, or fit anew."
        )
    if len(given) < 2:
        raise ValueError(
            f"classes={given.tolist()}; a classifier needs at least two classes."
        )
    new = np.setdiff1d(y, given)
    if new.size:
        raise ValueError(
            f"y has the labels {new.tolist()[:5]}, which are not among the classes "
            f"{given.tolist()}; name all classes at the first call of partial_fit."
        )
    return given, np.searchsorted(given, y)


def _check_label_types(labels: Iterable) -> None:
    kinds = sorted({_label_type(label) for label in labels})
    if len(kinds) < 2:
        return
    remedy = "Convert them, for example with [str(label) for label in y]."
    if "NoneType" in kinds:
        remedy = "Take out the rows whose label is None."
    raise ValueError(
        f"y mixes labels of the types {', '.join(kinds)}; labels must be of one "
        f"type. {remedy}"
    )


def _label_type(label: object) -> str:
    number = isinstance(label, numbers.Real | np.bool_)
    return "number" if number else type(label).__name__


def numeric_targets(y: np.ndarray) -> np.ndarray:
    """Return a regressor's targets as float64, (n, t).

    Raises
    ------
    ValueError
        If they are texts, even ones that can be read as numbers, or not finite.
    """
    if y.dtype.kind not in "fiub":
        raise ValueError(
            f"y has values such as {y[:1].tolist()[0]!r}, of dtype {y.dtype}; a "
            "regressor needs numbers. Convert them with y.astype(float), or use a "
            "classifier for labels."
        )
    targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    check_targets(targets)
    return targets


def check_weights(sample_weight, X) -> np.ndarray | None:
    """Return row weights as float64, zero or more and not all zero, or None."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(X.shape[0], float(sample_weight))
    weight = np.asarray(on_host(sample_weight))
    if weight.dtype.kind not in "fiubO":
        raise ValueError(
            f"sample_weight has values such as {weight.ravel()[:1].tolist()}; expected "
            f"numbers, one per row, shape ({X.shape[0]},)."
        )
    weight = check_array(
        weight,
        ensure_2d=False,
        allow_nd=True,
        dtype=np.float64,
        input_name="sample_weight",
    )
    if weight.shape != (X.shape[0],):
        raise ValueError(
            f"sample_weight has shape {weight.shape}; expected one weight per row of "
            f"X, shape ({X.shape[0]},)."
        )
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight has the negative value {weight.min():g}; weights must be "
            "zero or more. A weight of 0 passes over a row."
        )
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero for every row; give some row weight.")
    check_weight_range(weight)
    return weight


def relative_weights(weight: np.ndarray | None) -> np.ndarray | None:
    """Return weights over their mean; None where all are equal.

    For a fit that chooses C. A factor of all weights is one of C: without this it
    would move the values of C that there are to choose from.
    """
    if weight is None or np.ptp(weight) == 0:
        return None
    return weight / mean_weight(weight)


def mean_weight(weight: np.ndarray | None) -> float:
    """Return the mean weight of the rows that have one."""
    return 1.0 if weight is None else float(weight[weight > 0].mean())


def check_start_labels(labels, n_samples: int, n_clusters: int) -> np.ndarray:
    """Return the clusters in which an iteration is to begin, as int64."""
    given = np.asarray(on_host(labels))
    if given.shape != (n_samples,):
        raise ValueError(
            f"init has shape {given.shape}; expected the cluster of each row, shape "
            f"({n_samples},), or 'k-means++' or 'random'."
        )
    whole = given.dtype.kind in "iu" or (
        given.dtype.kind == "f" and bool((given == np.floor(given)).all())
    )
    if not whole or given.min() < 0 or given.max() >= n_clusters:
        raise ValueError(
            f"init has values such as {given[:3].tolist()}; expected the cluster of "
            f"each row, whole numbers from 0 to n_clusters - 1 = {n_clusters - 1}."
        )
    return given.astype(np.int64)


_IN_WORDS = {1: "one", 2: "two"}


def weights_with_classes(
    sample_weight: np.ndarray | None,
    class_weight,
    classes: np.ndarray,
    indices,
    *,
    at_least: int = 2,
) -> np.ndarray | None:
    """Multiply row weights by class weights; rows of some classes must remain.

    ``"balanced"`` counts rows with their weights. ``at_least`` is how many classes.
    """
    weight = sample_weight
    if class_weight is not None:
        balanced = isinstance(class_weight, str) and class_weight == "balanced"
        if not (balanced or isinstance(class_weight, dict)):
            raise ValueError(
                f"class_weight={class_weight!r} must be None, 'balanced' or a dict "
                "{class: weight}."
            )
        by_class = _class_weights(sample_weight, class_weight, classes, indices)
        weight = by_class if weight is None else weight * by_class
    if weight is not None:
        present = np.bincount(indices, weights=weight, minlength=len(classes)) > 0
        if present.sum() < at_least:
            raise ValueError(
                f"Of the classes {classes.tolist()} only {classes[present].tolist()} "
                f"have rows of positive weight; at least {_IN_WORDS[at_least]} must. "
                "Check sample_weight and class_weight."
            )
    check_weight_range(weight)
    return weight


def _class_weights(sample_weight, class_weight, classes, indices) -> np.ndarray:
    if isinstance(class_weight, dict):
        _check_class_weights(class_weight, classes)
        return compute_sample_weight(class_weight, classes[indices])
    weights = np.ones(len(indices)) if sample_weight is None else sample_weight
    counts = np.bincount(indices, weights=weights, minlength=len(classes))
    share = np.divide(1.0, counts, out=np.zeros_like(counts), where=counts > 0)
    return (counts.sum() / len(classes) * share)[indices]


def _check_class_weights(class_weight: dict, classes: np.ndarray) -> None:
    for label, weight in class_weight.items():
        if label not in classes.tolist():
            raise ValueError(
                f"class_weight has {label!r}, which is not a class of y; the classes "
                f"are {classes.tolist()}."
            )
        ok = isinstance(weight, numbers.Real) and np.isfinite(weight) and weight >= 0
        if not ok:
            raise ValueError(
                f"class_weight[{label!r}]={weight!r} must be a finite number, zero or "
                "more."
            )


# ----------------------------------------------------------------------------------
# What every kernel estimator shares: rows in, kernel and device arrays out.
# ----------------------------------------------------------------------------------


class KernelInputMixin:
    """For estimators with kernel, gamma, degree, coef0, device and memory_budget.

    Parameters
    ----------
    kernel : str, kernel object or callable
        A name, an object of :mod:`kaucus.kernels`, or a function ``k(X, Y)``.
        Names: ``"linear"``, ``"poly"``, ``"rbf"``, ``"exponential"``, ``"matern32"``,
        ``"matern52"``, ``"rational_quadratic"``, ``"cauchy"``,
        ``"sigmoid"``, ``"cosine"``, ``"laplacian"``, ``"precomputed"``.
    gamma : {"scale", "auto", "median"} or float
        Width of the kernel; ``"scale"`` is 1 / (n_features X.var()), ``"auto"`` is
        1 / n_features, ``"median"`` is from the median distance between rows (see
        :func:`kaucus.kernels.median_gamma`).
    degree : int
        Degree of ``"poly"``.
    coef0 : float
        Constant of ``"poly"`` and ``"sigmoid"``.
    """

    # Words that the kernel may be beside the names of kernels.
    _kernel_words = ("precomputed",)
    _parameters: ClassVar = {
        "gamma": POSITIVE | one_of("scale", "auto", "median"),
        "degree": count(),
        "coef0": FINITE,
        "precision": PRECISION,
        "memory_budget": MEMORY_BUDGET,
        "random_state": RANDOM_STATE,
    }

    def _check_combinations(self) -> None:
        if isinstance(self.kernel, str) and self.kernel not in self._kernel_words:
            kernel_class(self.kernel, also=self._kernel_words)

    def _validate(self, X, y="no_validation", *, reset: bool, **options):
        """Return ``X`` as floats of its own kind (and ``y`` as a NumPy array)."""
        if self._precomputed and not reset:
            self._check_width(X)
        checked = validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse=False if self._precomputed else "csr",
            dtype=nx.working_types(self.precision),
            **options,
        )
        if not self._precomputed:
            rows = checked[0] if isinstance(checked, tuple) else checked
            check_magnitude(rows, fitted=reset)
            if reset and self.precision == "tf32":
                self._tell_of_float32(rows)
        return checked

    def _tell_of_float32(self, rows) -> None:
        device = self.device or (nx.device_of(rows) if nx.is_tensor(rows) else "cpu")
        if "cuda" not in str(device):
            nx.warn_user(
                "precision='tf32' is for a GPU; here X is computed with on the host, "
                "in float32. Pass device='cuda', or precision='float32'.",
                UserWarning,
            )

    def _check_width(self, K) -> None:
        shape = tuple(getattr(K, "shape", None) or np.shape(K))
        width = shape[1:]
        if len(width) == 1 and width[0] != self.n_features_in_:
            raise ValueError(
                f"kernel='precomputed' needs k(X_new, X_fit), one column for each of "
                f"the {self.n_features_in_} training rows, got shape {shape}."
            )

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _resolve_kernel(self, X, sample_weight, gamma=None, kernel=None):
        """Return the kernel object, with gamma as a number; None if precomputed."""
        if self._precomputed:
            check_precomputed(X)
            return None
        gamma = self.gamma if gamma is None else gamma
        named = self.kernel if kernel is None else kernel
        kernel = resolve_kernel(
            named,
            gamma=resolve_gamma(gamma, X, nx.as_like(sample_weight, X), named),
            also=self._kernel_words,
            degree=self.degree,
            coef0=self.coef0,
        )
        check_kernel_values(kernel, X)
        # A function of the user's: does it return a matrix?
        some = longest_rows(X)
        some = nx.take_rows(some, np.arange(min(some.shape[0], 3)))
        kernel(some[:2, :], some)
        return kernel

    def _warn_of_one_column(self, X) -> None:
        names = getattr(self, "feature_names_in_", None)
        warn_of_one_column(X, self.kernel, names)

    def _kernel_and_rows(self, kernel, X):
        """Return kernel and rows on the device; row numbers for a given matrix.

        Rows that do not fit there stay, and are seen from there.
        """
        if kernel is not None:
            return kernel, self._placed(X)
        kernel = Precomputed(on_device(X, self.device))
        return kernel, kernel.row_numbers()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        tags.input_tags.pairwise = self._precomputed
        return tags


def on_device(X, device):
    """Return ``X`` on the device; CSR matrices stay on the host."""
    if nx.is_sparse(X):
        if device not in (None, "cpu"):
            raise ValueError(
                f"device={device!r} takes dense data only; X is sparse. Use "
                "device=None, or X.toarray()."
            )
        return X
    return nx.to_device(X, device)


def place_rows(X, device, memory_budget):
    """Return ``X`` on the device, or as ``HostRows`` if it does not fit."""
    if nx.is_sparse(X):
        return on_device(X, device)
    return rows_for_device(X, device, memory_budget)


def map_rows(function, X, device, memory_budget):
    """Return a function of all rows, computed on the device, in the kind of ``X``.

    Rows that do not fit there are streamed in blocks.
    """
    rows = place_rows(X, device, memory_budget)
    parts = [nx.as_like(function(b.rows), X) for b in as_rows(rows, 1).blocks()]
    return nx.joined(parts)


def in_precision_of(fitted, X):
    """Return fitted rows in the library, device and precision of ``X``."""
    return nx.astype(nx.as_like(fitted, X), nx.dtype_name(X))


def place_support(fitted, rows, device, memory_budget):
    """Return training rows on the device of the rows to predict, or as ``HostRows``.

    They are as many as were fitted, and need not fit on the device. Their precision
    stays: what they lose by rounding, large coefficients multiply.
    """
    if nx.is_tensor(rows) and nx.is_numpy(fitted) and device not in (None, "cpu"):
        return rows_for_device(fitted, device, memory_budget)
    return nx.as_like(fitted, rows)


# ---- columns that distances hardly see, values far from all seen ---------------------

# Bytes of rows that are looked at together, and columns that a warning names.
_BLOCK_BYTES, _MOST_NAMES = 2**22, 5
# Of all the variance, in one column, by so many rows.
_NEARLY_ALL, _VARIANCE_ROWS = 0.9, 10_000


def is_auto(kernel: object) -> bool:
    """Return True if the kernel is left to be chosen."""
    return isinstance(kernel, str) and kernel == "auto"


def learns_metric(learn_metric: object, kernel: object, gamma: object) -> bool:
    """Return True if a metric is learned: if asked, or if all else is left open."""
    if isinstance(learn_metric, str):
        return is_auto(kernel) and isinstance(gamma, str) and gamma == "tune"
    return bool(learn_metric)


def is_of_distances(kernel: object) -> bool:
    """Return True if a kernel or a kernel's name depends on distances."""
    if is_auto(kernel):
        return True
    cls = type(kernel)
    if isinstance(kernel, str) and kernel in kernel_names():
        cls = kernel_class(kernel)
    scale_free = issubclass(cls, MahalanobisRBF)
    return issubclass(cls, DistanceKernel | Laplacian) and not scale_free


def warn_of_one_column(X: Array, kernel: object, names=None) -> None:
    """Warn where one column carries nearly all the variance that distances see."""
    X = longest_rows(X)  # of rows in parts two, which tell nothing
    if nx.is_sparse(X) or X.shape[0] <= 2 or X.shape[1] < 2:
        return
    if not is_of_distances(kernel):
        return
    some = X[:: max(X.shape[0] // _VARIANCE_ROWS, 1), :]
    variances = np.var(nx.to_numpy(some).astype(np.float64), axis=0)
    total, c = float(np.sum(variances)), int(np.argmax(variances))
    if total > 0 and variances[c] > _NEARLY_ALL * total:
        name = f"Column {c}" if names is None else f"Column {names[c]!r}"
        share = 100 * variances[c] / total
        nx.warn_user(
            f"{name} carries {share:.2f} % of the variance of X, so distances hardly "
            "see the other columns. Standardise them, for example with "
            "make_pipeline(StandardScaler(), ...), or let LearnedMetric scale them.",
            UserWarning,
        )


def warn_of_wild_rows(model, X: Array, row_map: RowMap) -> None:
    """Warn of new rows with values far beyond the training range.

    A model of partitions has a list of the warnings that it may still give.
    """
    if row_map.limits is None or nx.is_sparse(X):
        return
    n_rows, columns = 0, np.zeros(X.shape[1], dtype=bool)
    for rows in row_blocks(X.shape[0], nx.itemsize(X) * X.shape[1], _BLOCK_BYTES):
        wild = row_map.beyond(X[rows, :])
        xp = nx.array_namespace(wild)
        columns |= nx.to_numpy(xp.any(wild, axis=0))
        n_rows += int(xp.count_nonzero(xp.any(wild, axis=1)))
    left = getattr(model, "_warnings_left", None)
    if not n_rows or left == []:
        return
    part = ""
    if left is not None:
        left.clear()
        part = " of one partition (others are not counted)"
    names, found = getattr(model, "feature_names_in_", None), np.flatnonzero(columns)
    which = [int(c) if names is None else str(names[c]) for c in found[:_MOST_NAMES]]
    more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
    nx.warn_user(
        f"{n_rows} of {X.shape[0]} rows{part} have a value beyond every training row "
        f"and more than ten spreads from the training median, in columns {which}{more};"
        " their predictions are of values bounded there.",
        UserWarning,
    )


def validated_new_rows(model, X):
    """Return new rows of a fitted model, checked; warn of values far from all seen."""
    X = model._validate(X, reset=False)
    kernel = getattr(model, "kernel_", None)
    if isinstance(kernel, MappedKernel):
        warn_of_wild_rows(model, X, kernel.row_map)
    return X


def gradients_at(model, X):
    """Return the gradients of a model at rows, (n, t, d), in the precision of X."""
    if nx.is_sparse(X):
        raise TypeError("gradient takes dense rows, got a CSR matrix; X.toarray().")
    X = validated_new_rows(model, X)
    G = map_rows(model._gradients_on_device, X, model.device, model.memory_budget)
    return nx.astype(G, nx.dtype_name(X))


# ---- a given kernel matrix -----------------------------------------------------------


def check_precomputed(K: Array) -> None:
    """Check that a precomputed training matrix can be a kernel matrix.

    Square, symmetric to rounding, and with no 2 × 2 minor that is negative, which
    finds most indefinite matrices in one pass over K, before it is factored.
    """
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square matrix of the training rows, got "
            f"shape {tuple(K.shape)}; pass k(X, X) to fit and k(X_new, X) to predict."
        )
    xp, on_diagonal = nx.array_namespace(K), diagonal(K)
    if bool(xp.any(on_diagonal < 0)):
        i = int(xp.argmin(on_diagonal))
        raise ValueError(
            f"The precomputed kernel matrix has K[{i}, {i}] = "
            f"{float(on_diagonal[i]):.3g}; the diagonal of a positive semidefinite "
            "matrix is not negative. A matrix of distances is no kernel matrix; "
            "exp(-gamma * distances**2) is one."
        )
    slack = 1e3 * nx.epsilon(K) * max(float(xp.max(on_diagonal)), 1e-300)
    roots = xp.sqrt(on_diagonal)
    for start in range(0, K.shape[0], 512):
        rows = slice(start, min(start + 512, K.shape[0]))
        _check_symmetric(K, rows, slack)
        _check_minors(K, rows, roots, slack)


def _check_symmetric(K: Array, rows: slice, slack: float) -> None:
    xp = nx.array_namespace(K)
    difference = xp.abs(K[rows, :] - K[:, rows].T)
    largest = float(xp.max(xp.abs(K[rows, :])))
    if float(xp.max(difference)) > max(slack, 1e-6 * largest):
        i, j = _place_of_largest(difference, rows)
        raise ValueError(
            f"The precomputed kernel matrix is not symmetric: K[{i}, {j}] = "
            f"{float(K[i, j]):.6g}, K[{j}, {i}] = {float(K[j, i]):.6g}. Pass "
            "(K + K.T) / 2 if the difference is noise."
        )


def _check_minors(K: Array, rows: slice, roots: Array, slack: float) -> None:
    xp = nx.array_namespace(K)
    excess = xp.abs(K[rows, :]) - roots[rows][:, None] * roots[None, :]
    if float(xp.max(excess)) > max(slack, 1e-6 * float(xp.max(roots)) ** 2):
        i, j = _place_of_largest(excess, rows)
        raise ValueError(
            f"The precomputed kernel matrix is indefinite: K[{i}, {j}]² = "
            f"{float(K[i, j]) ** 2:.6g} exceeds K[{i}, {i}] K[{j}, {j}] = "
            f"{float(K[i, i]) * float(K[j, j]):.6g}. Use a positive semidefinite "
            "kernel, or shift its eigenvalues: K + λ I."
        )


def _place_of_largest(block: Array, rows: slice) -> tuple[int, int]:
    """Return row and column of the largest entry of a block of rows."""
    xp = nx.array_namespace(block)
    i, j = divmod(int(xp.argmax(xp.reshape(block, (-1,)))), block.shape[1])
    return i + rows.start, j


# ----------------------------------------------------------------------------------
# The one progress bar of the package: drawn on a terminal and in a notebook. A log has
# a line for each stage that has ended, and of a longer one every ten seconds.
# ----------------------------------------------------------------------------------

_WIDTH = 24
_CLEAR_REST = "\x1b[K"  # of the line, from where the cursor is
_LOG_SECONDS = 10


def step_reporter(
    verbose: int, tol: float, max_iter: int, *, what: str = "residual"
) -> Callable[[int, float], None] | None:
    """Return a callback ``(step, residual)`` that draws a bar, or None if not shown.

    A third argument, what the step has made, is not shown. The bar is full when the
    residual has come down from 1 to ``tol``, measured in powers of ten, because
    conjugate gradients converge about linearly.
    """
    if not verbose:
        return None
    told = [time.monotonic()]

    def report(step: int, residual: float, state: object = None) -> None:
        share = math.log(max(residual, tol)) / math.log(tol) if tol < 1 else 1.0
        text = f"step {step}, {what} {residual:.1e} (tol {tol:.0e})"
        _draw(share, text, told, ends=residual <= tol or step >= max_iter)

    return report


def share_reporter(verbose: int, what: str) -> Callable[[int, int], None] | None:
    """Return a callback ``(n_done, n_total)`` that draws a bar, or None if not shown.

    The bar tells the time left.
    """
    if not verbose:
        return None
    told = [start := time.monotonic()]

    def report(n_done: int, n_total: int) -> None:
        left = _time_left(start, n_done, n_total)
        text = f"{what} {n_done} of {n_total}{left}"
        _draw(n_done / max(n_total, 1), text, told, ends=n_done >= n_total)

    return report


def step_counter(verbose: int, total: int, what: str) -> Callable[[], None]:
    """Return a function that counts one step of ``total`` and draws the bar."""
    report, done = share_reporter(verbose, what), [0]

    def count() -> None:
        done[0] += 1
        if report is not None:
            report(done[0], total)

    return count


def tell_stage(verbose: int, text: str) -> None:
    """Print the current stage, for work without a measure of progress."""
    if verbose:
        print(f"[kaucus] {text}", file=sys.stderr, flush=True)


def _time_left(start: float, n_done: int, n_total: int) -> str:
    if not n_done:
        return ""
    seconds = time.monotonic() - start
    if n_done >= n_total:
        return f" in {seconds:.1f} s"
    return f", {seconds * (n_total - n_done) / n_done:.0f} s left"


def _draw(share: float, text: str, told: list, ends=False, stream=None) -> None:
    """Draw the bar over the last one, or print a line; ``told`` says when the last."""
    stream = sys.stderr if stream is None else stream
    in_notebook = type(stream).__module__.startswith("ipykernel")
    if not in_notebook and not stream.isatty():
        if ends or time.monotonic() - told[0] > _LOG_SECONDS:
            told[0] = time.monotonic()
            print(f"[kaucus] {text}", file=stream, flush=True)
        return
    filled = int(_WIDTH * min(max(share, 0.0), 1.0))
    bar = "█" * filled + "·" * (_WIDTH - filled)
    columns = shutil.get_terminal_size().columns
    line = f"[kaucus] {bar} {text}"[: columns - 1]  # a line that wraps is not erased
    rest = " " * (columns - 1 - len(line)) if in_notebook else _CLEAR_REST
    print(f"\r{line}{rest}", end="\n" if ends else "", file=stream, flush=True)


# ---- what a model says of itself -----------------------------------------------------


class Explanation(str):
    """A text, and a table of its parts where a notebook shows it."""

    parts: dict[str, str]

    def _repr_html_(self) -> str:
        row = '<tr><th>{}</th><td style="text-align: left">{}</td></tr>'
        rows = [row.format(name, escape(part)) for name, part in self.parts.items()]
        return f"<table>{''.join(rows)}</table>"


try:  # scikit-learn's callbacks, since 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """Without ``set_callbacks``, as there are none."""

    def with_callbacks(method):
        """Return the method."""
        return method


def has_callbacks(model: BaseEstimator) -> bool:
    """Return True if callbacks of scikit-learn's wait for a fit."""
    return any(n in vars(model) for n in ("_skl_callbacks", "_parent_callback_ctx"))


class FitMonitor:
    """The fit of a model and each of its steps, told to scikit-learn's callbacks.

    ``given`` has what they are told each time: ``X``, ``y`` and ``metadata``.
    """

    def __init__(self, model: BaseEstimator, **given: Any):
        self._model, self._given, self._task = model, {"estimator": model} | given, None
        self._context = model._init_callback_context(max_subtasks=None)
        self._context.call_on_fit_task_begin(**self._given)

    def begin(self) -> None:
        """Begin a step."""
        self._task = self._context.subcontext(task_name="step")
        self._task.call_on_fit_task_begin(**self._given)

    def end_step(self, fitted: Callable[[], dict]) -> bool:
        """End a step and begin the next; whether a callback asks for the end.

        ``fitted`` returns the attributes of the model that the step has made.
        """
        stop = self._task.call_on_fit_task_end(
            **self._given, reconstruction_attributes=fitted
        )
        self.begin()
        return stop

    def end(self) -> None:
        """End the fit."""
        fitted = {k: v for k, v in vars(self._model).items() if k.endswith("_")}
        if self._task is not None:
            self._task.call_on_fit_task_end(**self._given)
        self._context.call_on_fit_task_end(
            **self._given, reconstruction_attributes=fitted
        )


# ----------------------------------------------------------------------------------
# Packages that only some users need, ONNX among them: imported late, or missed.
# ----------------------------------------------------------------------------------


class MissingPackageError(ModuleNotFoundError):
    """An optional package is needed and not installed."""


def require(module: str, extra: str) -> Any:
    """Import a module, or raise an error with the extra that installs it.

    Parameters
    ----------
    module : str
        For example ``"skops.io"``.
    extra : str
        The extra of kaucus that has it.
    """
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise MissingPackageError(
            f"{package} is not installed; this needs it: pip install 'kaucus[{extra}]'"
        )
    return importlib.import_module(module)


# ---- the method of estimators that ONNX has a form for -------------------------------


def to_onnx(self, *, dtype="float32"):
    """Return the fitted model as an ONNX model.

    Parameters
    ----------
    dtype : {"float32", "float64"}, default="float32"
        Of the rows that the graph takes, and of the numbers that it returns;
        see :func:`kaucus.onnx.to_onnx`, which takes pipelines too.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(result, "model.onnx")`` writes it.
    """
    # By name: graphs are made of estimators, not the other way round.
    return importlib.import_module("kaucus.onnx").to_onnx(self, dtype=dtype)


# ----------------------------------------------------------------------------------
# Docstrings of estimators, each part written once.
#
# Who checks a parameter, or stores an attribute, describes it: a base class or a mixin.
# An estimator's own docstring has what is its own, and is completed when the class is
# made, with the defaults of its signature. So ``help`` and the reference show all of
# it.
# ----------------------------------------------------------------------------------

# A title with a line of dashes below it, and all that follows up to the next one.
_SECTION = r"(?P<head>^{title}\n-+\n)(?P<body>.*?)(?=^[A-Z][^\n]*\n-+\n|\Z)"
# A name, and perhaps its type, at the margin, and the lines set in below it.
_ENTRY = re.compile(r"^(?P<name>\w+)\b[^\n]*(?:\n[ \t]+\S[^\n]*)*", re.MULTILINE)


def complete_docstring(cls: type) -> None:
    """Complete a class's docstring with the parameters and attributes of its bases."""
    if "__init__" not in vars(cls) or not cls.__doc__:
        return
    docs = [inspect.cleandoc(vars(base).get("__doc__") or "") for base in cls.__mro__]
    parameters = dict(inspect.signature(cls.__init__).parameters)
    del parameters["self"]
    known = _described(docs, "Parameters")
    doc = _replaced(
        docs[0],
        "Parameters",
        [_with_default(known[n], p) for n, p in parameters.items() if n in known],
    )
    attributes = _described(docs, "Attributes").values()
    cls.__doc__ = _replaced(doc, "Attributes", list(attributes))


def _described(docs: list[str], title: str) -> dict[str, str]:
    """Return the entries of a section by name, from the first docstring with each."""
    entries: dict[str, str] = {}
    for doc in docs:
        found = _section(title).search(doc)
        for entry in _ENTRY.finditer(found["body"] if found else ""):
            entries.setdefault(entry["name"], entry[0])
    return entries


def _section(title: str) -> re.Pattern[str]:
    text = _SECTION.replace("{title}", title)
    return re.compile(text, re.MULTILINE | re.DOTALL)


def _with_default(entry: str, parameter: inspect.Parameter) -> str:
    """Return an entry with the signature's default added if missing."""
    head, _, text = entry.partition("\n")
    if parameter.default is parameter.empty or "default=" in entry:
        return entry
    value = parameter.default
    written = f'"{value}"' if isinstance(value, str) else repr(value)
    return f"{head}, default={written}\n{text}"


def _replaced(doc: str, title: str, entries: list[str]) -> str:
    """Return a docstring with the entries of one section replaced."""
    body = "\n".join(entries) + "\n\n"
    return _section(title).sub(lambda found: found["head"] + body, doc)


# ----------------------------------------------------------------------------------
# Dask collections at the edge: fitted part by part, or refused at once.
#
# Rows of a Dask array or frame are never read into one place behind anybody's back.
# What is a function of each row by itself is lazy (``rowwise``), scores are sums over
# partitions, and a fit takes the rows as a source of parts, if the estimator can
# (``_dask_fit``), or says what to do.
# ----------------------------------------------------------------------------------


def is_dask(values: Any) -> bool:
    """Return True if values are a Dask collection, without importing dask."""
    return hasattr(values, "__dask_graph__")


def gathered(values: Any) -> Any:
    """Return labels, targets or weights of a Dask collection as a NumPy array."""
    if not is_dask(values):
        return values
    from kaucus.distributed import values_of

    return values_of(values)


def validate_partitions(
    estimator: BaseEstimator, X: Any, y: Any, *, dtype: Any, reset: bool, **options: Any
) -> Any:
    """Return rows in partitions, or a row source, as a source; targets as an array.

    Of an estimator that learns nothing from the values, a row of zeros.
    """
    how = getattr(estimator, "_dask_fit", None)
    if how is None or not reset:
        raise refusal(estimator, "fit" if reset else "this method")
    if nx.is_sparse(getattr(X, "_meta", None)) and not options.get("accept_sparse"):
        raise TypeError(
            f"The partitions of X are sparse, and {type(estimator).__name__} needs "
            "dense rows; pass X.map_blocks(lambda block: block.toarray())."
        )
    types = dtype if isinstance(dtype, tuple) else (np.float64, np.float32)
    if isinstance(X, RowSource):
        rows = X
    elif how == "columns":
        rows = np.zeros((1, X.shape[1]), X.dtype if hasattr(X, "chunks") else types[0])
    else:
        from kaucus.distributed import rows_of

        rows = rows_of(
            X,
            types,
            memory_budget=getattr(estimator, "memory_budget", None),
            device=getattr(estimator, "device", None),
            name=type(estimator).__name__,
        )
    checked = _with_targets(estimator, rows, y, **options)
    if hasattr(X, "columns"):
        remember_columns(estimator, X._meta_nonempty)
    return checked


def _with_targets(estimator: BaseEstimator, rows: Any, y: Any, **options: Any) -> Any:
    """Return rows, and targets if given, after scikit-learn's own checks.

    It looks at shape and targets, and need not see the values of the rows for that.
    """
    shape_alone = np.broadcast_to(np.zeros(()), tuple(rows.shape))
    options = options | {"ensure_all_finite": False}
    options.pop("accept_sparse", None)
    checked = _validate_data(estimator, shape_alone, y, **options)
    return (rows, *checked[1:]) if isinstance(checked, tuple) else rows


def remember_columns(estimator: BaseEstimator, frame: Any) -> None:
    """Store number and names of the columns of a frame, as scikit-learn does."""
    _validate_data(estimator, frame, reset=True, skip_check_array=True)


def refusal(
    estimator: Any,
    method: str,
    what: str = "a Dask collection",
    some: str = "X[:10_000].compute()",
) -> TypeError:
    """Return the error of a method that needs all rows in one place.

    ``what`` the rows are, and how to get ``some`` of them.
    """
    name = type(estimator).__name__
    if method == "partial_fit":
        remedy = (
            "Call fit, which takes Dask collections as they are, or partial_fit with "
            "each partition in turn, X.partitions[i].compute()."
        )
    else:
        others = (
            "KMeansKernelClassifier, KMeansKernelRegressor, SphericalKMeans, "
            "KernelOutlierDetector, LearnedMetric, RepresentativeFeatures and "
            "KernelKMeans(approximation='nystrom') fit rows of Dask collections."
        )
        remedy = (
            f"{getattr(estimator, '_dask_remedy', others)} Or fit {name} to a part of "
            f"the rows in memory, for example {some}, and apply it to all."
        )
    return TypeError(
        f"{method} of {name} needs all rows in one place, and X is {what}, which is "
        f"not read into memory as a whole. {remedy}"
    )


# ----------------------------------------------------------------------------------
# What a fit leaves behind: a whole model or none, with its arrays where X was.
#
# Kernels and partitions keep their own arrays, which are small, with NumPy, and copy
# them to where they are asked; labels stay NumPy arrays as well. All other arrays of a
# fitted estimator follow X, and so do results of methods of each row (:func:`rowwise`).
#
# An error or Ctrl-C during ``fit`` or ``partial_fit`` reaches the caller, and leaves
# the estimator as it was before the call. What is long and compiled is cut, or runs in
# a thread (``interruptible``), so that Ctrl-C is answered within about a second.
# ----------------------------------------------------------------------------------


class Packed(NamedTuple):
    """A tensor on its way to another machine, which may have neither GPU nor torch."""

    values: np.ndarray
    place: str


SITE = "https://kaucus.github.io/kaucus"


class FollowsX:
    """Mixin of every estimator: ``fit`` leaves a whole model where its rows were.

    Parameters are checked by the tables of the class and its bases (``_parameters``),
    and scikit-learn's HTML picture links to the reference.

    Parameters
    ----------
    device : str
        Where to compute, such as ``"cuda"``, which needs torch; None: where ``X`` is.
    memory_budget : int or str
        Bytes, or a string such as ``"4GiB"``; None is three quarters of what is free.
    verbose : int
        1 shows progress: a bar on a terminal and in a notebook, lines in a log.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where ``X`` had names that are all strings.
    """

    _parameters: ClassVar[dict[str, Any]] = {}
    _doc_link_module = "kaucus"
    _doc_link_template = SITE + "/{version}/reference/{module}.{name}.html"

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        complete_docstring(cls)
        for name in ("fit", "fit_transform", "partial_fit"):
            if name in vars(cls):
                setattr(cls, name, _whole(vars(cls)[name]))

    @staticmethod
    def _told(parts: dict[str, str], text: str | None = None) -> Explanation:
        """Return the parts that are not empty, or a text that has them."""
        parts = {name: part for name, part in parts.items() if part}
        told = Explanation(" ".join(parts.values()) if text is None else text)
        told.parts = parts
        return told

    def _check_parameters(self) -> None:
        """Validate the parameters, before the data."""
        mine = self.get_params(deep=False)  # type: ignore[attr-defined]
        for name, constraint in constraints_of(type(self)).items():
            if name in mine:
                constraint.check(name, mine[name])
        self._check_combinations()

    def _check_combinations(self) -> None:
        """Check parameters that depend on each other."""

    def _placed(self, X):
        """Return rows on the device, or as ``HostRows`` if they do not fit."""
        return place_rows(X, self.device, self.memory_budget)

    def _map_rows(self, function, X):
        """Return a function of all rows, computed on the device, in the kind of X."""
        return map_rows(function, X, self.device, self.memory_budget)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.array_api_support = True
        return tags

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return the public name of the class for its documentation link.

        Each minor version of the site has a folder of its own, such as ``0.1``.
        """
        package, folder = type(self).__module__.split(".")[:2]
        module = package if folder == "estimators" else f"{package}.{folder}"
        # The package itself is above all layers, and is imported when this runs.
        version = ".".join(sys.modules[package].__version__.split(".")[:2])
        return {"version": version, "module": module, "name": type(self).__name__}

    def to_device(self, device) -> Self:
        """Move the fitted model, in place.

        Parameters
        ----------
        device : str
            ``"cuda"`` or ``"cuda:1"``: its arrays become tensors there. ``"cpu"``:
            tensors come to the host, NumPy arrays stay what they are. ``"numpy"``: all
            become NumPy arrays. Labels (``classes_``), CSR rows and the small arrays
            within kernels stay on the host.

        Returns
        -------
        self : object
            The parameter ``device``, where there is one, follows: rows to predict
            travel to the GPU that is named, or are worked on where they are.
        """
        on_host = device in ("cpu", "numpy")
        if not on_host:
            nx.to_device(np.zeros(0), device)  # before anything is moved: is it there?
        for name, value in fitted_attributes(self):
            setattr(self, name, _mapped(value, lambda x: _moved(x, device)))
        if hasattr(self, "device"):
            self.device = None if on_host else device
        return self

    def __getstate__(self):
        state = super().__getstate__()  # type: ignore[misc]
        # Lazy results, such as labels, are of data that stays where it is.
        kept = {name: value for name, value in state.items() if not is_dask(value)}
        return {name: _mapped(value, _pack) for name, value in kept.items()}

    def __setstate__(self, state):
        state = {name: _mapped(value, _unpack) for name, value in state.items()}
        device = state.get("device")
        if isinstance(device, str) and not nx.device_is_here(device):
            nx.warn_user(
                f"{type(self).__name__} was made with device={device!r}, which is not "
                "here; device=None from now on: rows are worked on where they are.",
                UserWarning,
            )
            state["device"] = None
        super().__setstate__(state)  # type: ignore[misc]


def constraints_of(cls: type) -> dict[str, Any]:
    """Return the constraints of a class and its bases; the class's own win."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base).get("_parameters", {})
    return found


Init = TypeVar("Init", bound=Callable)


def stored(init: Init) -> Init:
    """Return an ``__init__`` that stores every parameter unchanged."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def wrapped(self, *args, **kwargs):
        init(self, *args, **kwargs)  # its own errors for arguments it does not have
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        vars(self).update({k: v for k, v in given.arguments.items() if k != "self"})

    return cast(Init, wrapped)  # type checkers see the signature


def _whole(method: Any) -> Any:
    """Return the method with the estimator restored if it raises.

    What an exception has as ``kept`` stays: the iterate of an interrupted solver.
    """

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        X = args[0] if args else kwargs.get("X")
        if method.__name__ == "partial_fit" and is_dask(X):
            raise refusal(self, "partial_fit")
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            # One assignment: a second Ctrl-C finds the one state or the other.
            self.__dict__ = {**before, **getattr(error, "kept", {})}
            raise

    return wrapped


def fitted_attributes(estimator: FollowsX) -> list[tuple[str, Any]]:
    """Return the fitted attributes that may contain arrays of X's library."""
    kept = ("classes_", "feature_names_in_")
    found = vars(estimator).items()
    return [(k, v) for k, v in found if k.endswith("_") and k not in kept]


def fitted_arrays(estimator: Any) -> Iterator[tuple[str, Array]]:
    """Yield name and value of the arrays that follow X, also of estimators within.

    Of other packages' estimators within, none: these keep what they like.
    """
    if hasattr(estimator, "steps"):  # a pipeline
        for _, step in estimator.steps:
            yield from fitted_arrays(step)
    if not isinstance(estimator, FollowsX):
        return
    for name, value in fitted_attributes(estimator):
        for part in value if isinstance(value, list) else [value]:
            if nx.is_numpy(part) or nx.is_tensor(part):
                yield name, part
            elif isinstance(part, BaseEstimator):
                yield from fitted_arrays(part)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a function of a value, or of each value of a list."""
    return [function(v) for v in value] if isinstance(value, list) else function(value)


def _moved(value: Any, device: str) -> Any:
    """Return an array on the device; estimators within move themselves."""
    if isinstance(value, FollowsX):
        return value.to_device(device)
    if hasattr(value, "steps"):  # a pipeline
        for _, step in value.steps:
            _moved(step, device)
    if not (nx.is_numpy(value) or nx.is_tensor(value)):
        return value
    if device == "numpy":
        return nx.to_numpy(value)
    if nx.is_numpy(value) and value.dtype.kind not in "fiub":
        return value  # labels that are texts
    return nx.to_device(value, device)


def _pack(value: Any) -> Any:
    if not (nx.is_torch(value) or nx.is_cupy(value)):
        return value
    return Packed(nx.to_numpy(value), nx.place_of(value))


def _unpack(value: Any) -> Any:
    return nx.tensor_near(*value) if isinstance(value, Packed) else value


# ---- methods of each row by itself ---------------------------------------------------


def available_if(check: Callable[[Any], bool]) -> Callable[[Init], Init]:
    """Return scikit-learn's decorator, with a type: a method stays one."""
    return metaestimators.available_if(check)


def rowwise(method: Init) -> Init:
    """Let a method of each row by itself, such as ``predict``, follow the kind of X.

    Of a Dask collection it returns a lazy Dask array, the method of each partition;
    other rows are held to scikit-learn's rule of one library and device.
    """

    @functools.wraps(method)
    def wrapped(self, X, **options):
        if is_dask(X):
            from kaucus.distributed import lazy_method

            check_is_fitted(self)
            return lazy_method(self, method.__name__, X, options)
        _check_follows_fit(self, X, method.__name__)
        return method(self, X, **options)

    return cast(Init, wrapped)


def _check_follows_fit(estimator: BaseEstimator, X: Any, method: str) -> None:
    """Check scikit-learn's rule for ``array_api_dispatch``: the library of fit.

    Rows must then be of the library and on the device of the rows of ``fit``. With it
    off, results follow X, and the model's arrays are copied to where X is.
    """
    if not sklearn.get_config().get("array_api_dispatch"):
        return
    for _, fitted in fitted_arrays(estimator):
        if _place(fitted) == _place(X):
            return
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same "
            "namespace and the same device as those passed to fit(): it was fitted on "
            f"{_place(fitted)}, X is of {_place(X)}. Move the rows, or the model with "
            "to_device."
        )


def _place(values: Any) -> tuple[str, str]:
    if not nx.is_tensor(values):
        return "numpy", "cpu"
    return type(values).__module__.partition(".")[0], str(nx.device_of(values))


# ----------------------------------------------------------------------------------
# Rows that one machine reads batch by batch: from a function, or of a memory map.
#
# As with Dask partitions, each pass reads them once, and the fit is that of all rows.
# ----------------------------------------------------------------------------------

# Of a memory map: large enough to be read fast, small beside the work on it.
_BATCH_BYTES = 64 * 2**20
# A memory map that takes less than this share of the budget is as good as in memory.
_SMALL_SHARE = 1 / 8


def read_batches(
    batches: Callable[[], Iterable], estimator: Any
) -> tuple[BatchRows, Any, Any, Any]:
    """Return rows, targets, weights and the first batch, all read once.

    Targets and weights are stored, rows are not.

    Parameters
    ----------
    batches : callable
        Returns an iterable, anew at every call, of rows or of tuples of rows, targets
        and, perhaps, weights.
    estimator : BaseEstimator
        Its precision, memory budget and name.
    """
    if not callable(batches):
        raise TypeError(
            f"fit_batches needs a function that returns the batches anew at every "
            f"call, got {type(batches).__name__}; pass for example "
            "lambda: (load(name) for name in names)."
        )
    looks, targets, weights, first = [], [], [], None
    for batch in batches():
        rows, *rest = batch if isinstance(batch, tuple) else (batch,)
        first = rows if first is None else first
        looks.append(look_at(as_matrix(rows)))
        for given, values in zip((targets, weights), rest, strict=False):
            given.append(np.asarray(values))
    if first is None:
        raise ValueError("There are no batches; the function must return at least one.")
    source = _source(
        lambda: (as_matrix(_rows_of(batch)) for batch in batches()),
        looks,
        as_matrix(first),
        nx.working_types(getattr(estimator, "precision", None)),
        estimator,
    )
    y, weight = (np.concatenate(v) if v else None for v in (targets, weights))
    return source, y, weight, first


def is_large_map(X: Any, memory_budget: Any) -> bool:
    """Return True if X is a memory map that is to be read batch by batch."""
    if not isinstance(X, np.memmap) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return False
    in_work = X.size * max(X.dtype.itemsize, 4)
    return in_work > _SMALL_SHARE * resolve_budget(memory_budget)


def map_rows_of(X: np.memmap, types: tuple, estimator: Any) -> BatchRows:
    """Return the rows of a memory map, of which no more than a batch is copied."""
    n_bytes = min(_BATCH_BYTES, resolve_budget(estimator.memory_budget) // 16)
    slices = list(row_blocks(X.shape[0], 8 * X.shape[1], n_bytes))

    def batches():
        return (np.asarray(X[s]) for s in slices)

    looks = [look_at(rows) for rows in batches()]
    return _source(batches, looks, X, types, estimator)


def _source(read, looks, like, types, estimator: Any) -> BatchRows:
    """Return the rows, of the first of the types if they are of no other of them."""
    dtype = like.dtype if like.dtype in types else np.dtype(types[0])
    row = np.zeros((1, like.shape[1]), dtype)
    name, budget = type(estimator).__name__, resolve_budget(estimator.memory_budget)
    seen = summary_of(looks, row, "batch", range(like.shape[1]), name)
    return BatchRows(**seen, budget=budget, read=read)


def _rows_of(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple) else batch


def fit_batches(self, batches):
    """Fit rows that a function reads batch by batch.

    The model is that of ``fit`` with all rows in memory, up to rounding: they are
    read once for every pass over them, of which there are dozens. Labels and
    weights stay in memory, rows do not. For rows that come once, and never again,
    there is ``partial_fit``.

    Parameters
    ----------
    batches : callable
        Returns an iterable of batches, anew at every call: rows of shape
        (n_batch, n_features), or tuples ``(X, y)`` or ``(X, y, sample_weight)``.
        For example ``lambda: (load(name) for name in names)``.

    Returns
    -------
    self : object
    """
    self._check_parameters()
    if self._dask_fit is None:
        what = "a source of batches"
        raise refusal(self, "fit_batches", what, "the first batch")
    *data, first = read_batches(batches, self)
    self.fit(*data)
    if hasattr(first, "columns"):
        remember_columns(self, first)
    return self


# ----------------------------------------------------------------------------------
# Check arrays of every library as scikit-learn checks its own.
#
# One rule for every estimator and transformer: *results follow X*. Rows that are torch
# tensors, CuPy arrays or arrays of array-api-strict are computed with where they are,
# and what is made from them, fitted or returned, is of their library and on their
# device. Labels, targets and weights may be of any library; they follow X too.
#
# scikit-learn does the same once its setting ``array_api_dispatch`` is on, and converts
# to NumPy while it is off. Here no setting is needed; with it on, its stricter rule
# holds: what was fitted on one library predicts for rows of that library alone.
# ----------------------------------------------------------------------------------

# What scikit-learn says of columns that are not numbers, or have gaps.
_FRAME_ERRORS = (
    "Input X contains NaN",
    "could not convert string to float",
    "could not be promoted",
)


def on_host(values: Any) -> Any:
    """Return tensors and Dask vectors as NumPy arrays, everything else as it is."""
    values = gathered(values)
    return nx.to_numpy(nx.without_history(values)) if nx.is_tensor(values) else values


def validate_data(
    estimator: BaseEstimator,
    X: Any,
    y: Any = "no_validation",
    *,
    dtype: Any = "numeric",
    **options: Any,
) -> Any:
    """Check rows, and targets if given, as scikit-learn does; tensors stay tensors.

    Parameters
    ----------
    estimator : BaseEstimator
    X : array-like, CSR matrix, tensor or Dask collection of shape (n, d)
    y : array-like, tensor or Dask collection, default="no_validation"
        Returned as a NumPy array.
    dtype : "numeric", NumPy type or tuple of them, default="numeric"
        As in scikit-learn: of several types the first is converted to.
    **options
        Of :func:`sklearn.utils.validation.validate_data`.

    Returns
    -------
    X or (X, y)
        Of a Dask collection, a row source; see ``validate_partitions``.
    """
    if hasattr(estimator, "image_shape"):
        _refuse_images(X)
    y = on_host(y)
    if not options.get("multi_output"):
        y = _one_column(y)
    if _is_read_in_batches(estimator, X, options.get("reset", True)):
        X = map_rows_of(X, dtype, estimator)
    if is_dask(X) or isinstance(X, RowSource):
        reset = options.pop("reset", True)
        return validate_partitions(estimator, X, y, dtype=dtype, reset=reset, **options)
    if not nx.is_tensor(X):
        with _line_for_frames(type(estimator).__name__):
            return _validate_data(estimator, X, y, dtype=dtype, **options)
    X = _as_dtype(nx.without_history(X), dtype)
    checked = _with_targets(estimator, X, y, **options)
    _check_finite(X, type(estimator).__name__)
    return checked


def _refuse_images(X: Any) -> None:
    """Raise where pictures come with axes of their own, not as rows."""
    shape = tuple(getattr(X, "shape", ()))
    if len(shape) in (3, 4):
        raise ValueError(
            f"X has shape {shape}, {len(shape)} axes; expected one row for each "
            f"picture: X.reshape(len(X), -1), with image_shape={shape[1:]}. Channels "
            "come first."
        )


@contextlib.contextmanager
def _line_for_frames(name: str) -> Iterator[None]:
    """Context manager: errors of gaps and text name the class that takes them."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if not any(text in str(error) for text in _FRAME_ERRORS):
            raise
        first = str(error).splitlines()[0].split(". ")[0]
        raise ValueError(
            f"{name} takes numbers without gaps. TableClassifier and TableRegressor "
            "take gaps, texts and dates as they are; or put a ColumnTransformer with "
            f"SimpleImputer and OneHotEncoder before it. Seen in X: {first}"
        ) from error


def _is_read_in_batches(estimator: Any, X: Any, reset: bool) -> bool:
    """Return True if X is a memory map of training rows to be read in batches."""
    return (
        reset
        and getattr(estimator, "_dask_fit", None) == "rows"
        and estimator.device in (None, "cpu")  # a GPU has its own way
        and is_large_map(X, estimator.memory_budget)
    )


def _one_column(y: Any) -> Any:
    """Return a single column of labels with one axis, and say so; others as given."""
    if not hasattr(y, "shape") or len(y.shape) != 2 or y.shape[1] != 1:
        return y
    nx.warn_user(
        "A column-vector y was passed when a 1d array was expected. Please change the "
        "shape of y to (n_samples,), for example using ravel().",
        DataConversionWarning,
    )
    return np.asarray(y).reshape(-1)


def _as_dtype(X: Array, dtype: Any) -> Array:
    """Return X converted to the first dtype unless it has one of them."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: shape {tuple(X.shape)}. "
            "Reshape your data: X.reshape(-1, 1) if it has a single feature, "
            "X.reshape(1, -1) if it is a single sample."
        )
    if "complex" in nx.dtype_name(X):
        raise ValueError(f"Complex data not supported: X is {nx.dtype_name(X)}.")
    if isinstance(dtype, str) and dtype == "numeric":
        return nx.astype(X, "float32") if nx.dtype_name(X) == "bfloat16" else X
    names = [np.dtype(d).name for d in (dtype if isinstance(dtype, tuple) else [dtype])]
    return X if nx.dtype_name(X) in names else nx.astype(X, names[0])


def _check_finite(X: Array, name: str) -> None:
    if "float" not in nx.dtype_name(X):
        return
    xp = nx.array_namespace(X)
    # A finite sum tells it all, without a mask as large as X.
    if bool(xp.isfinite(xp.sum(X))) or bool(xp.all(xp.isfinite(X))):
        return
    what = "NaN" if bool(xp.any(xp.isnan(X))) else "infinity"
    raise ValueError(
        f"Input X contains {what}. {name} needs finite numbers; take those rows out, "
        "or fill them, for example with sklearn.impute.SimpleImputer."
    )


def score(self, X, y, sample_weight=None) -> float:
    """Return the share of labels that are predicted right; of numbers, R².

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The right labels or numbers, on any device.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.

    Returns
    -------
    float
    """
    of_numbers = is_regressor(self)
    if is_dask(X):
        from kaucus.distributed import score_accuracy, score_r2

        return (score_r2 if of_numbers else score_accuracy)(self, X, y, sample_weight)
    from sklearn.metrics import accuracy_score, r2_score  # not before: imports rich

    judge = r2_score if of_numbers else accuracy_score
    predicted, weight = on_host(self.predict(X)), on_host(sample_weight)
    return float(judge(on_host(y), predicted, sample_weight=weight))
