"""The numbers of the house only fall."""

import pytest

from tests.house import CEILINGS, code_lines, lengths, named_tuples, sizes


def is_of_a_walk(name):
    return ": " in name


@pytest.mark.parametrize(
    "measure",
    # Walks are those of a process of their own, which loads Dask and fits three models.
    [sizes, pytest.param(lengths, marks=pytest.mark.slow)],
)
def test_no_number_is_above_its_ceiling(measure):
    numbers = measure()
    above = {
        name: f"{number:,}, at most {CEILINGS[name]['at_most']:,}"
        for name, number in numbers.items()
        if number > CEILINGS[name]["at_most"]
    }
    assert not above, f"take away as much as was added: {above}"
    kind = {name for name in CEILINGS if is_of_a_walk(name) == (measure is lengths)}
    unmeasured = kind - set(numbers)
    assert all(name.startswith("Dask fit") for name in unmeasured), unmeasured


def test_every_ceiling_has_a_reason():
    assert all(ceiling["reason"] for ceiling in CEILINGS.values())


def test_only_code_is_counted():
    text = '"""Head."""\n\n# why\ndef f(\n    x,\n):\n    """Doc."""\n    return x\n'
    assert code_lines(text) == 4


def test_fields_of_named_tuples_are_counted():
    import ast

    tree = ast.parse("class A(NamedTuple):\n    x: int\n    y: int = 0\n")
    assert named_tuples(list(ast.walk(tree))) == [2]
