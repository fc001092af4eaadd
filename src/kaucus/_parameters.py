"""Parameters of estimators: tables of constraints, checks, names of kernels."""

import math
import numbers
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TextIO

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, column_or_1d

from kaucus._array import namespace as nx
from kaucus._array.blocks import parse_bytes, row_blocks
from kaucus._array.linalg import diagonal
from kaucus._array.namespace import Array
from kaucus._array.rows import (
    as_rows,
    longest_rows,
    rows_for_device,
)
from kaucus._base import on_host, validate_data
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
        ``"linear"``, ``"poly"``, ``"rbf"``, ``"exponential"``, ``"matern32"``,
        ``"matern52"``, ``"rational_quadratic"``, ``"cauchy"``,
        ``"sigmoid"``, ``"cosine"``, ``"laplacian"``, ``"precomputed"``, an object from
        :mod:`kaucus.kernels`, or a function ``k(X, Y)`` that returns the matrix.
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

    def _placed(self, X):
        """Return rows on the device, or as ``HostRows`` if they do not fit."""
        return place_rows(X, self.device, self.memory_budget)

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
    return parts[0] if len(parts) == 1 else nx.array_namespace(parts[0]).concat(parts)


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
# The one progress bar of the package: drawn on a terminal, never in a log.
# ----------------------------------------------------------------------------------

_WIDTH = 24
_CLEAR_REST = "\x1b[K"  # of the line, from where the cursor is


def step_reporter(
    verbose: int, tol: float, max_iter: int, *, what: str = "residual"
) -> Callable[[int, float], None] | None:
    """Return a callback ``(step, residual)`` that draws a bar, or None if not shown.

    The bar is full when the residual has come down from 1 to ``tol``, measured in
    powers of ten, because conjugate gradients converge about linearly.
    """
    if not _is_shown(verbose):
        return None

    def report(step: int, residual: float) -> None:
        share = math.log(max(residual, tol)) / math.log(tol) if tol < 1 else 1.0
        text = f"step {step}, {what} {residual:.1e} (tol {tol:.0e})"
        _draw(share, text, ends=residual <= tol or step >= max_iter)

    return report


def share_reporter(verbose: int, what: str) -> Callable[[int, int], None] | None:
    """Return a callback ``(n_done, n_total)`` that draws a bar, or None if not shown.

    The bar tells the time left.
    """
    if not _is_shown(verbose):
        return None
    start = time.monotonic()

    def report(n_done: int, n_total: int) -> None:
        left = _time_left(start, n_done, n_total)
        text = f"{what} {n_done} of {n_total}{left}"
        _draw(n_done / max(n_total, 1), text, ends=n_done >= n_total)

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
    if _is_shown(verbose):
        print(f"[kaucus] {text}", file=sys.stderr, flush=True)


class StepProgress:
    """Progress of long steps, each of which leaves a line of text.

    On a terminal the lines are above a bar; in a log there are the lines alone.

    Parameters
    ----------
    total : int
        Number of steps.
    stream : text stream, default=None
        Where to; None is the standard error.
    """

    def __init__(self, total: int, stream: TextIO | None = None):
        self._total, self._done = total, 0
        self._stream = sys.stderr if stream is None else stream
        self._has_bar = self._stream.isatty()
        self._start = time.monotonic()

    def __enter__(self) -> "StepProgress":
        return self

    def __exit__(self, *exc_info) -> None:
        if self._has_bar:
            print(f"\r{_CLEAR_REST}", end="", file=self._stream, flush=True)

    def begin(self, text: str) -> None:
        """Draw the stage that begins; logs list finished stages only."""
        if self._has_bar:
            left = _time_left(self._start, self._done, self._total)
            text = f"{self._done} of {self._total}{left}: {text}"
            _draw(self._done / max(self._total, 1), text, stream=self._stream)

    def advance(self, text: str) -> None:
        """Count one step and print its line."""
        self._done += 1
        over_the_bar = f"\r{_CLEAR_REST}" if self._has_bar else ""
        line = f"[{self._done}/{self._total}] {text}"
        print(over_the_bar + line, file=self._stream, flush=True)


def _is_shown(verbose: int) -> bool:
    return bool(verbose) and sys.stderr.isatty()


def _time_left(start: float, n_done: int, n_total: int) -> str:
    if not n_done:
        return ""
    return f", {(time.monotonic() - start) * (n_total - n_done) / n_done:.0f} s left"


def _draw(
    share: float, text: str, *, ends: bool = False, stream: TextIO | None = None
) -> None:
    """Draw the bar over the last one."""
    filled = int(_WIDTH * min(max(share, 0.0), 1.0))
    bar = "█" * filled + "·" * (_WIDTH - filled)
    columns = shutil.get_terminal_size().columns
    line = f"[kaucus] {bar} {text}"[: columns - 1]  # a line that wraps is not erased
    print(
        f"\r{line}{_CLEAR_REST}",
        end="\n" if ends else "",
        file=sys.stderr if stream is None else stream,
        flush=True,
    )
