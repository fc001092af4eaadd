"""What is collected, a switch that SciPy reads when imported, and common fixtures."""

import importlib.util
import os
import re
import signal
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# scikit-learn's array API checks are skipped without it. The package itself never
# needs it: it hands SciPy no arrays but NumPy's.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

ROOT = Path(__file__).parent


def modules_that_import(library):
    """Return the modules of the package that cannot be imported without a library."""
    at_the_top = re.compile(rf"^(import|from) {library}\b", re.MULTILINE)
    return [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if at_the_top.search(path.read_text(encoding="utf-8"))
    ]


# Doctests of a module that needs a library are collected only where that is.
collect_ignore = []
if importlib.util.find_spec("torch") is None:
    collect_ignore += modules_that_import("torch")
if importlib.util.find_spec("typer") is None:
    collect_ignore += modules_that_import("typer")
if importlib.util.find_spec("dask") is None:
    collect_ignore += ["src/kaucus/distributed.py"]

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


EXACT = tomllib.loads((ROOT / "tests/exact_floats.toml").read_text("utf-8"))
compare_exactly = np.testing.assert_array_equal


def assert_array_equal(actual, desired, *args, **options):
    """Compare arrays; of floating-point numbers only in files that say why."""
    caller = Path(sys._getframe(1).f_code.co_filename)
    ours = caller.is_relative_to(ROOT) and ".venv" not in caller.parts
    kinds = {np.asarray(x).dtype.kind for x in (actual, desired)}
    if ours and kinds & set("fc"):
        assert caller.relative_to(ROOT).as_posix() in EXACT, (
            "results of floating point differ between processors and numbers of "
            "threads: use assert_to_rounding or assert_allclose, or enter this file in "
            "tests/exact_floats.toml with the reason"
        )
    compare_exactly(actual, desired, *args, **options)


np.testing.assert_array_equal = assert_array_equal


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c():
    """Take Ctrl-C, which tests send: a program in a shell's background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Of failures that are expected, tell the plain traceback: pytest's takes 0.7 s."""
    option = item.config.option
    style = option.tbstyle
    if item.get_closest_marker("xfail"):
        option.tbstyle = "native"
    try:
        return (yield)
    finally:
        option.tbstyle = style


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Return the name of each precision."""
    return request.param


@pytest.fixture
def rng():
    """Return a generator that is the same in every run."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_home():
    """Return the folder with the benchmark data, or skip visibly."""
    folder = os.environ.get("KAUCUS_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("KAUCUS_DATA does not point at the benchmark data")
    return Path(folder)


@pytest.fixture(autouse=True)
def example_of_its_own(request):
    """Run an example of a docstring in a folder of its own, drawing into no window.

    The example of a loader is skipped visibly where its data is not here.
    """
    if not isinstance(request.node, pytest.DoctestItem):
        return
    patch = request.getfixturevalue("monkeypatch")
    patch.chdir(request.getfixturevalue("tmp_path"))
    patch.setenv("MPLBACKEND", "Agg")
    module, _, loader = request.node.name.rpartition(".")
    if module == "papers.datasets._loaders" and not is_here(loader):
        pytest.skip(f"the data of {loader} is not in KAUCUS_DATA")


def is_here(loader):
    """Tell whether the files of the first data set of a loader are in KAUCUS_DATA."""
    from papers.datasets._registry import find, names_of

    folder = os.environ.get("KAUCUS_DATA", "")
    files = find(names_of(loader)[0], loader).files
    return bool(folder) and all((Path(folder) / file.path).is_file() for file in files)
