"""Time, memory and machine: what is measured, not how fast this machine is."""

import json
import sys

import pytest
from benchmarks._isolated import run_isolated

from kaucus import __version__
from kaucus.experiments import best_of, describe_machine, peak_memory, timed

MIB = 2**20
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads Linux's account of memory"
)


def take_memory(n_bytes):
    block = bytearray(n_bytes)
    block[::4096] = b"x" * len(block[::4096])  # touch every page
    return len(block)


def torch_is_loaded_by_the_description():
    describe_machine()
    return "torch" in sys.modules


def test_the_description_fits_into_json_and_names_versions():
    machine = json.loads(json.dumps(describe_machine(gpu="a card")))
    assert machine["gpu"] == "a card"
    assert machine["cores"] >= 1
    assert machine["versions"]["kaucus"] == __version__
    assert {"numpy", "scipy", "scikit-learn"} <= set(machine["versions"])


@pytest.mark.slow
def test_the_description_does_not_import_torch():
    assert not run_isolated(torch_is_loaded_by_the_description).result


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
