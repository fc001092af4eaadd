"""Fixtures: every array library, and committees of few trees."""

import importlib.util

import pytest

NAMESPACES = ["numpy", "array_api_strict", "torch"]


def namespace(name):
    """Import an array library by name, or skip the test visibly."""
    if name == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if name == "array_api_strict":
        return pytest.importorskip("array_api_strict")
    return importlib.import_module(f"array_api_compat.{name}")


@pytest.fixture(params=NAMESPACES)
def xp(request):
    """Each array library that the core must work with."""
    return namespace(request.param)


SLOW = {"array_api_strict", "another device"}  # NumPy, with a check of every operation


def pytest_collection_modifyitems(config, items):
    """Leave out float64 of array-api-strict, where NumPy and torch take it as well.

    A law of every library and every precision needs no product of the two.
    """
    left_out = [
        item
        for item in items
        if hasattr(item, "callspec")
        and item.callspec.params.get("xp") in SLOW
        and item.callspec.params.get("dtype") == "float64"
    ]
    config.hook.pytest_deselected(items=left_out)
    gone = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in gone]


@pytest.fixture
def few_rounds(monkeypatch):
    """Boost fewer and larger steps: laws of columns, rows and votes need no more."""
    tables = pytest.importorskip("kaucus.estimators.tables")
    for effort in tables.EFFORTS:
        few = {"learning_rate": 0.3, "max_iter": 25}
        monkeypatch.setitem(tables.EFFORTS, effort, few)
