"""Sizes in words and numbers, and what may be used of what is free."""

import numpy as np
import pytest

from kaucus._array.blocks import (
    budget_to_have,
    format_bytes,
    free_memory,
    parse_bytes,
    resolve_budget,
)
from tests.arrays import array

GOOD = [
    (1, 1),
    (2**40, 2**40),
    (1e9, 10**9),
    (np.int64(7), 7),
    (np.float32(8), 8),
    ("1", 1),
    ("17b", 17),
    ("2kb", 2000),
    ("2 KiB", 2048),
    ("500MB", 500 * 10**6),
    (" 1.5 GiB ", 3 * 2**29),
    ("4GiB", 4 * 2**30),
    ("1TB", 10**12),
    ("0.5tib", 2**39),
]
BAD = [0, -1, 0.5, "0", "0.1", "-4GiB", "", "GiB", "4 GiBB", "4,5GB", "1.2.3MB", "."]
BAD += [True, False, None, float("nan"), float("inf"), "inf", "nan", [4], "four"]


@pytest.mark.parametrize(("size", "expected"), GOOD)
def test_sizes(size, expected):
    n_bytes = parse_bytes(size)
    assert n_bytes == expected
    assert type(n_bytes) is int


@pytest.mark.parametrize("size", BAD, ids=repr)
def test_what_is_no_size(size):
    with pytest.raises(ValueError, match="is not a size; pass a positive number") as e:
        parse_bytes(size)
    assert f"memory_budget={size!r}" in str(e.value)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 * 2**29, "1.5 GiB"),
        (5 * 2**40, "5.0 TiB"),
        (5000 * 2**40, "5000.0 TiB"),
        (-(2**21), "-2.0 MiB"),
        (None, "–"),
    ],
)
def test_format_bytes(n_bytes, text):
    assert format_bytes(n_bytes) == text


def test_a_budget_that_is_given_is_taken(xp):
    assert resolve_budget("3MiB", array(xp, [1.0])) == 3 * 2**20


@pytest.mark.parametrize("workers", [1, 2, 16])
@pytest.mark.parametrize("mebibytes", [1, 8, 31, 32, 33, 100, 5000])
def test_a_budget_to_have_is_what_may_be_used(monkeypatch, workers, mebibytes):
    monkeypatch.setattr("kaucus._array.blocks.n_workers", lambda like: workers)
    n_bytes = mebibytes * 2**20
    assert resolve_budget(budget_to_have(n_bytes)) == n_bytes


def test_no_budget_means_three_quarters_of_what_is_free(xp, monkeypatch):
    monkeypatch.setattr("kaucus._array.blocks._host_free_memory", lambda: 4000)
    assert resolve_budget(None) == resolve_budget(None, array(xp, [1.0])) == 3000


def test_free_memory_is_a_number_of_bytes(xp):
    assert 2**20 < free_memory(array(xp, [1.0])) < 2**60


def test_the_tighter_of_machine_and_container_counts(monkeypatch):
    memory = "kaucus._array.blocks."
    values = {"memory.max": 1000, "memory.current": 400}
    monkeypatch.setattr(memory + "_read_int", lambda path: values[path.name])
    monkeypatch.setattr(memory + "_system_free_memory", lambda: 5000)
    assert free_memory() == 600
    monkeypatch.setattr(memory + "_system_free_memory", lambda: 500)
    assert free_memory() == 500
    values["memory.max"] = None  # no limit
    assert free_memory() == 500
    values["memory.max"] = 300  # more in use than allowed
    assert free_memory() == 0
