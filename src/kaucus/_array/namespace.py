"""Array libraries: namespace, device, precision and copies of an array."""

import contextlib
import contextvars
import functools
import mmap
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType, ModuleType
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse

# ----------------------------------------------------------------------------------
# Which array library, which device, which precision: one place that knows.
#
# Everything below the estimators is written against ``xp = array_namespace(X)`` of
# the package array-api-compat. SciPy's sparse matrices count as NumPy: they are
# read with NumPy and every result made from them is a NumPy array.
# ----------------------------------------------------------------------------------

Array = Any
"""An array of any library that follows the array API standard."""

_NUMPY = array_api_compat.array_namespace(np.empty(0))


def array_namespace(*arrays: Array) -> ModuleType:
    """Return the namespace that the given arrays share.

    ``None`` and Python scalars are passed over; CSR matrices count as NumPy.

    Raises
    ------
    TypeError
        If the arrays belong to different libraries.
    """
    if set(map(type, arrays)) == {np.ndarray}:  # nearly always, and often asked
        return _NUMPY
    given = [a for a in arrays if a is not None and not isinstance(a, int | float)]
    seen = [example_of(a) for a in given]
    dense = [np.empty(0) if scipy.sparse.issparse(a) else a for a in seen]
    try:
        return array_api_compat.array_namespace(*dense)
    except TypeError as error:
        got = ", ".join(sorted({type(a).__module__.split(".")[0] for a in dense}))
        raise TypeError(
            f"Expected arrays of one library that follows the array API standard, "
            f"got {got}; convert them to one library first."
        ) from error


# Of rows that are no array, :mod:`kaucus._array.rows` registers its own versions of
# what is a single dispatch here.


@functools.singledispatch
def example_of(x: Array) -> Array:
    """Return an array of the library, device and precision of rows of any kind."""
    return x


def device_of(x: Array) -> Any:
    """Return the device of an array, in its library's own terms."""
    if isinstance(x, np.ndarray) or scipy.sparse.issparse(x):
        return "cpu"
    return array_api_compat.device(example_of(x))


def is_numpy(x: Array) -> bool:
    """Return True if ``x`` is a NumPy array, which SciPy takes."""
    return isinstance(x, np.ndarray)


def is_torch(x: Array) -> bool:
    """Return True if ``x`` is a torch tensor, without importing torch."""
    if isinstance(x, np.ndarray):
        return False
    return array_api_compat.is_torch_array(example_of(x))


def is_cupy(x: Array) -> bool:
    """Return True if ``x`` is a CuPy array, without importing CuPy."""
    return array_api_compat.is_cupy_array(x)


def on_gpu(x: Array) -> bool:
    """Return True if ``x`` lives on an accelerator."""
    return x.device.type != "cpu" if is_torch(x) else is_cupy(x)


def is_tensor(x: Array) -> bool:
    """Return True if ``x`` is an array of a supported library other than NumPy.

    torch, CuPy or array-api-strict. Libraries whose arrays cannot be written to, such
    as JAX, are not among them: their arrays are read as NumPy's.
    """
    return (
        is_torch(x)
        or is_cupy(x)
        or type(x).__module__.partition(".")[0] == "array_api_strict"
    )


def without_history(x: Array) -> Array:
    """Return a tensor without its gradient history, other arrays unchanged.

    Raises
    ------
    ValueError
        If it is a sparse tensor.
    """
    if not is_torch(x):
        return x
    return torch_versions().without_history(x)


def torch_versions() -> Any:
    """Return the module of the torch versions; torch is imported by the first call."""
    from kaucus._array import on_torch as _torch

    return _torch


def is_sparse(x: Array) -> bool:
    """Return True if ``x`` is a SciPy sparse matrix or array."""
    return not isinstance(x, np.ndarray) and scipy.sparse.issparse(x)


