"""The contract of every estimator: results of the same kind as the rows."""

import contextlib
import functools
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted
from sklearn.utils.validation import validate_data as _validate_data

from kaucus._array import namespace as nx
from kaucus._array.blocks import resolve_budget, row_blocks
from kaucus._array.namespace import Array
from kaucus._array.rows import BatchRows, RowSource, as_matrix, look_at, summary_of

try:  # scikit-learn's callbacks, since 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """Without ``set_callbacks``, as there are none."""

    def with_callbacks(method):
        """Return the method."""
        return method


# ----------------------------------------------------------------------------------
# Packages that only some users need, ONNX among them: imported late, or missed.
# ----------------------------------------------------------------------------------


class MissingPackageError(ModuleNotFoundError):
    """An optional package is needed and not installed."""


def require(module: str, extra: str) -> Any:
    """Import a module, or raise an error with the extra that installs it.

    Parameters
    ----------
    module : str
        For example ``"skops.io"``.
    extra : str
        The extra of kaucus that has it.
    """
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise MissingPackageError(
            f"{package} is not installed; this needs it: pip install 'kaucus[{extra}]'"
        )
    return importlib.import_module(module)


# ---- the method of estimators that ONNX has a form for -------------------------------


def to_onnx(self, *, dtype="float32"):
    """Return the fitted model as an ONNX model.

    Parameters
    ----------
    dtype : {"float32", "float64"}, default="float32"
        Of the rows that the graph takes, and of the numbers that it returns;
        see :func:`kaucus.onnx.to_onnx`, which takes pipelines too.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(result, "model.onnx")`` writes it.
    """
    # By name: graphs are made of estimators, not the other way round.
    return importlib.import_module("kaucus.onnx").to_onnx(self, dtype=dtype)


# ----------------------------------------------------------------------------------
# Docstrings of estimators, each part written once.
#
# Who checks a parameter, or stores an attribute, describes it: a base class or a mixin.
# An estimator's own docstring has what is its own, and is completed when the class is
# made, with the defaults of its signature. So ``help`` and the reference show all of
# it.
# ----------------------------------------------------------------------------------

# A title with a line of dashes below it, and all that follows up to the next one.
_SECTION = r"(?P<head>^{title}\n-+\n)(?P<body>.*?)(?=^[A-Z][^\n]*\n-+\n|\Z)"
# A name, and perhaps its type, at the margin, and the lines set in below it.
_ENTRY = re.compile(r"^(?P<name>\w+)\b[^\n]*(?:\n[ \t]+\S[^\n]*)*", re.MULTILINE)


def complete_docstring(cls: type) -> None:
    """Complete a class's docstring with the parameters and attributes of its bases."""
    if "__init__" not in vars(cls) or not cls.__doc__:
        return
    docs = [inspect.cleandoc(vars(base).get("__doc__") or "") for base in cls.__mro__]
    parameters = dict(inspect.signature(cls.__init__).parameters)
    del parameters["self"]
    known = _described(docs, "Parameters")
    doc = _replaced(
        docs[0],
        "Parameters",
        [_with_default(known[n], p) for n, p in parameters.items() if n in known],
    )
    attributes = _described(docs, "Attributes").values()
    cls.__doc__ = _replaced(doc, "Attributes", list(attributes))


def _described(docs: list[str], title: str) -> dict[str, str]:
    """Return the entries of a section by name, from the first docstring with each."""
    entries: dict[str, str] = {}
    for doc in docs:
        found = _section(title).search(doc)
        for entry in _ENTRY.finditer(found["body"] if found else ""):
            entries.setdefault(entry["name"], entry[0])
    return entries


def _section(title: str) -> re.Pattern[str]:
    text = _SECTION.replace("{title}", title)
    return re.compile(text, re.MULTILINE | re.DOTALL)


def _with_default(entry: str, parameter: inspect.Parameter) -> str:
    """Return an entry with the signature's default added if missing."""
    head, _, text = entry.partition("\n")
    if parameter.default is parameter.empty or "default=" in entry:
        return entry
    value = parameter.default
    written = f'"{value}"' if isinstance(value, str) else repr(value)
    return f"{head}, default={written}\n{text}"


