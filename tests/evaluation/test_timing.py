"""Timing and memory: what is measured, not how fast this machine is."""

import os
import sys

import pytest

from kaucus.evaluation import Stopwatch, best_of, peak_memory, run_isolated, timed

MIB = 2**20
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads Linux's account of memory"
)


def process_id():
    return os.getpid()


def take_memory(n_bytes):
    block = bytearray(n_bytes)
    block[::4096] = b"x" * len(block[::4096])  # touch every page
    return len(block)


def fail():
    raise KeyError("the function's own error")


def die():
    os._exit(9)


def loaded(module):
    return module in sys.modules


def test_a_stopwatch_stops_at_the_end_of_its_block():
    with Stopwatch() as watch:
        running = watch.seconds
    first, second = watch.seconds, watch.seconds
    assert 0 <= running <= first
    assert first == second


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


@pytest.mark.slow
def test_an_isolated_run_has_its_own_process():
    first, second = run_isolated(process_id), run_isolated(process_id)
    assert len({first.result, second.result, os.getpid()}) == 3


@pytest.mark.slow
@linux
def test_an_isolated_run_does_not_inherit_the_parents_memory():
    block = bytearray(256 * MIB)
    block[::4096] = b"x" * len(block[::4096])
    run = run_isolated(take_memory, 32 * MIB)
    assert run.result == 32 * MIB
    assert 24 * MIB < run.peak - run.baseline < 96 * MIB
    assert run.peak < len(block)


@pytest.mark.slow
def test_an_isolated_run_imports_before_it_measures():
    assert run_isolated(loaded, "wave", imports=["wave"]).result
    assert not run_isolated(loaded, "wave").result


@pytest.mark.slow
def test_an_isolated_error_arrives_as_it_is():
    with pytest.raises(KeyError, match="own error"):
        run_isolated(fail)


@pytest.mark.slow
def test_a_killed_process_is_reported_with_its_function():
    with pytest.raises(RuntimeError, match=r"ran die was killed.*memory"):
        run_isolated(die)
