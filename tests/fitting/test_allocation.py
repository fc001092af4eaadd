"""Laws of the sharing out of representatives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus.fitting._represented import ALLOCATIONS, allocate

SIZES = st.lists(st.integers(0, 500), min_size=1, max_size=8)


@given(total=st.integers(1, 900), sizes=SIZES, how=st.sampled_from(ALLOCATIONS))
def test_nobody_gets_more_than_he_has_and_all_are_given_out(total, sizes, how):
    numbers = allocate(total, sizes, how)
    nonempty = sum(size > 0 for size in sizes)
    assert all(
        min(size, 1) <= n <= size for n, size in zip(numbers, sizes, strict=True)
    )
    assert sum(numbers) == min(max(total, nonempty), sum(sizes))


@given(total=st.integers(1, 900), sizes=SIZES, how=st.sampled_from(ALLOCATIONS))
def test_a_larger_group_gets_no_less(total, sizes, how):
    numbers = np.asarray(allocate(total, sizes, how))
    order = np.argsort(sizes, kind="stable")
    assert (np.diff(numbers[order]) >= -1).all()  # by rounding at most


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("equal", [100, 100, 100]),
        ("proportional", [267, 30, 3]),
        ("sqrt", [212, 67, 21]),
    ],
)
def test_three_classes_of_very_different_sizes(how, expected):
    assert allocate(300, [100_000, 11_111, 1_000], how) == pytest.approx(
        expected, abs=5
    )
    assert sum(allocate(300, [100_000, 11_111, 1_000], how)) == 300