def _replaced(doc: str, title: str, entries: list[str]) -> str:
    """Return a docstring with the entries of one section replaced."""
    body = "\n".join(entries) + "\n\n"
    return _section(title).sub(lambda found: found["head"] + body, doc)


# ----------------------------------------------------------------------------------
# Dask collections at the edge: fitted part by part, or refused at once.
#
# Rows of a Dask array or frame are never read into one place behind anybody's back.
# What is a function of each row by itself is lazy (``rowwise``), scores are sums over
# partitions, and a fit takes the rows as a source of parts, if the estimator can
# (``_dask_fit``), or says what to do.
# ----------------------------------------------------------------------------------


def is_dask(values: Any) -> bool:
    """Return True if values are a Dask collection, without importing dask."""
    return hasattr(values, "__dask_graph__")


def gathered(values: Any) -> Any:
    """Return labels, targets or weights of a Dask collection as a NumPy array."""
    if not is_dask(values):
        return values
    from kaucus.distributed import values_of

    return values_of(values)


def validate_partitions(
    estimator: BaseEstimator, X: Any, y: Any, *, dtype: Any, reset: bool, **options: Any
) -> Any:
    """Return rows in partitions, or a row source, as a source; targets as an array.

    Of an estimator that learns nothing from the values, a row of zeros.
    """
    how = getattr(estimator, "_dask_fit", None)
    if how is None or not reset:
        raise refusal(estimator, "fit" if reset else "this method")
    if nx.is_sparse(getattr(X, "_meta", None)) and not options.get("accept_sparse"):
        raise TypeError(
            f"The partitions of X are sparse, and {type(estimator).__name__} needs "
            "dense rows; pass X.map_blocks(lambda block: block.toarray())."
        )
    types = dtype if isinstance(dtype, tuple) else (np.float64, np.float32)
    if isinstance(X, RowSource):
        rows = X
    elif how == "columns":
        rows = np.zeros((1, X.shape[1]), X.dtype if hasattr(X, "chunks") else types[0])
    else:
        from kaucus.distributed import rows_of

        rows = rows_of(
            X,
            types,
            memory_budget=getattr(estimator, "memory_budget", None),
            device=getattr(estimator, "device", None),
            name=type(estimator).__name__,
        )
    # Shape and targets are looked at by scikit-learn itself, which need not see the
    # values for that; and the names of a frame's columns.
    shape_alone = np.broadcast_to(np.zeros(()), tuple(rows.shape))
    options = {name: o for name, o in options.items() if name != "accept_sparse"}
    checked = _validate_data(
        estimator, shape_alone, y, ensure_all_finite=False, **options
    )
    if hasattr(X, "columns"):
        remember_columns(estimator, X._meta_nonempty)
    return (rows, *checked[1:]) if isinstance(checked, tuple) else rows


def remember_columns(estimator: BaseEstimator, frame: Any) -> None:
    """Store number and names of the columns of a frame, as scikit-learn does."""
    _validate_data(estimator, frame, reset=True, skip_check_array=True)


def refusal(
    estimator: Any,
    method: str,
    what: str = "a Dask collection",
    some: str = "X[:10_000].compute()",
) -> TypeError:
    """Return the error of a method that needs all rows in one place.

    ``what`` the rows are, and how to get ``some`` of them.
    """
    name = type(estimator).__name__
    if method == "partial_fit":
        remedy = (
            "Call fit, which takes Dask collections as they are, or partial_fit with "
            "each partition in turn, X.partitions[i].compute()."
        )
    else:
        others = (
            "KMeansKernelClassifier, KMeansKernelRegressor, SphericalKMeans, "
            "KernelOutlierDetector, LearnedMetric, RepresentativeFeatures and "
            "KernelKMeans(approximation='nystrom') fit rows of Dask collections."
        )
        remedy = (
            f"{getattr(estimator, '_dask_remedy', others)} Or fit {name} to a part of "
            f"the rows in memory, for example {some}, and apply it to all."
        )
    return TypeError(
        f"{method} of {name} needs all rows in one place, and X is {what}, which is "
        f"not read into memory as a whole. {remedy}"
    )