def to_numpy(x: Array) -> np.ndarray:
    """Return ``x`` as a NumPy array; a copy only where the library needs one."""
    if is_torch(x):
        return x.detach().cpu().numpy()
    if is_numpy(x):
        return x
    if is_cupy(x):
        return x.get()
    try:
        return np.asarray(x)
    except RuntimeError:  # array-api-strict's stand-in for another device
        return np.asarray(x.to_device(type(x.device)("CPU_DEVICE")))


@functools.singledispatch
def as_like(x: Array, like: Array, *, dtype: Any = None) -> Array:
    """Bring ``x`` to the library and device of ``like``.

    ``dtype`` is a name such as ``"float64"``; by default the dtype of ``x`` stays. None
    stays None. A CSR matrix becomes dense beside tensors, and stays elsewhere.
    """
    if x is None:
        return None
    if type(x) is type(like) is np.ndarray:  # nearly always, and often asked
        return x if dtype is None or x.dtype == dtype else x.astype(dtype)
    like = example_of(like)
    if is_sparse(x):
        if not is_tensor(like):
            return x
        x = x.toarray()
    xp = array_namespace(like)
    wanted = None if dtype is None else getattr(xp, dtype)
    if is_torch(x) and is_torch(like):
        return x.to(device=like.device, dtype=wanted)
    if not is_torch(like) and not is_torch(x) and array_namespace(x) is xp:
        if is_tensor(x) and device_of(x) != device_of(like):
            x = array_api_compat.to_device(x, device_of(like))
        return x if wanted is None or x.dtype == wanted else xp.astype(x, wanted)
    if is_torch(like):
        return (
            torch_versions()
            .from_numpy(to_numpy(x))
            .to(device=like.device, dtype=wanted)
        )
    return xp.asarray(to_numpy(x), dtype=wanted, device=device_of(like))


def to_device(x: Array, device: str | None) -> Array:
    """Return ``x`` on ``device``; unchanged for None.

    ``"cpu"`` leaves NumPy arrays NumPy arrays. Any other device needs torch, and
    turns NumPy arrays into torch tensors there.
    """
    if device is None or (device == "cpu" and not is_torch(x)):
        return x if device is None or not is_cupy(x) else x.get()
    values = x if is_torch(x) else to_numpy(x)
    return _torch_module(device).to_device(values, device)


def place_of(x: Array) -> str:
    """Return the library and device of a tensor, for :func:`tensor_near`."""
    return f"cupy:{x.device.id}" if is_cupy(x) else str(device_of(x))


def tensor_near(values: np.ndarray, place: str) -> Array:
    """Return a tensor on a device, or on the nearest device of this machine.

    On the host where that device is not here; a NumPy array where its library is not.
    """
    library, _, number = place.partition(":")
    if library == "cupy":
        return _cupy_near(values, int(number))
    try:
        from kaucus._array import on_torch as _torch
    except ModuleNotFoundError:
        return values
    return _torch.from_numpy(values).to(place if _torch.is_here(place) else "cpu")


def _cupy_near(values: np.ndarray, number: int) -> Array:
    try:
        import cupy  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        return values
    if not cupy.is_available() or number >= cupy.cuda.runtime.getDeviceCount():
        return values
    with cupy.cuda.Device(number):
        return cupy.asarray(values)


def device_is_here(device: str | None) -> bool:
    """Return True if this machine has the device; None is wherever the data is."""
    if device is None or device == "cpu":
        return True
    try:
        from kaucus._array import on_torch as _torch
    except ModuleNotFoundError:
        return False
    return _torch.is_here(device)


def synchronize(like: Array) -> None:
    """Wait for the device of ``like``: GPUs compute while the program goes on."""
    if is_torch(like):
        torch_versions().synchronize(like)


def device_name(device: str | None) -> str | None:
    """Return the product name of an accelerator; None for the host."""
    if device is None or device == "cpu":
        return None
    return _torch_module(device).device_name(device)


def _torch_module(device: str):
    try:
        from kaucus._array import on_torch as _torch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"device={device!r} needs torch, which is not installed; install it with "
            "`pip install kaucus[torch]`, or use device=None."
        ) from error
    return _torch


