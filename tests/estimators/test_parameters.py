"""Tables of parameters: every parameter has a constraint, and none is for nothing."""

import pytest

from kaucus._base import FollowsX, constraints_of
from kaucus._parameters import (
    NONE,
    POSITIVE,
    Constraint,
    count,
    one_of,
)
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
