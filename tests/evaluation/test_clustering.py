"""clustering_accuracy is the best over all namings."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus.evaluation import clustering_accuracy


def by_trying_all_namings(y, labels, k):
    return max(
        np.mean(
            [naming[label] == truth for truth, label in zip(y, labels, strict=True)]
        )
        for naming in itertools.permutations(range(k))
    )


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)
)
def test_it_is_the_best_of_all_namings(pairs):
    y, labels = map(np.array, zip(*pairs, strict=True))
    expected = by_trying_all_namings(y, labels, 4)
    assert clustering_accuracy(y, labels) == pytest.approx(expected)


def test_names_do_not_matter_and_a_cut_class_is_half_wrong():
    y = np.repeat(["a", "b"], 10)
    assert clustering_accuracy(y, np.repeat([7, 3], 10)) == 1
    assert clustering_accuracy(y, np.repeat([0, 1, 2, 2], 5)) == 0.75
    assert clustering_accuracy(y, np.zeros(20)) == 0.5


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clustering_accuracy([0, 1], [0])
    with pytest.raises(ValueError, match="empty"):
        clustering_accuracy([], [])


def test_tensors_of_another_device():
    strict = pytest.importorskip("array_api_strict")
    labels = strict.asarray([1, 1, 0, 1], device=strict.Device("device1"))
    assert clustering_accuracy([0, 0, 1, 1], labels) == 0.75
