"""ONNX graphs of fitted models, pipelines and table models."""

import functools
import itertools
import math

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

import kaucus
from kaucus._array.namespace import to_numpy
from kaucus._base import require
from kaucus.estimators._committee import Trees
from kaucus.estimators.cells import ClusterRBFSVC, LocalSVC
from kaucus.estimators.clusters import KernelKMeans, SphericalKMeans
from kaucus.estimators.features import RepresentativeFeatures
from kaucus.estimators.kmeans_kernel import (
    KMeansKernelClassifier,
    KMeansKernelRegressor,
)
from kaucus.estimators.ls_svm import LSSVMClassifier, LSSVMRegressor
from kaucus.estimators.metric import LearnedMetric
from kaucus.estimators.outliers import LEAST_DENSITY, KernelOutlierDetector
from kaucus.estimators.tables import TableModel
from kaucus.evaluation.displays import dense_rows
from kaucus.export.onnx_kernels import (
    OPSET,
    Graph,
    NotExportableError,
    cell_masks,
    kernel_diagonal,
    kernel_matrix,
    kernel_sums,
    map_rows,
    unit_vectors,
)
from kaucus.preprocessing.frames import CategoryColumn, DateColumn, NumberColumn
from kaucus.preprocessing.images import FourierFeatures, GaussianWindow
from kaucus.preprocessing.rows import UnitNormalizer

# ----------------------------------------------------------------------------------
# Transformers of rows and pictures, in operators of ONNX.
# ----------------------------------------------------------------------------------


def _with_spectrum(model: FourierFeatures, graph: Graph, x: str) -> str:
    """Add images with their spectra to a graph: eq. (15)-(20) of Andrecut (2020)."""
    d, n_frequencies = model.n_features_in_, math.prod(model.spectrum_shape_)
    x = _centred_unit_rows(graph, x, d)
    shape = (d,) if model.fft == "1d" else tuple(model.image_shape_)
    f = _fourier_modulus(graph, x, shape, len(shape) if model.fft != "2d" else 2)
    f = graph("Pow", f, float(model.power))
    if model.fft != "2d" or math.prod(shape[:-2]) == 1:
        # Zero, as the mean is off; a small power would magnify the rounding.
        f = graph("Mul", f, (np.arange(n_frequencies) > 0).astype(float)[None])
    f = _centred_unit_rows(graph, f, n_frequencies)
    if not model.concatenate:
        return f
    return graph("Mul", graph.columns(x, f), math.sqrt(0.5))


def _centred_unit_rows(graph: Graph, x: str, d: int) -> str:
    """Add (x − ⟨x⟩) / ‖x − ⟨x⟩‖; a constant row becomes zero."""
    peaks = graph.largest(graph("Abs", x))
    centred = graph("Sub", x, graph("Mul", graph.sum(x), 1 / d))
    norms = graph("Sqrt", graph.sum(graph("Mul", centred, centred)))
    # What is left of a constant row is rounding, not a direction.
    rounding = 4 * float(np.finfo(graph.given).eps) * math.sqrt(d)
    varies = graph("Greater", norms, graph("Mul", peaks, rounding))
    norms = graph("Where", varies, norms, np.ones((1, 1)))
    return graph("Where", varies, graph("Div", centred, norms), np.zeros((1, 1)))


def _fourier_modulus(graph: Graph, x: str, shape: tuple[int, ...], n_axes: int) -> str:
    """Add |FFT(x)| over the last axes, the first half of it, (n, n_frequencies).

    A transform of one axis is a product with a matrix of cosines and one of sines.
    """
    rank = len(shape) + 1
    real = graph("Reshape", x, np.array([-1, *shape]))
    half = math.ceil(shape[-1] / 2)
    cosines, sines = _waves(shape[-1], half)
    real, imaginary = graph.affine(real, cosines), graph.affine(real, sines)
    for axis in range(rank - n_axes, rank - 1):
        order = [*range(rank)]
        order[axis], order[-1] = order[-1], order[axis]
        turned = [graph("Transpose", v, perm=order) for v in (real, imaginary)]
        cosines, sines = _waves(shape[axis - 1], shape[axis - 1])
        parts = [(graph.affine(v, cosines), graph.affine(v, sines)) for v in turned]
        (rc, rs), (ic, is_) = parts
        turned = graph("Sub", rc, is_), graph("Add", rs, ic)
        real, imaginary = (graph("Transpose", v, perm=order) for v in turned)
    squares = [graph("Mul", v, v) for v in (real, imaginary)]
    modulus = graph("Sqrt", graph("Add", *squares))
    n_frequencies = math.prod(shape[:-1]) * half
    return graph("Reshape", modulus, np.array([-1, n_frequencies]))