# ----------------------------------------------------------------------------------
# What a fit leaves behind: a whole model or none, with its arrays where X was.
#
# Kernels and partitions keep their own arrays, which are small, with NumPy, and copy
# them to where they are asked; labels stay NumPy arrays as well. All other arrays of a
# fitted estimator follow X, and so do results of methods of each row (:func:`rowwise`).
#
# An error or Ctrl-C during ``fit`` or ``partial_fit`` reaches the caller, and leaves
# the estimator as it was before the call. What is long and compiled is cut, or runs in
# a thread (``interruptible``), so that Ctrl-C is answered within about a second.
# ----------------------------------------------------------------------------------


class Packed(NamedTuple):
    """A tensor on its way to another machine, which may have neither GPU nor torch."""

    values: np.ndarray
    place: str


SITE = "https://kaucus.github.io/kaucus"


class FollowsX:
    """Mixin of every estimator: ``fit`` leaves a whole model where its rows were.

    Parameters are checked by the tables of the class and its bases (``_parameters``),
    and scikit-learn's HTML picture links to the reference.

    Parameters
    ----------
    device : str
        None computes where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes there and
        gives results back as the kind of ``X``. Needs torch.
    memory_budget : int or str
        Bytes, or a string such as ``"4GiB"``; None is three quarters of what is free.
    verbose : int
        1 shows progress on a terminal.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where ``X`` had names that are all strings.
    """

    _parameters: ClassVar[dict[str, Any]] = {}
    _doc_link_module = "kaucus"
    _doc_link_template = SITE + "/{version}/reference/{module}.{name}.html"

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        complete_docstring(cls)
        for name in ("fit", "fit_transform", "partial_fit"):
            if name in vars(cls):
                setattr(cls, name, _whole(vars(cls)[name]))

    def _check_parameters(self) -> None:
        """Validate the parameters, before the data."""
        mine = self.get_params(deep=False)  # type: ignore[attr-defined]
        for name, constraint in constraints_of(type(self)).items():
            if name in mine:
                constraint.check(name, mine[name])
        self._check_combinations()

    def _check_combinations(self) -> None:
        """Check parameters that depend on each other."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.array_api_support = True
        return tags

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return the public name of the class for its documentation link.

        Each minor version of the site has a folder of its own, such as ``0.1``.
        """
        package, folder = type(self).__module__.split(".")[:2]
        module = package if folder == "estimators" else f"{package}.{folder}"
        # The package itself is above all layers, and is imported when this runs.
        version = ".".join(sys.modules[package].__version__.split(".")[:2])
        return {"version": version, "module": module, "name": type(self).__name__}

    def to_device(self, device):
        """Move the fitted model, in place.

        Parameters
        ----------
        device : str
            ``"cuda"`` or ``"cuda:1"``: its arrays become tensors there. ``"cpu"``:
            tensors come to the host, NumPy arrays stay what they are. ``"numpy"``: all
            become NumPy arrays. Labels (``classes_``), CSR rows and the small arrays
            within kernels stay on the host.

        Returns
        -------
        self : object
            The parameter ``device``, where there is one, follows: rows to predict
            travel to the GPU that is named, or are worked on where they are.
        """
        on_host = device in ("cpu", "numpy")
        if not on_host:
            nx.to_device(np.zeros(0), device)  # before anything is moved: is it there?
        for name, value in fitted_attributes(self):
            setattr(self, name, _mapped(value, lambda x: _moved(x, device)))
        if hasattr(self, "device"):
            self.device = None if on_host else device
        return self

    def __getstate__(self):
        state = super().__getstate__()  # type: ignore[misc]
        # Lazy results, such as labels, are of data that stays where it is.
        kept = {name: value for name, value in state.items() if not is_dask(value)}
        return {name: _mapped(value, _pack) for name, value in kept.items()}

    def __setstate__(self, state):
        state = {name: _mapped(value, _unpack) for name, value in state.items()}
        device = state.get("device")
        if isinstance(device, str) and not nx.device_is_here(device):
            nx.warn_user(
                f"{type(self).__name__} was made with device={device!r}, which is not "
                "here; device=None from now on: rows are worked on where they are.",
                UserWarning,
            )
            state["device"] = None
        super().__setstate__(state)  # type: ignore[misc]


