"""Data sets by name: subsets and splits."""

import numpy as np
import pytest

from papers import load_split
from tests.arrays import assert_to_rounding


def test_digits_are_split_the_same_way_for_every_seed():
    first, second = load_split("digits", seed=0), load_split("digits", seed=1)
    assert_to_rounding(first.X_train, second.X_train)
    assert len(first.X_train) + len(first.X_test) == 1797
    assert set(first.y_train) == set(first.y_test) == set(range(10))


def test_first_rows_are_the_first_and_the_test_rows_stay():
    whole, part = load_split("digits"), load_split("digits", n_train=50)
    assert_to_rounding(part.X_train, whole.X_train[:50])
    assert_to_rounding(part.y_train, whole.y_train[:50])
    assert_to_rounding(part.X_test, whole.X_test)


def test_a_random_subset_follows_the_seed_and_keeps_labels_with_rows():
    def load(seed):
        return load_split("digits", n_train=50, sample="random", seed=seed)

    assert_to_rounding(load(1).X_train, load(1).X_train)
    assert (load(1).X_train != load(2).X_train).any()
    whole, part = load_split("digits"), load(1)
    labels = {tuple(x): y for x, y in zip(whole.X_train, whole.y_train, strict=True)}
    assert [labels[tuple(x)] for x in part.X_train] == list(part.y_train)
    assert len({tuple(x) for x in part.X_train}) == 50


def test_rows_have_the_asked_precision(dtype):
    split = load_split("digits", dtype=dtype)
    assert split.X_train.dtype == split.X_test.dtype == dtype


def test_uci_sets_are_halved_by_the_seed(monkeypatch):
    X, y = np.arange(40.0).reshape(20, 2), np.repeat([0, 1], 10)
    calls = []

    def load_uci(name, data_home=None, return_X_y=False):
        calls.append((name, data_home))
        return X, y

    monkeypatch.setattr("papers.datasets.load_uci", load_uci)
    first = load_split("uci/iris", seed=0, data_home="somewhere")
    second = load_split("uci/iris", seed=1)
    assert calls[0] == ("iris", "somewhere")
    assert list(np.bincount(first.y_train)) == [5, 5]
    assert (first.X_train != second.X_train).any()


def test_too_many_rows_are_an_error():
    with pytest.raises(ValueError, match="n_train=9999 exceeds the 898 training rows"):
        load_split("digits", n_train=9999)


def test_unknown_names_are_errors():
    with pytest.raises(ValueError, match="'nothing' is not known; use one of "):
        load_split("nothing")
    with pytest.raises(ValueError, match="sample='last' is not known"):
        load_split("digits", n_train=1, sample="last")
