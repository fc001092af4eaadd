"""Estimators in operators of ONNX.

``outputs_of(model, graph, x)`` adds the estimator to a graph and returns the names of
its outputs: ``label``, ``probabilities`` and ``decision`` of a classifier,
``prediction`` of a regressor, ``label`` and ``transformed`` of a clusterer,
``transformed`` of a transformer.
"""

import functools
import itertools

import numpy as np

from kaucus import (
    ClusterRBFSVC,
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LearnedMetric,
    LocalSVC,
    LSSVMClassifier,
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    SphericalKMeans,
)
from kaucus.backend import is_sparse, to_numpy
from kaucus.delivery._onnx_cells import cell_masks
from kaucus.delivery._onnx_graph import Graph, NotExportableError
from kaucus.delivery._onnx_kernels import (
    kernel_diagonal,
    kernel_matrix,
    kernel_sums,
    map_rows,
    unit_vectors,
)
from kaucus.delivery._onnx_transformers import (
    unit_normalized,
    windowed,
    with_spectrum,
)
from kaucus.preprocessing import FourierFeatures, GaussianWindow, UnitNormalizer

# Below the decision values of classes that a support vector machine has seen.
_NEVER = -1.0

Outputs = dict[str, str]


@functools.singledispatch
def outputs_of(model, graph: Graph, x: str) -> Outputs:
    """Add a fitted estimator to a graph, and return the names of its outputs.

    Parameters
    ----------
    model : estimator
    graph : Graph
    x : str
        Name of the rows, in the graph's precision, (n, d).
    """
    raise NotExportableError(
        f"{type(model).__name__} has no form in ONNX here; expected an LS-SVM, a "
        "k-means kernel model, ClusterRBFSVC, LocalSVC, a clusterer, LearnedMetric, "
        "UnitNormalizer, FourierFeatures or GaussianWindow."
    )


def dense_points(rows) -> np.ndarray:
    """Return fitted rows as a NumPy array in float64."""
    rows = rows.toarray() if is_sparse(rows) else to_numpy(rows)
    return np.asarray(rows, dtype=np.float64)


# ---- least-squares support vector machines -------------------------------------------


def _numbers(model) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercept in float64."""
    return dense_points(model.dual_coef_), to_numpy(model.intercept_).astype(float)


def _values(model, graph: Graph, x: str) -> str:
    """Add f(x), (n, t)."""
    coef, intercept = _numbers(model)
    if model.kernel_ is None:  # x are kernel values already
        return graph.affine(x, coef, intercept)
    points = dense_points(support_of(model))
    return kernel_sums(model.kernel_, graph, x, points, coef, intercept)


def support_of(model):
    """Return the rows whose kernel columns the model is made of."""
    return getattr(model, "representatives_" if _represents(model) else "X_fit_")


def _represents(model) -> bool:
    return isinstance(model, KMeansKernelClassifier | KMeansKernelRegressor)


@outputs_of.register(LSSVMClassifier)
@outputs_of.register(LSSVMClassifierCV)
@outputs_of.register(KMeansKernelClassifier)
def _(model, graph: Graph, x: str) -> Outputs:
    values = _values(model, graph, x)
    return _of_classes(model, graph, values) | _probabilities(model, graph, x, values)


def _of_classes(model, graph: Graph, values: str) -> Outputs:
    """Add labels and decision values from one column, or one for each class."""
    if len(model.classes_) > 2:
        return {
            "label": _labels(model, graph, graph.argmax(values)),
            "decision": values,
        }
    column = graph.column(values)
    second = graph.cast(graph("Greater", column, 0.0), np.int64)
    return {"label": _labels(model, graph, second), "decision": column}


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
        points = dense_points(support_of(model))
        K = kernel_matrix(model.kernel_, graph, x, points)
    logs = []
    for a, b in zip(coef.T, intercept, strict=True):
        terms = graph("Mul", K, a[None, :])
        most = graph.largest(terms)
        total = graph.sum(graph("Exp", graph("Sub", terms, most)))
        logs.append(graph("Add", graph("Add", graph("Log", total), most), float(b)))
    return graph("Softmax", graph.columns(*logs), axis=1)


@outputs_of.register(LSSVMRegressor)
@outputs_of.register(LSSVMRegressorCV)
@outputs_of.register(KMeansKernelRegressor)
def _(model, graph: Graph, x: str) -> Outputs:
    values = _values(model, graph, x)
    single = model._single_output
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
    """Add votes of pairs, and their sums for ties, as scikit-learn makes them."""
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
    if model.kernel_ is None:
        D = graph.affine(x, -2 * coef, norms)
        return {"label": _nearest_mean(graph, D)}
    points = dense_points(model.X_fit_)
    D = kernel_sums(model.kernel_, graph, x, points, -2 * coef, norms)
    D = graph("Max", graph("Add", D, kernel_diagonal(model.kernel_, graph, x)), 0.0)
    return {"label": _nearest_mean(graph, D), "transformed": graph("Sqrt", D)}


def _nearest_mean(graph: Graph, D: str) -> str:
    return graph.cast(graph("ArgMin", D, axis=1, keepdims=0), np.int32)


@outputs_of.register
def _(model: LearnedMetric, graph: Graph, x: str) -> Outputs:
    return {"transformed": map_rows(graph, model.row_map_, x)}


@outputs_of.register
def _(model: UnitNormalizer, graph: Graph, x: str) -> Outputs:
    return {"transformed": unit_normalized(model, graph, x)}


@outputs_of.register
def _(model: GaussianWindow, graph: Graph, x: str) -> Outputs:
    return {"transformed": windowed(model, graph, x)}


@outputs_of.register
def _(model: FourierFeatures, graph: Graph, x: str) -> Outputs:
    return {"transformed": with_spectrum(model, graph, x)}