def dtype_name(x: Array) -> str:
    """Return the dtype's name as the standard spells it, for example ``float32``."""
    name = _numpy_name if isinstance(x, np.ndarray) else str
    return name(x.dtype).rsplit(".", maxsplit=1)[-1]


_numpy_name = functools.cache(str)  # it takes NumPy microseconds


def epsilon(x: Array) -> float:
    """Return the spacing of floating-point numbers at 1 in the precision of ``x``."""
    dtype = x.dtype if isinstance(x, np.ndarray) else dtype_name(x)
    return float(np.finfo(dtype).eps)


def label_array(labels: np.ndarray, like: Array) -> Array:
    """Return labels as an array like ``like``; a NumPy array if not numeric."""
    return as_like(labels, like) if labels.dtype.kind in "fiub" else labels


@functools.singledispatch
def astype(x: Array, dtype: str) -> Array:
    """Return ``x`` with the given dtype, without a copy if it has this dtype."""
    if dtype_name(x) == dtype:
        return x
    if is_sparse(x):
        return x.astype(dtype)
    xp = array_namespace(x)
    return xp.astype(x, getattr(xp, dtype))


def itemsize(x: Array) -> int:
    """Return the bytes of one element."""
    return np.dtype(dtype_name(x)).itemsize


@functools.singledispatch
def take_rows(X: Array, rows: Array) -> Array:
    """Return the rows with the given numbers, of an array or a CSR matrix.

    Numbers are zero or more, in NumPy or beside ``X``. ``X`` may have any number of
    axes; of a vector, its rows are its entries. Rows of the host come to their device,
    those of a source to this process.
    """
    if isinstance(X, np.ndarray) or is_sparse(X):
        return X[rows]  # numpy.take would first copy the whole of a view
    rows = as_like(rows, X)
    if is_torch(X):  # the standard's way looks for negative numbers: four more launches
        return X.index_select(0, rows)
    return array_namespace(X).take(X, rows, axis=0)


@functools.singledispatch
def rows_in_order(X: Array, order: Array) -> Array:
    """Return rows by their numbers, however many; rows of the host stay there."""
    return take_rows(X, order if is_sparse(X) else as_like(order, X))


def dense_rows(X: Array, rows: np.ndarray) -> Array:
    """Return the rows with the given numbers as a dense array."""
    some = X[rows] if is_sparse(X) else take_rows(X, as_like(rows, X))
    return some.toarray() if is_sparse(some) else some


def joined(parts: Sequence[Array], axis: int = 0) -> Array:
    """Return arrays of one library as one; a single one as it is."""
    if len(parts) == 1:
        return parts[0]
    return array_namespace(parts[0]).concat(parts, axis=axis)


def concat_rows(X: Array, Y: Array) -> Array:
    """Return the rows of ``X`` followed by the rows of ``Y``; CSR if one is."""
    if is_sparse(X) or is_sparse(Y):
        return scipy.sparse.csr_array(scipy.sparse.vstack([_csr(X), _csr(Y)]))
    return array_namespace(X, Y).concat([X, Y], axis=0)


@functools.singledispatch
def owned(X: Array) -> Array:
    """Return a copy of an array or CSR matrix; rows on disk or in parts as given."""
    if _is_mapped(X):
        return X
    return X.copy() if is_sparse(X) else array_namespace(X).asarray(X, copy=True)


def _is_mapped(X: Any) -> bool:
    """Return True if an array is a memory map, or a view of one."""
    while X is not None and not isinstance(X, mmap.mmap):
        X = getattr(X, "base", None)
    return X is not None


def _csr(X: Array) -> Array:
    return scipy.sparse.csr_array(X)


def set_columns(X: Array, columns: Array, values: Array) -> None:
    """Write ``values``, (n, m), into the columns of ``X`` with the given numbers."""
    try:
        X[:, columns] = values
    except IndexError:  # a library that has the standard and nothing more
        for k in range(columns.shape[0]):
            X[:, int(columns[k])] = values[:, k]


