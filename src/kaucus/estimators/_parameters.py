"""Parameters of estimators as tables: a constraint for each, one checker for all.

A class lists the constraints of its parameters in ``_parameters``; those of its bases
hold as well. :meth:`ChecksParameters._check_parameters` runs them all before the data
is looked at, then ``_check_combinations`` for what no single parameter can tell.

>>> positive = POSITIVE | one_of("auto")
>>> positive.check("C", "auto")
>>> positive.check("C", -1)
Traceback (most recent call last):
...
ValueError: C=-1 must be a positive, finite number, or one of ['auto'].
"""

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kaucus.backend import PRECISIONS, generator_from, parse_bytes

# The inverse of a smaller number overflows.
SMALLEST = 1e-300
# What arrays and libraries can count.
LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True)
class Constraint:
    """What a parameter may be, in code and in words."""

    admits: Callable[[Any], bool]
    expected: str
    """Completes the sentence "must be ..."."""
    remedy: str = ""
    detail: Callable[[Any], str] = lambda value: ""
    """What to add to ``expected`` for a value that is nearly right."""

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


class ChecksParameters:
    """Mixin of estimators whose parameters are tables of constraints.

    Parameters
    ----------
    device : str
        None computes where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes there and
        gives results back as the kind of ``X``. Needs torch.
    memory_budget : int or str
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
    verbose : int
        1 shows progress on a terminal.
    """

    _parameters: ClassVar[dict[str, Constraint]] = {}

    def _check_parameters(self) -> None:
        """Check everything that can be wrong before the data is looked at."""
        mine = self.get_params(deep=False)  # type: ignore[attr-defined]
        for name, constraint in constraints_of(type(self)).items():
            if name in mine:
                constraint.check(name, mine[name])
        self._check_combinations()

    def _check_combinations(self) -> None:
        """Check parameters that depend on each other."""


def constraints_of(cls: type) -> dict[str, Constraint]:
    """Return the constraints of a class and its bases; the class's own win."""
    found: dict[str, Constraint] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base).get("_parameters", {})
    return found


# ---- constraints ---------------------------------------------------------------------


def one_of(*choices: Any) -> Constraint:
    """Admit some values, told apart by type as well: 1 is not True."""

    def admits(value: Any) -> bool:
        # `in` compares with ==, which arrays answer with arrays.
        return any(
            value is choice or (type(value) is type(choice) and value == choice)
            for choice in choices
        )

    return Constraint(admits, f"one of {list(choices)}")


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


def _is_random_state(value: Any) -> bool:
    if not isinstance(value, np.random.RandomState):
        generator_from(value)  # raises with words of its own, and advances nothing
    return True


def _is_sequence_of_positive(value: Any) -> bool:
    try:
        grid = np.atleast_1d(np.asarray(value, dtype=np.float64))
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
PRECISION = one_of(*PRECISIONS)
MEMORY_BUDGET = Constraint(_is_size, "a number of bytes, a text such as '4GiB' or None")
RANDOM_STATE = Constraint(_is_random_state, "a seed, a generator or None")


# ---- values --------------------------------------------------------------------------


def is_whole(value: Any) -> bool:
    """Tell whole numbers from the rest; a bool is no number here."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def as_float(value: Any) -> float:
    """Return a number as a float: NaN for what is none, infinity for a larger one."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number such as 10**400
        return math.inf


def shortened(value: Any) -> str:
    """Return how a value is written, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"