def constraints_of(cls: type) -> dict[str, Any]:
    """Return the constraints of a class and its bases; the class's own win."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base).get("_parameters", {})
    return found


Init = TypeVar("Init", bound=Callable)


def stored(init: Init) -> Init:
    """Return an ``__init__`` that stores every parameter unchanged."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def wrapped(self, *args, **kwargs):
        init(self, *args, **kwargs)  # its own errors for arguments it does not have
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        vars(self).update({k: v for k, v in given.arguments.items() if k != "self"})

    return cast(Init, wrapped)  # type checkers see the signature


def _whole(method: Any) -> Any:
    """Return the method with the estimator restored if it raises.

    What an exception has as ``kept`` stays: the iterate of an interrupted solver.
    """

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        X = args[0] if args else kwargs.get("X")
        if method.__name__ == "partial_fit" and is_dask(X):
            raise refusal(self, "partial_fit")
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            # One assignment: a second Ctrl-C finds the one state or the other.
            self.__dict__ = {**before, **getattr(error, "kept", {})}
            raise

    return wrapped


def fitted_attributes(estimator: FollowsX) -> list[tuple[str, Any]]:
    """Return the fitted attributes that may contain arrays of X's library."""
    kept = ("classes_", "feature_names_in_")
    found = vars(estimator).items()
    return [(k, v) for k, v in found if k.endswith("_") and k not in kept]