def get_entries(X: Array, i: Array, j: Array) -> Array:
    """Return the entries ``(i, j)`` of ``X``, (m,)."""
    try:
        return X[i, j]
    except IndexError:  # a library that has the standard and nothing more
        xp = array_namespace(X)
        return xp.take(xp.reshape(X, (-1,)), i * X.shape[1] + j)


def set_entries(X: Array, i: Array, j: Array, values: Array) -> None:
    """Write ``values``, (m,), into m different entries ``(i, j)`` of ``X``."""
    try:
        X[i, j] = values
    except IndexError:  # a library that has the standard and nothing more
        xp, (n_rows, n_columns) = array_namespace(X), X.shape
        flat = i * n_columns + j
        order = xp.argsort(flat)
        flat = xp.take(flat, order)
        every = xp.arange(n_rows * n_columns, dtype=flat.dtype, device=device_of(X))
        at = xp.clip(xp.searchsorted(flat, every), max=flat.shape[0] - 1)
        mask = xp.take(flat, at) == every
        X[xp.reshape(mask, X.shape)] = xp.take(values, order)


def add_to_rows(X: Array, rows: Array, values: Array) -> Array:
    """Return a copy of ``X`` with ``values``, (m, t), added to m different rows."""
    xp = array_namespace(X)
    out = xp.asarray(X, copy=True)
    try:
        out[rows, :] += values
    except IndexError:  # a library that has the standard and nothing more
        for k in range(rows.shape[0]):
            out[int(rows[k]), :] += values[k, :]
    return out


# ---- elementwise functions that may reuse memory -------------------------------------


def exp(x: Array) -> Array:
    """Return exp(x); ``x`` may be overwritten."""
    return _unary(x, "exp")


def sqrt(x: Array) -> Array:
    """Return the square root of x; ``x`` may be overwritten."""
    return _unary(x, "sqrt")


def not_negative(x: Array) -> Array:
    """Return max(x, 0); ``x`` may be overwritten."""
    if is_numpy(x):
        return np.maximum(x, 0, out=x)
    return x.clamp_(min=0) if is_torch(x) else array_namespace(x).clip(x, min=0)


def _unary(x: Array, name: str) -> Array:
    if isinstance(x, np.ndarray):
        return getattr(np, name)(x, out=x)
    if is_torch(x):
        return getattr(x, name + "_")()
    return getattr(array_namespace(x), name)(x)


# ----------------------------------------------------------------------------------
# Precision by name: what rows are cast to, and how products of rows are rounded.
#
# ``"tf32"`` is float32 whose matrix products, on CUDA, round their factors to ten bits:
# several times as fast. It is asked for by :func:`products_in` and holds for
# :func:`product` alone, in this thread alone, until the end of the ``with``; torch's
# own setting is changed for the length of one call, and restored. Elsewhere it is
# float32.
#
# A float32 matrix T is multiplied by float64 columns V without being widened. V = H + L
# with H the float32 nearest to V and L the float32 nearest to the rest keeps 48 of V's
# 53 bits, so T V = T [H, L] is a float32 product of twice as many columns: a few beside
# the matrix, whose copy in float64 would take twice its own room. Sums over a few
# columns of T are in float32, the rest in float64: what that rounds is below what the
# entries of a float32 kernel have been rounded already (4.6e-7 in place of 4.4e-7 of
# the largest value, for 6,000 columns of a polynomial kernel of degree four).
# ----------------------------------------------------------------------------------

PRECISIONS = (None, "float64", "float32", "tf32")

_rough: contextvars.ContextVar[bool] = contextvars.ContextVar("_rough", default=False)


def working_types(precision: str | None) -> tuple[type, ...]:
    """Return the NumPy types that rows may have; others are cast to the first."""
    if precision is None:
        return (np.float64, np.float32)
    return (np.float64,) if precision == "float64" else (np.float32,)


