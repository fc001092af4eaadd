"""Precision by name, for the length of a ``with`` and in one thread."""

import threading

import numpy as np
import pytest

from kaucus._array import namespace as _precision
from kaucus._array.namespace import (
    PRECISIONS,
    epsilon,
    product,
    product_epsilon,
    product_into,
    products_in,
    working_types,
)
from tests.arrays import array, same_bits


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def tf32_everywhere(torch, monkeypatch):
    """Every float32 tensor counts as one of a GPU."""
    from kaucus._array import on_torch as _torch

    monkeypatch.setattr(_torch, "has_tf32", lambda x: x.dtype == torch.float32)


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        (None, ("float64", "float32")),
        ("float64", ("float64",)),
        ("float32", ("float32",)),
        ("tf32", ("float32",)),
    ],
)
def test_types_of_rows(precision, expected):
    assert precision in PRECISIONS
    assert tuple(np.dtype(t).name for t in working_types(precision)) == expected


def test_on_the_host_tf32_is_float32(xp, dtype, rng):
    X = array(xp, rng.normal(size=(5, 3)), dtype)
    expected = product(X, X)
    with products_in("tf32"):
        assert same_bits(product(X, X), expected)
        assert product_epsilon(X) == epsilon(X)


class Spy:
    """A tensor that notes torch's switch while it is multiplied."""

    def __init__(self, torch):
        self.T = self
        self.dtype = torch.float32
        self.seen = []
        self._matmul = torch.backends.cuda.matmul

    def __matmul__(self, other):
        self.seen.append(self._matmul.fp32_precision)
        return self


@pytest.fixture
def spy(torch, tf32_everywhere, monkeypatch):
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has the older switch only")
    monkeypatch.setattr(_precision, "is_torch", lambda x: isinstance(x, Spy))
    return Spy(torch)


def test_torchs_switch_is_on_for_one_product_alone(torch, spy):
    before = torch.backends.cuda.matmul.fp32_precision
    product(spy, spy)
    with products_in("tf32"):
        product(spy, spy)
        assert torch.backends.cuda.matmul.fp32_precision == before
        with products_in("float32"):
            product(spy, spy)
    product(spy, spy)
    assert spy.seen == [before, "tf32", before, before]


def test_an_error_leaves_nothing_behind(torch, spy, monkeypatch):
    def fail(self, other):
        raise RuntimeError("no")

    before = torch.backends.cuda.matmul.fp32_precision
    monkeypatch.setattr(Spy, "__matmul__", fail)
    with pytest.raises(RuntimeError, match="no"), products_in("tf32"):
        product(spy, spy)
    assert torch.backends.cuda.matmul.fp32_precision == before
    monkeypatch.undo()
    assert not _precision._rough.get()


def test_the_older_switch_serves_too(torch, monkeypatch):
    from types import SimpleNamespace

    from kaucus._array import on_torch as _torch

    old = SimpleNamespace(allow_tf32=False)
    monkeypatch.setattr(torch.backends.cuda, "matmul", old)
    with _torch.tf32_products():
        assert old.allow_tf32 is True
    assert old.allow_tf32 is False


def test_other_threads_are_not_asked(torch, tf32_everywhere):
    x, seen = torch.ones(1), []
    with products_in("tf32"):
        assert product_epsilon(x) == 2.0**-10
        thread = threading.Thread(target=lambda: seen.append(product_epsilon(x)))
        thread.start()
        thread.join()
    assert seen == [epsilon(x)]


def test_the_last_of_two_threads_restores(torch):
    from kaucus._array import on_torch as _torch

    switch = torch.backends.cuda.matmul
    name = "fp32_precision" if hasattr(switch, "fp32_precision") else "allow_tf32"
    before = getattr(switch, name)
    inside, leave = threading.Event(), threading.Event()

    def other():
        with _torch.tf32_products():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    with _torch.tf32_products():
        pass
    assert getattr(switch, name) != before  # the other thread still needs it
    leave.set()
    thread.join()
    assert getattr(switch, name) == before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_is_the_same_in_memory_that_is_given(dtype):
    rng = np.random.default_rng(0)
    X, Y = (rng.normal(size=(n, 5)).astype(dtype) for n in (30, 7))
    wide = np.full((40, 7), np.nan, dtype)
    out = wide[5:35]
    assert product_into(out, X, Y) is out
    assert same_bits(out, product(X, Y))
    assert np.isnan(wide[:5]).all()
    assert np.isnan(wide[35:]).all()