def fitted_arrays(estimator: Any) -> Iterator[tuple[str, Array]]:
    """Yield name and value of the arrays that follow X, also of estimators within.

    Of other packages' estimators within, none: these keep what they like.
    """
    if hasattr(estimator, "steps"):  # a pipeline
        for _, step in estimator.steps:
            yield from fitted_arrays(step)
    if not isinstance(estimator, FollowsX):
        return
    for name, value in fitted_attributes(estimator):
        for part in value if isinstance(value, list) else [value]:
            if nx.is_numpy(part) or nx.is_tensor(part):
                yield name, part
            elif isinstance(part, BaseEstimator):
                yield from fitted_arrays(part)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a function of a value, or of each value of a list."""
    return [function(v) for v in value] if isinstance(value, list) else function(value)


def _moved(value: Any, device: str) -> Any:
    """Return an array on the device; estimators within move themselves."""
    if isinstance(value, FollowsX):
        return value.to_device(device)
    if hasattr(value, "steps"):  # a pipeline
        for _, step in value.steps:
            _moved(step, device)
    if not (nx.is_numpy(value) or nx.is_tensor(value)):
        return value
    if device == "numpy":
        return nx.to_numpy(value)
    if nx.is_numpy(value) and value.dtype.kind not in "fiub":
        return value  # labels that are texts
    return nx.to_device(value, device)


def _pack(value: Any) -> Any:
    if not (nx.is_torch(value) or nx.is_cupy(value)):
        return value
    return Packed(nx.to_numpy(value), nx.place_of(value))


def _unpack(value: Any) -> Any:
    return nx.tensor_near(*value) if isinstance(value, Packed) else value


# ---- methods of each row by itself ---------------------------------------------------


def rowwise(method: Any) -> Any:
    """Let a method of each row by itself, such as ``predict``, follow the kind of X.

    Of a Dask collection it returns a lazy Dask array, the method of each partition;
    other rows are held to scikit-learn's rule of one library and device.
    """

    @functools.wraps(method)
    def wrapped(self, X, **options):
        if is_dask(X):
            from kaucus.distributed import lazy_method

            check_is_fitted(self)
            return lazy_method(self, method.__name__, X, options)
        _check_follows_fit(self, X, method.__name__)
        return method(self, X, **options)

    return wrapped


def _check_follows_fit(estimator: BaseEstimator, X: Any, method: str) -> None:
    """Check scikit-learn's rule for ``array_api_dispatch``: the library of fit.

    Rows must then be of the library and on the device of the rows of ``fit``. With it
    off, results follow X, and the model's arrays are copied to where X is.
    """
    if not sklearn.get_config().get("array_api_dispatch"):
        return
    for _, fitted in fitted_arrays(estimator):
        if _place(fitted) == _place(X):
            return
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same "
            "namespace and the same device as those passed to fit(): it was fitted on "
            f"{_place(fitted)}, X is of {_place(X)}. Move the rows, or the model with "
            "to_device."
        )


def _place(values: Any) -> tuple[str, str]:
    if not nx.is_tensor(values):
        return "numpy", "cpu"
    return type(values).__module__.partition(".")[0], str(nx.device_of(values))


# ----------------------------------------------------------------------------------
# Rows that one machine reads batch by batch: from a function, or of a memory map.
#
# As with Dask partitions, each pass reads them once, and the fit is that of all rows.
# ----------------------------------------------------------------------------------

# Of a memory map: large enough to be read fast, small beside the work on it.
_BATCH_BYTES = 64 * 2**20
# A memory map that takes less than this share of the budget is as good as in memory.
_SMALL_SHARE = 1 / 8


class Batches(NamedTuple):
    """Rows read batch by batch, with their targets and weights."""

    rows: BatchRows
    y: np.ndarray | None
    sample_weight: np.ndarray | None
    first: Any
    """The first batch as it was given, for the names of its columns."""


def read_batches(
    batches: Callable[[], Iterable], types: tuple, memory_budget: Any, name: str
) -> Batches:
    """Read all batches once; store targets and weights, not rows.

    Parameters
    ----------
    batches : callable
        Returns an iterable, anew at every call, of rows or of tuples of rows, targets
        and, perhaps, weights.
    types : tuple of NumPy types
        Of rows of others than these, the first is made.
    memory_budget : int, str or None
    name : str
        The estimator's, for messages.
    """
    if not callable(batches):
        raise TypeError(
            f"fit_batches needs a function that returns the batches anew at every "
            f"call, got {type(batches).__name__}; pass for example "
            "lambda: (load(name) for name in names)."
        )
    looks, targets, weights, first = [], [], [], None
    for batch in batches():
        rows, *rest = batch if isinstance(batch, tuple) else (batch,)
        first = rows if first is None else first
        looks.append(look_at(as_matrix(rows)))
        for given, values in zip((targets, weights), rest, strict=False):
            given.append(np.asarray(values))
    if first is None:
        raise ValueError("There are no batches; the function must return at least one.")
    source = _source(
        lambda: (as_matrix(_rows_of(batch)) for batch in batches()),
        looks,
        as_matrix(first),
        types,
        memory_budget,
        name,
    )
    y, weight = (np.concatenate(v) if v else None for v in (targets, weights))
    return Batches(source, y, weight, first)


def is_large_map(X: Any, memory_budget: Any) -> bool:
    """Return True if X is a memory map that is to be read batch by batch."""
    if not isinstance(X, np.memmap) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return False
    in_work = X.size * max(X.dtype.itemsize, 4)
    return in_work > _SMALL_SHARE * resolve_budget(memory_budget)


def map_rows_of(X: np.memmap, types: tuple, memory_budget: Any, name: str) -> BatchRows:
    """Return the rows of a memory map, of which no more than a batch is copied."""
    n_bytes = min(_BATCH_BYTES, resolve_budget(memory_budget) // 16)
    slices = list(row_blocks(X.shape[0], 8 * X.shape[1], n_bytes))

    def batches():
        return (np.asarray(X[s]) for s in slices)

    looks = [look_at(rows) for rows in batches()]
    return _source(batches, looks, X, types, memory_budget, name)


def _source(read, looks, like, types, memory_budget, name: str) -> BatchRows:
    dtype = like.dtype if like.dtype in types else np.dtype(types[0])
    row = np.zeros((1, like.shape[1]), dtype)
    seen = summary_of(looks, row, "batch", range(like.shape[1]), name)
    return BatchRows(**seen, budget=resolve_budget(memory_budget), read=read)


def _rows_of(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple) else batch


def fit_batches(self, batches):
    """Fit rows that a function reads batch by batch.

    The model is that of ``fit`` with all rows in memory, up to rounding: they are
    read once for every pass over them, of which there are dozens. Labels and
    weights stay in memory, rows do not. For rows that come once, and never again,
    there is ``partial_fit``.

    Parameters
    ----------
    batches : callable
        Returns an iterable of batches, anew at every call: rows of shape
        (n_batch, n_features), or tuples ``(X, y)`` or ``(X, y, sample_weight)``.
        For example ``lambda: (load(name) for name in names)``.

    Returns
    -------
    self : object
    """
    self._check_parameters()
    if self._dask_fit is None:
        what = "a source of batches"
        raise refusal(self, "fit_batches", what, "the first batch")
    found = read_batches(
        batches,
        nx.working_types(getattr(self, "precision", None)),
        self.memory_budget,
        type(self).__name__,
    )
    self.fit(found.rows, found.y, found.sample_weight)
    if hasattr(found.first, "columns"):
        remember_columns(self, found.first)
    return self


# ----------------------------------------------------------------------------------
# Check arrays of every library as scikit-learn checks its own.
#
# One rule for every estimator and transformer: *results follow X*. Rows that are torch
# tensors, CuPy arrays or arrays of array-api-strict are computed with where they are,
# and what is made from them, fitted or returned, is of their library and on their
# device. Labels, targets and weights may be of any library; they follow X too.
#
# scikit-learn does the same once its setting ``array_api_dispatch`` is on, and converts
# to NumPy while it is off. Here no setting is needed; with it on, its stricter rule
# holds: what was fitted on one library predicts for rows of that library alone.
# ----------------------------------------------------------------------------------

# What scikit-learn says of columns that are not numbers, or have gaps.
_FRAME_ERRORS = (
    "Input X contains NaN",
    "could not convert string to float",
    "could not be promoted",
)


def on_host(values: Any) -> Any:
    """Return tensors and Dask vectors as NumPy arrays, everything else as it is."""
    values = gathered(values)
    return nx.to_numpy(nx.without_history(values)) if nx.is_tensor(values) else values


def validate_data(
    estimator: BaseEstimator,
    X: Any,
    y: Any = "no_validation",
    *,
    dtype: Any = "numeric",
    **options: Any,
) -> Any:
    """Check rows, and targets if given, as scikit-learn does; tensors stay tensors.

    Parameters
    ----------
    estimator : BaseEstimator
    X : array-like, CSR matrix, tensor or Dask collection of shape (n, d)
    y : array-like, tensor or Dask collection, default="no_validation"
        Returned as a NumPy array.
    dtype : "numeric", NumPy type or tuple of them, default="numeric"
        As in scikit-learn: of several types the first is converted to.
    **options
        Of :func:`sklearn.utils.validation.validate_data`.

    Returns
    -------
    X or (X, y)
        Of a Dask collection, a row source; see ``validate_partitions``.
    """
    if hasattr(estimator, "image_shape"):
        _refuse_images(X)
    y = on_host(y)
    if not options.get("multi_output"):
        y = _one_column(y)
    if _is_read_in_batches(estimator, X, options.get("reset", True)):
        budget, name = estimator.memory_budget, type(estimator).__name__
        X = map_rows_of(X, dtype, budget, name)
    if is_dask(X) or isinstance(X, RowSource):
        reset = options.pop("reset", True)
        return validate_partitions(estimator, X, y, dtype=dtype, reset=reset, **options)
    if not nx.is_tensor(X):
        with _line_for_frames(type(estimator).__name__):
            return _validate_data(estimator, X, y, dtype=dtype, **options)
    X = _as_dtype(nx.without_history(X), dtype)
    # Shape, number of features and targets are looked at by scikit-learn itself, which
    # need not see the values for that.
    shape_alone = np.broadcast_to(np.zeros(()), tuple(X.shape))
    options.pop("accept_sparse", None)
    checked = _validate_data(
        estimator, shape_alone, y, ensure_all_finite=False, **options
    )
    _check_finite(X, type(estimator).__name__)
    return (X, *checked[1:]) if isinstance(checked, tuple) else X


def _refuse_images(X: Any) -> None:
    """Raise where pictures come with axes of their own, not as rows."""
    shape = tuple(getattr(X, "shape", ()))
    if len(shape) in (3, 4):
        raise ValueError(
            f"X has shape {shape}, {len(shape)} axes; expected one row for each "
            f"picture: X.reshape(len(X), -1), with image_shape={shape[1:]}. Channels "
            "come first."
        )


@contextlib.contextmanager
def _line_for_frames(name: str) -> Iterator[None]:
    """Context manager: errors of gaps and text name the class that takes them."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if not any(text in str(error) for text in _FRAME_ERRORS):
            raise
        first = str(error).splitlines()[0].split(". ")[0]
        raise ValueError(
            f"{name} takes numbers without gaps. TableClassifier and TableRegressor "
            "take gaps, texts and dates as they are; or put a ColumnTransformer with "
            f"SimpleImputer and OneHotEncoder before it. Seen in X: {first}"
        ) from error