@contextlib.contextmanager
def products_in(precision: str | None) -> Iterator[None]:
    """Let :func:`product` work in tf32 where that is the precision asked for."""
    token = _rough.set(precision == "tf32")
    try:
        yield
    finally:
        _rough.reset(token)


def product(X: Array, Y: Array) -> Array:
    """Return X Yᵀ; in tf32 on CUDA, where :func:`products_in` allows it."""
    with _switched_for(X):
        return X @ Y.T


def product_into(out: Array, X: Array, Y: Array) -> Array:
    """Write :func:`product` into a NumPy array or tensor, and return that."""
    if not is_torch(out):
        return np.matmul(X, Y.T, out=out)
    with _switched_for(X):
        return torch_versions().product_into(out, X, Y)


def add_product(out: Array, X: Array, Y: Array) -> Array:
    """Return ``out`` + X Yᵀ, in the memory of ``out``; in tf32 as :func:`product`."""
    if is_torch(out):
        with _switched_for(X):
            return torch_versions().add_product(out, X, Y)
    out += X @ Y.T
    return out


def _switched_for(X: Array) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that sets torch's tf32 mode for products with ``X``."""
    if not _is_rough(X):
        return contextlib.nullcontext()
    return torch_versions().tf32_products()


def product_epsilon(x: Array) -> float:
    """Return the relative rounding of the factors of :func:`product`."""
    # Ten bits are kept, and the others may be cut off rather than rounded.
    return 2.0**-10 if _is_rough(x) else epsilon(x)


def _is_rough(x: Array) -> bool:
    if not _rough.get() or not is_torch(x):
        return False
    return torch_versions().has_tf32(x)


# ---- a float32 matrix times float64 columns ------------------------------------------


# Columns of one float32 sum.
_SHORT = 256


def split_columns(V: np.ndarray) -> np.ndarray:
    """Return [H, L] in float32, (m, 2t), with H + L near the float64 ``V``, (m, t)."""
    high = V.astype(np.float32)
    low = (V - high).astype(np.float32)
    return np.concatenate([high, low], axis=1)


def times_split(T: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return T V in float64, (n, t).

    Parameters
    ----------
    T : float32 array of shape (n, m)
    parts : array of shape (m, 2t)
        V as :func:`split_columns` returns it.
    """
    t = parts.shape[1] // 2
    total = np.zeros((T.shape[0], 2 * t))
    for start in range(0, T.shape[1], _SHORT):
        columns = slice(start, start + _SHORT)
        total += T[:, columns] @ parts[columns]
    return total[:, :t] + total[:, t:]


# ----------------------------------------------------------------------------------
# Warnings that point at the user's own line, however deep the code is that warns.
# ----------------------------------------------------------------------------------

# Packages between a user's line and the code that warns: ours, those that call our
# estimators (pipelines, searches, workers), and the parts of Python that they use.
_PASSED_OVER = {
    "concurrent",
    "contextlib",
    "copy",
    "functools",
    "joblib",
    "kaucus",
    "pickle",
    "sklearn",
    "threading",
}


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn with the line of the user's code as the source.

    That is the innermost frame outside this package, scikit-learn and joblib. In a
    worker thread or process, where there is none, it is the frame that called us.

    Parameters
    ----------
    message : str
    category : type of Warning

    Notes
    -----
    ``warnings.warn(skip_file_prefixes=...)`` does the like, from Python 3.12 on.
    """
    frame = _users_frame()
    where = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=where.get("__name__", "<unknown>"),
        # By it Python knows which warnings of this place it has shown already.
        registry=where.setdefault("__warningregistry__", {}),
    )


def _users_frame() -> FrameType:
    """Return the frame of the line to warn at."""
    caller = sys._getframe(1)
    while _package(caller) == "kaucus" and caller.f_back is not None:
        caller = caller.f_back
    frame = caller
    while _package(frame) in _PASSED_OVER:
        if frame.f_back is None:
            return caller
        frame = frame.f_back
    return frame


def _package(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]
