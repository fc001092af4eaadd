"""A function in a process of its own: nothing is inherited, and errors arrive."""

import os
import sys

import pytest

from benchmarks._isolated import run_isolated

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
