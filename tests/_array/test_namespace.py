"""Arrays keep their library, device and precision."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

from kaucus._array.namespace import (
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    epsilon,
    get_entries,
    is_numpy,
    is_sparse,
    is_tensor,
    is_torch,
    itemsize,
    label_array,
    place_of,
    set_entries,
    take_rows,
    tensor_near,
    to_device,
    to_numpy,
    without_history,
)
from tests.arrays import EPS, array, same_bits
from tests.conftest import NAMESPACES, namespace

VALUES = np.arange(6.0).reshape(3, 2) / 3


def test_arrays_of_one_library_share_its_namespace(xp):
    a, b = array(xp, VALUES), array(xp, [1])
    assert array_namespace(a, None, b, 1, 2.0) is array_namespace(a)
    assert array_namespace(a).__name__.startswith(xp.__name__)


def test_sparse_matrices_count_as_numpy():
    X = scipy.sparse.csr_array(VALUES)
    assert array_namespace(X) is array_namespace(VALUES, X)
    assert device_of(X) == "cpu"
    assert is_sparse(X)
    assert not is_sparse(VALUES)


def test_a_mix_of_libraries_is_refused():
    other = namespace("torch").asarray(VALUES)
    with pytest.raises(TypeError, match=r"got numpy, torch; convert them to one"):
        array_namespace(VALUES, other)


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match=r"got builtins; convert"):
        array_namespace([[1.0]])


def test_dtype_helpers(xp, dtype):
    x = array(xp, VALUES, dtype)
    assert dtype_name(x) == dtype
    assert epsilon(x) == EPS[dtype]
    assert itemsize(x) == {"float32": 4, "float64": 8}[dtype]
    assert astype(x, dtype) is x
    other = "float64" if dtype == "float32" else "float32"
    assert same_bits(astype(x, other), VALUES.astype(dtype).astype(other))


def test_astype_keeps_sparse_matrices_sparse(dtype):
    X = scipy.sparse.csr_array(VALUES)
    assert is_sparse(astype(X, dtype))
    assert dtype_name(astype(X, dtype)) == dtype


@pytest.mark.parametrize("target", NAMESPACES)
@pytest.mark.parametrize("wanted", [None, "float32", "float64"])
def test_as_like_brings_values_to_any_library(xp, dtype, target, wanted):
    x = array(xp, VALUES, dtype)
    like = array(namespace(target), [0.0])
    y = as_like(x, like, dtype=wanted)
    assert type(y) is type(like)
    assert device_of(y) == device_of(like)
    assert same_bits(y, VALUES.astype(dtype).astype(wanted or dtype))
    assert same_bits(x, VALUES.astype(dtype))


@pytest.mark.parametrize("view", ["read-only", "reversed", "transposed", "strided"])
def test_as_like_takes_any_numpy_view(xp, view):
    x = np.arange(12.0).reshape(4, 3)
    x = {"reversed": x[::-1], "transposed": x.T, "strided": x[::2]}.get(view, x)
    if view == "read-only":
        x.flags.writeable = False
    assert np.array_equal(to_numpy(as_like(x, array(xp, [0.0]))), x)


def test_to_numpy_gives_the_values(xp, dtype):
    assert same_bits(to_numpy(array(xp, VALUES, dtype)), VALUES.astype(dtype))
    x = np.zeros(2)
    assert to_numpy(x) is x


def test_library_predicates(xp):
    x = array(xp, VALUES)
    assert is_numpy(x) == (xp.__name__ == "array_api_compat.numpy")
    assert is_torch(x) == (xp.__name__ == "array_api_compat.torch")


@pytest.mark.parametrize("rows", [[2, 0], [1], [0, 0, 2]])
def test_take_rows(xp, rows):
    taken = take_rows(array(xp, VALUES), array(xp, rows))
    assert np.array_equal(to_numpy(taken), VALUES[rows])
    entries = take_rows(array(xp, VALUES[:, 0]), array(xp, rows))
    assert np.array_equal(to_numpy(entries), VALUES[rows, 0])
    sparse = take_rows(scipy.sparse.csr_array(VALUES), np.array(rows))
    assert np.array_equal(sparse.toarray(), VALUES[rows])


def test_device_none_leaves_arrays_where_they_are(xp):
    x = array(xp, VALUES)
    assert to_device(x, None) is x


def test_device_cpu_keeps_the_library(xp):
    x = array(xp, VALUES)
    assert type(to_device(x, "cpu")) is type(x)
    assert same_bits(to_device(x, "cpu"), x)


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[::-1], np.asfortranarray])
@pytest.mark.parametrize("writeable", [True, False])
def test_numpy_arrays_travel_to_torch_devices(view, writeable):
    torch = pytest.importorskip("torch")
    x = view(VALUES.copy())
    x.flags.writeable = writeable
    assert to_device(x, "meta").shape == x.shape
    from kaucus._array import on_torch as _torch

    tensor = _torch.to_device(x, "cpu")
    assert isinstance(tensor, torch.Tensor)
    assert np.array_equal(to_numpy(tensor), x)


def test_unknown_devices_are_named():
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"device='gpu' is not a device.*'cuda:1'"):
        to_device(VALUES, "gpu")


def test_a_missing_cuda_device_is_named(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device='cuda', but .*sees no CUDA device"):
        to_device(VALUES, "cuda")


def test_what_is_a_tensor(xp):
    assert is_tensor(array(xp, VALUES)) is (xp.__name__ != "array_api_compat.numpy")
    for other in (VALUES.tolist(), scipy.sparse.csr_array(VALUES), None, 3.0):
        assert not is_tensor(other)


def test_to_and_from_the_strict_stand_in_for_a_device():
    strict = pytest.importorskip("array_api_strict")
    there = strict.asarray(VALUES, device=strict.Device("device1"))
    here = strict.asarray(VALUES)
    assert np.array_equal(to_numpy(there), VALUES)
    assert device_of(as_like(here, there)) == device_of(there)
    assert device_of(as_like(there, here)) == device_of(here)
    assert device_of(as_like(VALUES, there)) == device_of(there)


def test_cupy_arrays_are_asked_for_their_values(monkeypatch):
    class Cupy:
        def get(self):
            return VALUES

    import array_api_compat

    monkeypatch.setattr(
        array_api_compat, "is_cupy_array", lambda x: isinstance(x, Cupy)
    )
    assert is_tensor(Cupy())
    assert to_numpy(Cupy()) is VALUES


def test_labels_follow_where_they_can(xp):
    like = array(xp, VALUES)
    assert type(label_array(np.array([3, 1]), like)) is type(like)
    assert type(label_array(np.array([True, False]), like)) is type(like)
    assert isinstance(label_array(np.array(["a", "b"]), like), np.ndarray)


def test_gradients_are_left_behind():
    torch = pytest.importorskip("torch")
    x = torch.ones((2, 2), requires_grad=True)
    plain = without_history(x)
    assert not plain.requires_grad
    assert plain.data_ptr() == x.data_ptr()
    assert without_history(VALUES) is VALUES
    with pytest.raises(ValueError, match=r"sparse tensor.*to_dense"):
        without_history(torch.eye(2).to_sparse())


def test_numpy_users_need_no_torch():
    program = """