def _is_read_in_batches(estimator: Any, X: Any, reset: bool) -> bool:
    """Return True if X is a memory map of training rows to be read in batches."""
    return (
        reset
        and getattr(estimator, "_dask_fit", None) == "rows"
        and estimator.device in (None, "cpu")  # a GPU has its own way
        and is_large_map(X, estimator.memory_budget)
    )


def _one_column(y: Any) -> Any:
    """Return a single column of labels with one axis, and say so; others as given."""
    if not hasattr(y, "shape") or len(y.shape) != 2 or y.shape[1] != 1:
        return y
    nx.warn_user(
        "A column-vector y was passed when a 1d array was expected. Please change the "
        "shape of y to (n_samples,), for example using ravel().",
        DataConversionWarning,
    )
    return np.asarray(y).reshape(-1)


def _as_dtype(X: Array, dtype: Any) -> Array:
    """Return X converted to the first dtype unless it has one of them."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: shape {tuple(X.shape)}. "
            "Reshape your data: X.reshape(-1, 1) if it has a single feature, "
            "X.reshape(1, -1) if it is a single sample."
        )
    if "complex" in nx.dtype_name(X):
        raise ValueError(f"Complex data not supported: X is {nx.dtype_name(X)}.")
    if isinstance(dtype, str) and dtype == "numeric":
        return nx.astype(X, "float32") if nx.dtype_name(X) == "bfloat16" else X
    names = [np.dtype(d).name for d in (dtype if isinstance(dtype, tuple) else [dtype])]
    return X if nx.dtype_name(X) in names else nx.astype(X, names[0])


def _check_finite(X: Array, name: str) -> None:
    if "float" not in nx.dtype_name(X):
        return
    xp = nx.array_namespace(X)
    # A finite sum tells it all, without a mask as large as X.
    if bool(xp.isfinite(xp.sum(X))) or bool(xp.all(xp.isfinite(X))):
        return
    what = "NaN" if bool(xp.any(xp.isnan(X))) else "infinity"
    raise ValueError(
        f"Input X contains {what}. {name} needs finite numbers; take those rows out, "
        "or fill them, for example with sklearn.impute.SimpleImputer."
    )


def score(self, X, y, sample_weight=None):
    """Return the share of labels that are predicted right; of numbers, R².

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The right labels or numbers, on any device.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.

    Returns
    -------
    float
    """
    of_numbers = is_regressor(self)
    if is_dask(X):
        from kaucus.distributed import score_accuracy, score_r2

        return (score_r2 if of_numbers else score_accuracy)(self, X, y, sample_weight)
    from sklearn.metrics import accuracy_score, r2_score  # not before: imports rich

    judge = r2_score if of_numbers else accuracy_score
    predicted, weight = on_host(self.predict(X)), on_host(sample_weight)
    return float(judge(on_host(y), predicted, sample_weight=weight))
