"""Time and memory: what is measured, not how fast this machine is."""

import sys

import pytest

from kaucus.evaluation.clustering import best_of, peak_memory, timed

MIB = 2**20
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads Linux's account of memory"
)


def take_memory(n_bytes):
    block = bytearray(n_bytes)
    block[::4096] = b"x" * len(block[::4096])  # touch every page
    return len(block)


def test_timed_passes_arguments_and_returns_the_result():
    result, seconds = timed(sorted, [2, 1], reverse=True)
    assert result == [2, 1]
    assert seconds >= 0


def test_best_of_calls_as_often_as_asked():
    calls = []
    best_of(3, calls.append, 1)
    assert calls == [1, 1, 1]


def test_best_of_rejects_no_repeats():
    with pytest.raises(ValueError, match="repeats=0 must be at least 1"):
        best_of(0, sum, [1])


@linux
def test_peak_memory_sees_what_was_freed_before_the_block_ended():
    with peak_memory() as memory:
        take_memory(64 * MIB)
    assert 48 * MIB < memory.rise < 160 * MIB


@linux
def test_peak_memory_does_not_count_an_earlier_peak():
    take_memory(128 * MIB)
    with peak_memory() as memory:
        take_memory(1 * MIB)
    assert memory.rise < 64 * MIB
