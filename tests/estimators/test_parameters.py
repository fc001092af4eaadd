"""Tables of parameters: every parameter has a constraint, and none is for nothing."""

from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest

from kaucus._base import (
    NONE,
    POSITIVE,
    Constraint,
    FollowsX,
    constraints_of,
    count,
    one_of,
)
from kaucus.kernels._kernel import KernelName, kernel_names
from tests.discovery import estimators, name_of

# Checked where they are used: by name or kind, against the data, or by other packages.
ELSEWHERE = {"kernel", "device", "class_weight", "n_jobs", "verbose", "partition"}
ELSEWHERE |= {"estimator", "image_shape", "patch_size"}
TABLED = [e for e in estimators() if constraints_of(type(e))]
each_estimator = pytest.mark.parametrize("estimator", TABLED, ids=name_of)


def test_every_estimator_with_a_kernel_has_tables():
    with_kernel = {name_of(e) for e in estimators() if hasattr(e, "kernel")}
    assert with_kernel <= {name_of(e) for e in TABLED}


@each_estimator
def test_every_parameter_has_a_constraint(estimator):
    names = set(estimator.get_params(deep=False))
    assert names - set(constraints_of(type(estimator))) <= ELSEWHERE


@each_estimator
def test_defaults_keep_their_constraints(estimator):
    estimator._check_parameters()


def test_the_class_of_an_estimator_has_the_last_word():
    class Base(FollowsX):
        _parameters = {"a": POSITIVE, "b": count()}  # noqa: RUF012

    class Child(Base):
        _parameters = {"a": one_of("x")}  # noqa: RUF012

    assert constraints_of(Child)["a"].admits("x")
    assert not constraints_of(Child)["a"].admits(1)
    assert constraints_of(Child)["b"].admits(1)


@pytest.mark.parametrize(
    ("constraint", "good", "bad", "words"),
    [
        (POSITIVE, [1, 0.5, 1e-300], [0, -1, "a", None, True, 10**400], "positive"),
        (count(2, 5), [2, 5], [1, 2.0, True], "2 or more"),
        (count(2, 5), [], [6], "2 or more, at most 5"),
        (POSITIVE, [], [1e-320], "1e-300 or more"),
        (one_of(1, "a"), [1, "a"], [True, 1.0, "b"], r"one of \[1, 'a'\]"),
        (count() | NONE, [3, None], [0, "None"], "1 or more, or None"),
    ],
)
def test_constraints(constraint: Constraint, good, bad, words):
    for value in good:
        constraint.check("it", value)
    for value in bad:
        with pytest.raises(ValueError, match=f"^it=.* must be .*{words}"):
            constraint.check("it", value)


def test_a_remedy_follows_and_long_values_are_cut():
    with pytest.raises(ValueError, match=r"x{39}\.\.\. \(102 characters\).*Try 1\.$"):
        POSITIVE.advise("Try 1.").check("C", "x" * 100)


# ---- types for type checkers ---------------------------------------------------------


def words_in(hint):
    """Return the values of the literals of a type, of unions too."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    if get_origin(hint) not in (Union, UnionType):
        return set()
    return set().union(*map(words_in, get_args(hint)))


@each_estimator
def test_types_have_the_words_of_the_tables(estimator):
    """A word that a type names is taken, and those of a table are all named."""
    cls = type(estimator)
    hints, table = get_type_hints(cls.__init__), constraints_of(cls)
    names = set(estimator.get_params(deep=False)) - {"estimator"}
    assert names <= set(hints)
    for name in names & set(table):
        words = words_in(hints[name])
        assert all(table[name].admits(word) for word in words), name
        told = {w for w in table[name].expected.split("'")[1::2] if w.isidentifier()}
        taken = {word for word in told if table[name].admits(word)}
        assert not words or taken <= words, name


def test_types_name_every_kernel():
    assert set(get_args(KernelName)) == {*kernel_names(), "auto", "precomputed"}