def _waves(n: int, n_kept: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cos and −sin of 2π j k / n, (n, n_kept)."""
    # Whole turns are taken off first: sines of large numbers are rounded.
    angles = 2 * np.pi * (np.outer(np.arange(n), np.arange(n_kept)) % n) / n
    return np.cos(angles), -np.sin(angles)


# ----------------------------------------------------------------------------------
# Estimators in operators of ONNX.
#
# ``outputs_of(model, graph, x)`` adds the estimator to a graph and returns the names of
# its outputs: ``label``, ``probabilities`` and ``decision`` of a classifier,
# ``prediction`` of a regressor, ``label`` and ``transformed`` of a clusterer,
# ``transformed`` of a transformer.
# ----------------------------------------------------------------------------------

# Below the decision values of classes that a support vector machine has seen.
_NEVER = -1.0

Outputs = dict[str, str]


@functools.singledispatch
def outputs_of(model, graph: Graph, x: str) -> Outputs:
    """Add a fitted estimator of rows x, (n, d), to a graph; return its outputs."""
    raise NotExportableError(
        f"{type(model).__name__} cannot be exported to ONNX; expected an LS-SVM, a "
        "k-means kernel model, ClusterRBFSVC, LocalSVC, a clusterer, LearnedMetric, "
        "RepresentativeFeatures, KernelOutlierDetector, UnitNormalizer, "
        "FourierFeatures or GaussianWindow."
    )


def dense_points(rows) -> np.ndarray:
    """Return fitted rows as a NumPy array in float64."""
    return np.asarray(dense_rows(rows), dtype=np.float64)


# ---- least-squares support vector machines -------------------------------------------


def _numbers(model) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercept in float64."""
    return dense_points(model.dual_coef_), to_numpy(model.intercept_).astype(float)


def _values(model, graph: Graph, x: str) -> str:
    """Add f(x), (n, t)."""
    coef, intercept = _numbers(model)
    if model.kernel_ is None:  # x are kernel values already
        return graph.affine(x, coef, intercept)
    return kernel_sums(model.kernel_, graph, x, _support_of(model), coef, intercept)


def _support_of(model) -> np.ndarray:
    """Return the rows whose kernel columns the model is made of."""
    represented = isinstance(model, KMeansKernelClassifier | KMeansKernelRegressor)
    return dense_points(model.representatives_ if represented else model.X_fit_)


@outputs_of.register(LSSVMClassifier)
@outputs_of.register(KMeansKernelClassifier)
def _(model, graph: Graph, x: str) -> Outputs:
    values = _values(model, graph, x)
    return _of_classes(model, graph, values) | _probabilities(model, graph, x, values)


def _of_classes(model, graph: Graph, values: str) -> Outputs:
    """Add labels and decision values from one column, or one for each class."""
    if len(model.classes_) > 2:
        numbers = graph.argmax(values)
    else:
        values = graph.column(values)
        numbers = graph.cast(graph("Greater", values, 0.0), np.int64)
    return {"label": _labels(model, graph, numbers), "decision": values}


def _labels(model, graph: Graph, numbers: str) -> str:
    return graph("Gather", np.asarray(model.classes_), numbers)


def _probabilities(model, graph: Graph, x: str, values: str) -> Outputs:
    if model.probability is False:
        return {}
    if model.probability == "sum_exp":
        return {"probabilities": _sum_of_exponentials(model, graph, x)}
    if len(model.classes_) == 2:
        half = graph("Mul", values, 0.5)
        values = graph.columns(graph("Neg", half), half)
    scaled = graph("Mul", values, 1 / float(model.temperature_))
    return {"probabilities": graph("Softmax", scaled, axis=1)}


def _sum_of_exponentials(model, graph: Graph, x: str) -> str:
    """Add eq. (15) of Andrecut (2016): Σ_n exp(k(x, x_n) a_nj + b_j), normalised."""
    coef, intercept = _numbers(model)
    signs = np.array([[-1.0, 1.0]]) if coef.shape[1] == 1 else 1.0
    coef, intercept = coef * signs / 2, np.ravel((intercept * signs + 1) / 2)
    K = x
    if model.kernel_ is not None:
        K = kernel_matrix(model.kernel_, graph, x, _support_of(model))
    logs = []
    for a, b in zip(coef.T, intercept, strict=True):
        terms = graph("Mul", K, a[None, :])
        most = graph.largest(terms)
        total = graph.sum(graph("Exp", graph("Sub", terms, most)))
        logs.append(graph("Add", graph("Add", graph("Log", total), most), float(b)))
    return graph("Softmax", graph.columns(*logs), axis=1)


@outputs_of.register(LSSVMRegressor)
@outputs_of.register(KMeansKernelRegressor)
def _(model, graph: Graph, x: str) -> Outputs:
    values = _values(model, graph, x)
    single, levels = model._single_output, getattr(model, "quantiles_", None)
    if levels is not None and not single:  # in the order of their levels
        rank = np.argsort(np.argsort(to_numpy(levels), kind="stable"))
        values = graph("Gather", graph.ascending(values, len(rank)), rank, axis=1)
    return {"prediction": graph.column(values) if single else values}


# ---- support vector machines in cells ------------------------------------------------


@outputs_of.register
def _(model: ClusterRBFSVC, graph: Graph, x: str) -> Outputs:
    values = _svm_values(
        graph, x, model.svc_, model.kernel_, model.support_vectors_, model.classes_
    )
    return _of_class_columns(model, graph, values)


@outputs_of.register
def _(model: LocalSVC, graph: Graph, x: str) -> Outputs:
    masks = cell_masks(graph, model.partition_, x, model.n_cells_)
    parts = zip(model.svcs_, model.kernels_, model.support_vectors_, strict=True)
    values = None
    for mask, (svm, kernel, vectors) in zip(masks, parts, strict=True):
        own = _svm_values(graph, x, svm, kernel, vectors, model.classes_)
        # The first is everywhere, so that the number of rows is known.
        values = own if values is None else graph("Where", mask, own, values)
    return _of_class_columns(model, graph, values)


def _of_class_columns(model, graph: Graph, values: str) -> Outputs:
    if len(model.classes_) == 2:  # minus f and f
        values = graph("Gather", values, np.array([1]), axis=1)
    return _of_classes(model, graph, values)


def _svm_values(graph: Graph, x: str, svm, kernel, vectors, classes) -> str:
    """Add decision values of one of scikit-learn's SVMs, a column for each class."""
    k = len(classes)
    if isinstance(svm, int):  # the only class of a cell
        one = 2.0 * (np.arange(k) == svm)[None] - 1
        nothing = graph("Mul", graph.sum(x), 0.0)
        return graph("Add", nothing, one)
    coef, intercept = _pairwise_coefficients(svm)
    points = dense_points(vectors)
    pairs = kernel_sums(kernel, graph, x, points, coef, intercept)
    seen = svm.classes_
    if len(seen) == 2:
        values = graph.columns(graph("Neg", pairs), pairs)
    else:
        values = _one_vs_rest(graph, pairs, len(seen))
    if len(seen) == k:
        return values
    least = graph("Neg", graph.largest(graph("Neg", values)))
    never = graph("Add", graph("Min", least, 0.0), _NEVER)
    places = np.full(k, len(seen))
    places[seen] = np.arange(len(seen))
    return graph("Gather", graph.columns(values, never), places, axis=1)


def _pairwise_coefficients(svm) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of all pairs of classes, (m, n_pairs), and intercepts.

    libsvm keeps, for each support vector, one coefficient for every other class.
    """
    dual, intercept = np.asarray(svm.dual_coef_), np.asarray(svm.intercept_)
    k = len(svm.classes_)
    if k == 2:
        return dual.T, intercept
    ends = np.cumsum(svm.n_support_)
    rows = [np.arange(a, b) for a, b in itertools.pairwise([0, *ends])]
    coef = np.zeros((dual.shape[1], k * (k - 1) // 2))
    for pair, (i, j) in enumerate(itertools.combinations(range(k), 2)):
        coef[rows[i], pair] = dual[j - 1, rows[i]]
        coef[rows[j], pair] = dual[i, rows[j]]
    return coef, intercept


def _one_vs_rest(graph: Graph, pairs: str, k: int) -> str:
    """Add scikit-learn's votes of pairs, with sums that break ties."""
    combinations = list(itertools.combinations(range(k), 2))
    first = np.array([np.eye(k)[i] for i, _ in combinations])
    second = np.array([np.eye(k)[j] for _, j in combinations])
    loses = graph.cast(graph("Less", pairs, 0.0), graph.dtype)
    votes = graph.affine(loses, second - first, first.sum(axis=0))
    sums = graph.affine(pairs, first - second)
    share = graph("Mul", graph("Add", graph("Abs", sums), 1.0), 3.0)
    return graph("Add", votes, graph("Div", sums, share))


# ---- clusterers and transformers -----------------------------------------------------


@outputs_of.register
def _(model: SphericalKMeans, graph: Graph, x: str) -> Outputs:
    centers = dense_points(model.cluster_centers_)
    cosines = graph.affine(unit_vectors(graph, x), centers.T)
    label = graph.cast(graph.argmax(cosines), np.int32)
    return {"label": label, "transformed": cosines}


@outputs_of.register
def _(model: KernelKMeans, graph: Graph, x: str) -> Outputs:
    coef, norms = dense_points(model.center_coef_), to_numpy(model.center_norms_)
    outputs: Outputs = {}
    if model.kernel_ is None:
        D = graph.affine(x, -2 * coef, norms)
    else:
        points = dense_points(model.X_fit_)
        D = kernel_sums(model.kernel_, graph, x, points, -2 * coef, norms)
        D = graph("Max", graph("Add", D, kernel_diagonal(model.kernel_, graph, x)), 0.0)
        outputs["transformed"] = graph("Sqrt", D)
    label = graph.cast(graph("ArgMin", D, axis=1, keepdims=0), np.int32)
    return {"label": label} | outputs


@outputs_of.register
def _(model: KernelOutlierDetector, graph: Graph, x: str) -> Outputs:
    points = dense_points(model.representatives_)
    weights = dense_points(model.representative_weights_[:, None])
    density = kernel_sums(model.kernel_, graph, x, points, weights, np.zeros(1))
    scores = graph("Log", graph("Max", density, LEAST_DENSITY))
    scores = graph.column(graph("Sub", scores, model.offset_))
    outlier = graph.cast(graph("Less", scores, 0.0), np.int64)
    label = graph("Sub", 1, graph("Mul", outlier, 2))
    return {"label": graph.cast(label, np.int32), "decision": scores}


@outputs_of.register
def _(model: LearnedMetric, graph: Graph, x: str) -> Outputs:
    return {"transformed": map_rows(graph, model.row_map_, x)}


@outputs_of.register
def _(model: RepresentativeFeatures, graph: Graph, x: str) -> Outputs:
    points, roots = to_numpy(model.representatives_), to_numpy(model.normalization_)
    nothing = np.zeros(roots.shape[1])
    sums = kernel_sums(model.kernel_, graph, x, points, roots, nothing)
    return {"transformed": sums}


@outputs_of.register
def _(model: UnitNormalizer, graph: Graph, x: str) -> Outputs:
    return {"transformed": _centred_unit_rows(graph, x, model.n_features_in_)}


@outputs_of.register
def _(model: GaussianWindow, graph: Graph, x: str) -> Outputs:
    window = to_numpy(model.window_).reshape(-1)
    windows = np.tile(window, model.n_features_in_ // len(window))
    return {"transformed": graph("Mul", x, windows[None])}


@outputs_of.register
def _(model: FourierFeatures, graph: Graph, x: str) -> Outputs:
    return {"transformed": _with_spectrum(model, graph, x)}


# ----------------------------------------------------------------------------------
# Export of a fitted model to ONNX: choice of the precision, names of the outputs.
#
# Estimators of this package are converted here; pipelines with scikit-learn's parts by
# skl2onnx, with which converters for ours are registered.
# ----------------------------------------------------------------------------------

PRECISIONS = ("float32", "float64")
# Points at which both precisions are compared, and how far apart they may be, in units
# of the spread of the values: a quarter of what is promised.
_N_PROBES, _TOLERANCE = 32, 2.5e-6


def to_onnx(model, *, dtype="float32"):
    """Return a fitted model as an ONNX model.

    Parameters
    ----------
    model : estimator or pipeline
        An estimator of kaucus, or a pipeline with one.
        Its other steps are parts of scikit-learn's that skl2onnx knows. Of
        ``TableClassifier`` and ``TableRegressor``, columns of numbers and of texts can
        be exported, dates cannot; trees give float32.
    dtype : {"float32", "float64"}, default="float32"
        Of the rows that the graph takes, and of the numbers that it returns. Within,
        it computes in float64 where float32 would move a result by more than 1e-5 of
        the spread of the results; that is measured.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(result, "model.onnx")`` writes it. One input, ``X``, of any number
        of rows; of a table with names, one input for each column, (n, 1).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> graph = to_onnx(LSSVMClassifier().fit(X, y))
    >>> [output.name for output in graph.graph.output]
    ['label', 'decision', 'probabilities']
    """
    require("onnx", "onnx")
    dtype = np.dtype(dtype).name
    if dtype not in PRECISIONS:
        raise ValueError(f"dtype={dtype!r} must be one of {PRECISIONS}.")
    check_is_fitted(model)
    if isinstance(model, TableModel):
        return table_to_onnx(model, dtype)
    if hasattr(model, "steps"):  # a pipeline
        return pipeline_to_onnx(model, dtype)
    return _export(model, dtype, arithmetic_of(model, dtype))


def _export(model, dtype: str, arithmetic: str):
    """Return the model of an estimator, with one input and its outputs."""
    graph = Graph(arithmetic, given=dtype)
    x = "X" if arithmetic == dtype else graph.cast("X", arithmetic)
    outputs = finished_outputs(graph, model, outputs_of(model, graph, x), dtype)
    rows = graph.value_info("X", dtype, ["n", model.n_features_in_])
    return graph.model(type(model).__name__, [rows], outputs, **_about(model))


def _about(model) -> dict[str, str]:
    """Return the metadata of a graph: our version, and the columns' names."""
    names = getattr(model, "feature_names_in_", None)
    about = {"kaucus": kaucus.__version__}
    return about if names is None else about | {"columns": "\n".join(map(str, names))}


def finished_outputs(graph: Graph, model, outputs: dict[str, str], dtype: str) -> list:
    """Add the outputs under their own names, in the precision that is asked for."""
    infos = []
    for name, value in outputs.items():
        kind, shape = output_kind(model, name, dtype)
        is_number = np.dtype(kind).kind == "f"
        if is_number and graph.dtype != graph.given:
            value = graph.cast(value, dtype)
        graph.nodes.append(graph.helper.make_node("Identity", [value], [name]))
        infos.append(graph.value_info(name, kind, shape))
    return infos


def output_kind(model, name: str, dtype: str) -> tuple[np.dtype, list]:
    """Return type and shape of an output."""
    classes = getattr(model, "classes_", None)
    if name == "label" and classes is None:
        return np.dtype("int32"), ["n"]
    if name == "label":
        kind = np.asarray(classes).dtype
        kinds = {"i": "int64", "u": "int64", "f": dtype, "b": "bool"}
        return np.dtype(kinds.get(kind.kind, object)), ["n"]
    if name == "prediction":
        shape = [] if model._single_output else [model.dual_coef_.shape[1]]
    elif name == "decision" and (classes is None or len(classes) == 2):
        shape = []
    elif name in ("decision", "probabilities"):
        shape = [len(classes)]
    else:
        shape = [len(model.get_feature_names_out())]
    return np.dtype(dtype), ["n", *shape]


# ---- which precision -----------------------------------------------------------------


def arithmetic_of(model, dtype: str) -> str:
    """Return the precision in which a model's graph must compute.

    For an LS-SVM both are tried: at some of its own points, very near them, where
    distances lose most, and between them. Others cost little, or need float64 anyway.
    """
    has_values = hasattr(model, "dual_coef_") and model.kernel_ is not None
    if dtype == "float64" or not has_values:
        return "float64"
    points = _support_of(model)
    some = points[np.linspace(0, len(points) - 1, _N_PROBES).astype(int)]
    others = np.roll(some, 1, axis=0)
    ways = [some + share * (others - some) for share in (0.0, 1e-3, 0.5)]
    probes = np.concatenate(ways).astype(np.float32)
    rough, exact = (_decision_values(model, probes, kind) for kind in PRECISIONS)
    spread = np.abs(exact - np.median(exact, axis=0)).max(axis=0)
    with np.errstate(invalid="ignore"):  # what overflowed is not close
        close = np.abs(rough - exact) <= _TOLERANCE * spread
    return "float32" if close.all() else "float64"


def _decision_values(model, rows: np.ndarray, arithmetic: str) -> np.ndarray:
    """Return decision values computed by the graph, (n, t)."""
    evaluator = require("onnx.reference", "onnx").ReferenceEvaluator
    proto = _export(model, "float32", arithmetic)
    name = "decision" if hasattr(model, "classes_") else "prediction"
    with np.errstate(all="ignore"):
        [values] = evaluator(proto).run([name], {"X": rows})
    return np.asarray(values, dtype=np.float64).reshape(len(rows), -1)


# ----------------------------------------------------------------------------------
# Committees of tables: an input for every column.
#
# What is made of a text is looked up in a table; dates cannot be exported. Trees are
# ONNX's own operator, whose results are float32.
# ----------------------------------------------------------------------------------

_OUTPUTS = ("label", "probabilities", "prediction")
_GAP_TEXTS = ("", "nan", "None")


def table_to_onnx(model: TableModel, dtype: str):
    """Return a committee as an ONNX model of columns in dtype, computed in float64."""
    graph, encoder = Graph("float64", given=dtype), model._encoder
    inputs, dense, gappy, levels = [], [], [], []
    has_names = hasattr(model, "feature_names_in_")
    if not has_names:
        inputs.append(graph.value_info("X", dtype, ["n", model.n_features_in_]))
    for j, column in enumerate(encoder.columns):
        if column is None:
            continue  # a constant
        if isinstance(column, DateColumn):
            raise NotExportableError(
                f"Column {column.name!r} has dates, which ONNX cannot express; fit "
                "without it, or with numbers in its place, such as the year."
            )
        is_text = isinstance(column, CategoryColumn)
        name = f"{column.name}_in" if column.name in _OUTPUTS else column.name
        if has_names:
            kind = object if is_text else dtype
            inputs.append(graph.value_info(name, kind, ["n", 1]))
        else:
            name = graph("Gather", "X", np.array([j]), axis=1)
        if not is_text:
            gappy.append(graph.cast(name, "float64"))
            dense.append(_standard(graph, gappy[-1], column))
            continue
        level = _level(graph, name, column)
        tables = column.parts_of(np.arange(-2, len(column.levels)))
        dense.append(graph("Gather", np.column_stack(tables[0]), level))
        if column.is_category:
            levels.append(level)
        else:
            gappy.append(graph("Gather", np.column_stack(tables[1]), level))
    if not dense:
        raise NotExportableError("All columns are constant: nothing to export.")
    total = _votes(model, graph, graph.columns(*dense), levels, gappy)
    if model._n_classes is None:
        outputs = {"prediction": graph.column(total)}
    else:
        total = graph("Div", total, graph.sum(total))
        number = graph.argmax(total)
        if model.threshold_ is not None:
            second = graph.column(graph("Gather", total, np.array([1]), axis=1))
            above = graph("GreaterOrEqual", second, float(model.threshold_))
            number = graph.cast(above, np.int64)
        outputs = {"label": _labels(model, graph, number), "probabilities": total}
    infos = finished_outputs(graph, model, outputs, dtype)
    return graph.model(type(model).__name__, inputs, infos, **_about(model))


def _votes(model: TableModel, graph: Graph, dense: str, levels, gappy) -> str:
    """Add the sum of the members by their votes, (n, k) or (n, 1)."""
    parts, near = [], None
    if model.trees_:
        values = [_trees(graph, trees, levels, gappy) for trees in model.trees_]
        near = functools.reduce(lambda a, b: graph("Add", a, b), values)
        near = graph("Div", near, float(len(values)))
        parts.append(graph("Mul", near, model.weights_["trees"]))
    if model.kernel_ is not None:
        [name] = {"prediction", "probabilities"} & set(
            found := outputs_of(model.kernel_, graph, dense)
        )
        values = found[name]
        if name == "prediction":
            values = graph("Unsqueeze", values, np.array([1]))
            if near is not None:
                most = float(model._most_apart)
                values = graph("Max", values, graph("Sub", near, most))
                values = graph("Min", values, graph("Add", near, most))
        parts.append(graph("Mul", values, model.weights_["kernel"]))
    return functools.reduce(lambda a, b: graph("Add", a, b), parts)


def _standard(graph: Graph, x: str, column: NumberColumn) -> str:
    """Add a standardised column, with the median in gaps, and an indicator of gaps."""
    gaps = graph("IsNaN", x)
    scaled = graph("Div", graph("Sub", x, column.centre), column.spread)
    filled = graph("Where", gaps, 0.0, scaled)
    if not column.has_gaps:
        return filled
    return graph.columns(filled, graph.cast(gaps, "float64"))


def _level(graph: Graph, name: str, column: CategoryColumn) -> str:
    """Add each text's row in tables of a level not seen, a gap, and levels, (n,)."""
    rows = dict.fromkeys(_GAP_TEXTS, 1)
    rows |= {str(level): k + 2 for k, level in enumerate(column.levels)}
    found = graph(
        "LabelEncoder",
        name,
        domain="ai.onnx.ml",
        keys_strings=list(rows),
        values_int64s=list(rows.values()),
        default_int64=0,
    )
    return graph.column(found)


def _trees(graph: Graph, trees: Trees, levels: list[str], gappy: list[str]) -> str:
    """Add probabilities or numbers of trees, (n, k).

    A split by levels is one of a column that is 1 where a level goes to the right.
    """
    places, tables = _right_of_splits(trees)
    pairs = zip(levels, tables, strict=True)
    parts = [graph("Gather", table, level) for level, table in pairs if table.size]
    x = graph.columns(*gappy, *parts)
    values, t = {}, len(trees.baseline)
    values["nodes_treeids"] = np.repeat(np.arange(len(trees.sizes)), trees.sizes)
    values["nodes_nodeids"] = np.concatenate([np.arange(n) for n in trees.sizes])
    nodes, is_leaf = trees.nodes, trees.nodes["is_leaf"] == 1
    by_level = (nodes["is_categorical"] == 1) & ~is_leaf
    values["nodes_featureids"] = np.where(is_leaf, 0, places)
    values["nodes_truenodeids"] = np.where(is_leaf, 0, nodes["left"])
    values["nodes_falsenodeids"] = np.where(is_leaf, 0, nodes["right"])
    goes_left = np.where(by_level | is_leaf, 0, nodes["missing_go_to_left"])
    values["nodes_missing_value_tracks_true"] = goes_left
    for end in ("treeids", "nodeids"):
        values[f"target_{end}"] = values[f"nodes_{end}"][is_leaf]
    values["target_ids"] = values["target_treeids"] % t
    attributes = {name: v.astype(int).tolist() for name, v in values.items()}
    limits = np.where(by_level, 0.5, np.where(is_leaf, 0.0, nodes["num_threshold"]))
    for name, numbers in (
        ("nodes_values", limits),
        ("target_weights", nodes["value"][is_leaf]),
        ("base_values", trees.baseline),
    ):
        tensor = graph.numpy_helper.from_array(np.asarray(numbers, dtype=np.float64))
        attributes[f"{name}_as_tensor"] = tensor
    modes = np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist()
    raw = graph(
        "TreeEnsembleRegressor",
        x,
        domain="ai.onnx.ml",
        nodes_modes=modes,
        n_targets=t,
        **attributes,
    )
    raw = graph.cast(raw, "float64")
    if trees.n_classes is None:
        return raw
    if t == 1:
        raw = graph.columns(graph("Mul", raw, 0.0), raw)
    seen = np.eye(trees.n_classes)[trees.classes]
    return graph.affine(graph("Softmax", raw, axis=1), seen)


def _right_of_splits(trees: Trees) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the column of each node, and tables of which levels go to the right.

    The columns are those of numbers, then one for each split by levels, or one for all
    splits by their order, sorted by the column that is split; rows of a table are a
    level not seen, a gap, and the levels.
    """
    nodes, n = trees.nodes, len(trees.tables)
    places = nodes["feature_idx"] - n
    offset = np.repeat(np.cumsum(trees.n_bitsets) - trees.n_bitsets, trees.sizes)
    start, tables = trees.d - n, []
    for j, order in enumerate(trees.tables):
        split = (nodes["is_leaf"] == 0) & (nodes["feature_idx"] == j)
        some = np.flatnonzero(split & (nodes["is_categorical"] == 1))
        if len(some):
            missing = 1.0 - nodes["missing_go_to_left"][some]
            table = np.tile(missing, (len(order) + 2, 1))
            levels = np.flatnonzero(~np.isnan(order))
            numbers = order[levels].astype(np.int64)
            words = trees.bitsets[(offset + nodes["bitset_idx"])[some]]
            left = (words[:, numbers // 32] >> (numbers % 32)) & 1
            table[levels + 2] = 1.0 - left.T
            places[some] = start + np.arange(len(some))
        else:
            table = np.pad(order, (2, 0), constant_values=np.nan)[:, None]
            table = table[:, : int(split.any())]
            places[split] = start
        tables.append(table)
        start += table.shape[1]
    return places, tables


# ----------------------------------------------------------------------------------
# Export of pipelines by skl2onnx, with converters for the estimators of kaucus.
# ----------------------------------------------------------------------------------

# skl2onnx's names of the types.
_TENSORS = {
    "bool": "BooleanTensorType",
    "float32": "FloatTensorType",
    "float64": "DoubleTensorType",
    "int32": "Int32TensorType",
    "int64": "Int64TensorType",
    "object": "StringTensorType",
}


def pipeline_to_onnx(model, dtype: str):
    """Return a pipeline as an ONNX model; see :func:`to_onnx`."""
    for _, step in model.steps[:-1]:
        # skl2onnx would take both outputs of a clusterer for columns.
        if isinstance(step, ClusterMixin) and _is_ours(step):
            raise NotExportableError(
                f"{type(step).__name__} before the last step of a pipeline cannot be "
                "exported to ONNX; put it last, or export the steps apart."
            )
    register_converters()
    skl2onnx, types = _skl2onnx()
    kind = types.FloatTensorType if dtype == "float32" else types.DoubleTensorType
    last = model.steps[-1][1]
    has_zipmap = hasattr(last, "classes_") and not _is_ours(last)
    try:
        proto = skl2onnx.convert_sklearn(
            model,
            initial_types=[("X", kind([None, model.n_features_in_]))],
            options={"zipmap": False} if has_zipmap else None,
            target_opset=OPSET,
        )
    except NotExportableError:
        raise
    except Exception as error:  # skl2onnx has many kinds
        steps = ", ".join(type(step).__name__ for _, step in model.steps)
        raise NotExportableError(
            f"skl2onnx cannot convert this pipeline ({steps}): {error}"
        ) from error
    helper = require("onnx.helper", "onnx")
    helper.set_model_props(proto, _about(model))
    return proto


@functools.cache
def register_converters() -> None:
    """Register converters for the estimators of kaucus with skl2onnx, once.

    After that ``skl2onnx.to_onnx`` and ``convert_sklearn`` take them, alone and in
    pipelines, column transformers and the like.

    Examples
    --------
    >>> import skl2onnx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LSSVMClassifier()).fit(X, y)
    >>> register_converters()
    >>> graph = skl2onnx.to_onnx(model, X[:1].astype("float32"))
    >>> graph.graph.output[0].name
    'label'
    """
    skl2onnx, _ = _skl2onnx()
    for model in outputs_of.registry:
        if model is not object:
            skl2onnx.update_registered_converter(
                model,
                f"Kaucus{model.__name__}",
                _shapes,
                _convert,
                parser=_parse,
                overwrite=True,
            )


def _skl2onnx():
    skl2onnx = require("skl2onnx", "onnx")
    return skl2onnx, require("skl2onnx.common.data_types", "onnx")


def _is_ours(model) -> bool:
    return outputs_of.dispatch(type(model)) is not outputs_of.dispatch(object)


# ---- what skl2onnx calls -------------------------------------------------------------


def _precision(variable) -> str:
    _, types = _skl2onnx()
    return "float64" if isinstance(variable.type, types.DoubleTensorType) else "float32"


def _parse(scope, model, inputs, custom_parsers=None):
    """Declare the operator of an estimator and its outputs."""
    _, types = _skl2onnx()
    ours = next(base for base in type(model).__mro__ if base in outputs_of.registry)
    alias = f"Kaucus{ours.__name__}"
    operator = scope.declare_local_operator(alias, model)
    operator.inputs = list(inputs)
    dtype = _precision(inputs[0])
    for name in _output_names(model):
        kind, shape = output_kind(model, name, dtype)
        tensor = getattr(types, _TENSORS[kind.name])([None, *shape[1:]])
        operator.outputs.append(scope.declare_local_variable(name, tensor))
    return operator.outputs


def _output_names(model) -> list[str]:
    """Return the outputs of an estimator, of which some depend on its parameters."""
    graph = Graph("float64", given="float64")
    return list(outputs_of(model, graph, "X"))


def _shapes(operator) -> None:
    """Do nothing: shapes were declared with the outputs."""


def _convert(scope, operator, container) -> None:
    """Add the nodes of an estimator to skl2onnx's graph."""
    model, [rows] = operator.raw_operator, operator.inputs
    dtype = _precision(rows)
    arithmetic = arithmetic_of(model, dtype)
    inner = Graph(arithmetic, given=dtype)
    # Whatever comes, whole numbers too, is taken in the precision of the arithmetic.
    x = inner.cast("X", arithmetic)
    finished_outputs(inner, model, outputs_of(model, inner, x), dtype)
    names = dict(zip(_output_names(model), operator.outputs, strict=True))
    outer = {name: variable.full_name for name, variable in names.items()}
    outer["X"] = rows.full_name

    def renamed(values) -> list[str]:
        for value in values:
            if value not in outer:
                outer[value] = scope.get_unique_variable_name(f"kaucus_{value}")
        return [outer[value] for value in values]

    for constant in inner.constants:
        [constant.name] = renamed([constant.name])
        container.initializers.append(constant)
    for node in inner.nodes:
        container.add_node(
            node.op_type,
            renamed(node.input),
            renamed(node.output),
            op_domain=node.domain,
            op_version=OPSET if not node.domain else 3,
            name=scope.get_unique_operator_name(node.op_type),
            **{a.name: inner.helper.get_attribute_value(a) for a in node.attribute},
        )