import sys
import numpy as np
from kaucus._array.namespace import as_like, to_device
from kaucus.kernels import Gaussian
from kaucus.solvers._auto import fit_ls_svm
from kaucus.solvers._columns import RowData
X = np.random.default_rng(0).normal(size=(20, 2))
assert to_device(X, "cpu") is X
assert as_like(X, X, dtype="float32").dtype == np.float32
for solver in ("cholesky", "cg"):
    rng = np.random.default_rng(0)
    data = RowData(Gaussian(), X, X)
    fit_ls_svm(data, C=1.0, solver=solver, rng=rng, leave_one_out=2000)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_its_library_a_tensor_comes_back_as_numpys(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert tensor_near(VALUES, "cupy:0") is VALUES


def test_a_place_is_found_again():
    torch = pytest.importorskip("torch")
    x = torch.tensor(VALUES)
    again = tensor_near(VALUES, place_of(x))
    assert again.device == x.device
    assert np.array_equal(to_numpy(again), VALUES)


def test_entries_are_read_and_written_where_they_are(xp):
    i, j = np.array([2, 0, 2]), np.array([1, 0, 0])
    X = array(xp, VALUES)
    at = array(xp, i), array(xp, j)
    assert same_bits(get_entries(X, *at), VALUES[i, j])
    set_entries(X, *at, array(xp, [7.0, 8.0, 9.0]))
    expected = VALUES.copy()
    expected[i, j] = [7.0, 8.0, 9.0]
    assert same_bits(X, expected)
