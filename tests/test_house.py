"""The numbers of the house only fall."""

import pytest

from tests.house import CEILINGS, code_lines, measure, named_tuples


@pytest.fixture(scope="module")
def numbers():
    return measure()


def test_no_number_is_above_its_ceiling(numbers):
    above = {
        name: f"{number:,}, at most {CEILINGS[name]['at_most']:,}"
        for name, number in numbers.items()
        if number > CEILINGS[name]["at_most"]
    }
    assert not above, f"take away as much as was added: {above}"


def test_every_ceiling_is_measured_and_has_a_reason(numbers):
    unmeasured = set(CEILINGS) - set(numbers)
    assert all(name.startswith("Dask fit") for name in unmeasured), unmeasured
    assert all(ceiling["reason"] for ceiling in CEILINGS.values())


def test_only_code_is_counted():
    text = '"""Head."""\n\n# why\ndef f(\n    x,\n):\n    """Doc."""\n    return x\n'
    assert code_lines(text) == 4


def test_fields_of_named_tuples_are_counted():
    import ast

    tree = ast.parse("class A(NamedTuple):\n    x: int\n    y: int = 0\n")
    assert named_tuples(list(ast.walk(tree))) == [2]
