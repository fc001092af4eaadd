"""Fixtures: every array library, both precisions, one generator."""

import importlib.util
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# One profile for everybody: no deadline, because machines differ, and the same
# examples in every run, because a red build must be reproducible.
settings.register_profile(
    "kaucus",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("kaucus")

NAMESPACES = ["numpy", "array_api_strict", "torch"]


def namespace(name):
    """Import an array library by name, or skip the test visibly."""
    if name == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if name == "array_api_strict":
        return pytest.importorskip("array_api_strict")
    return importlib.import_module(f"array_api_compat.{name}")


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c():
    """Take Ctrl-C, which tests send: a program in a shell's background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=NAMESPACES)
def xp(request):
    """Each array library that the core must work with."""
    return namespace(request.param)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """The name of each precision."""
    return request.param


@pytest.fixture
def rng():
    """A generator that is the same in every run."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_home():
    """The folder with the benchmark data, or a visible skip."""
    folder = os.environ.get("KAUCUS_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("KAUCUS_DATA does not point at the benchmark data")
    return Path(folder)
