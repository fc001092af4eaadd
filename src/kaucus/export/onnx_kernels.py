"""ONNX graphs of kernels and cells."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from kaucus import kernels
from kaucus._base import require
from kaucus.kernels._cells import cell_numbers
from kaucus.kernels._kernel import unit_rows

# ----------------------------------------------------------------------------------
# A builder of ONNX graphs, node by node.
#
# Plain operators only: products, sums, exponentials. ONNX's operators for support
# vector machines compute a kernel value at a time and are many times slower.
# ----------------------------------------------------------------------------------

# Of 2022, for runtimes of some age; no operator here has got another form since.
OPSET, IR_VERSION = 18, 8


class NotExportableError(ValueError):
    """Raised for a model without an ONNX form.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMClassifier
    >>> from kaucus.onnx import to_onnx
    >>> own = LSSVMClassifier(kernel=lambda X, Y: X @ Y.T)
    >>> to_onnx(own.fit(np.eye(4), [0, 0, 1, 1]))
    Traceback (most recent call last):
    ...
    kaucus.export.onnx_kernels.NotExportableError: ...
    """


class Graph:
    """Nodes and constants; ``graph(op, a, b)`` adds a node and returns its output.

    ``dtype`` is the precision of the arithmetic and of constants that are floats,
    ``given`` that of the rows.
    """

    def __init__(self, dtype: str, given: str):
        self.helper = require("onnx.helper", "onnx")
        self.numpy_helper = require("onnx.numpy_helper", "onnx")
        self.dtype = np.dtype(dtype)
        self.given = np.dtype(given)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def name(self, hint: str) -> str:
        """Return an unused name for a value."""
        return f"{hint}_{len(self.nodes) + len(self.constants)}"

    def __call__(self, op: str, *inputs, **attributes) -> str:
        """Add a node; inputs are names of values, or numbers and arrays."""
        output = self.name(op)
        names = [v if isinstance(v, str) else self.constant(v) for v in inputs]
        node = self.helper.make_node(op, names, [output], name=output, **attributes)
        self.nodes.append(node)
        return output

    def constant(self, values) -> str:
        """Add a constant; floats get the precision of the graph."""
        values = np.asarray(values)
        if values.dtype.kind == "f":
            values = values.astype(self.dtype)
        elif values.dtype.kind in "iu":
            values = values.astype(np.int64)
        elif values.dtype.kind in "USO":
            values = values.astype(str).astype(object)
        name = self.name("constant")
        values = np.ascontiguousarray(values) if values.ndim else values
        self.constants.append(self.numpy_helper.from_array(values, name))
        return name

    def cast(self, value: str, dtype) -> str:
        """Return a value in another type."""
        kind = self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self("Cast", value, to=int(kind))

    def join(self, other, inputs: dict[str, str]) -> list[str]:
        """Add another graph, with values for its inputs; return its outputs."""
        prefix = self.name("joined") + "_"

        def renamed(names) -> list[str]:
            return [inputs.get(n, prefix + n) if n else n for n in names]

        for constant in other.initializer:
            copied = type(constant).FromString(constant.SerializeToString())
            copied.name = prefix + constant.name
            self.constants.append(copied)
        for node in other.node:
            copied = type(node).FromString(node.SerializeToString())
            copied.name = prefix + node.name
            copied.input[:] = renamed(node.input)
            copied.output[:] = renamed(node.output)
            self.nodes.append(copied)
        return renamed(output.name for output in other.output)

    # ---- common steps ----------------------------------------------------------------

    def ascending(self, value: str, width: int) -> str:
        """Return each row in the order of its values, (n, width)."""
        output = self.name("TopK")
        inputs, both = [value, self.constant([width])], [output, f"{output}_numbers"]
        options = {"axis": 1, "largest": 0, "sorted": 1, "name": output}
        self.nodes.append(self.helper.make_node("TopK", inputs, both, **options))
        return output

    def sum(self, value: str) -> str:
        """Return the sum over each row, (n, 1)."""
        return self("ReduceSum", value, np.array([1]), keepdims=1)

    def largest(self, value: str) -> str:
        """Return the largest value of each row, (n, 1)."""
        return self("ReduceMax", value, np.array([1]), keepdims=1)

    def argmax(self, value: str) -> str:
        """Return the number of the largest value of each row, (n,)."""
        return self("ArgMax", value, axis=1, keepdims=0)

    def affine(self, value: str, weights: np.ndarray, offset=None) -> str:
        """Return x W + b, in one product."""
        if offset is None:
            return self("MatMul", value, weights)
        return self("Gemm", value, weights, np.asarray(offset))

    def columns(self, *values: str) -> str:
        """Return the concatenated columns of values."""
        return self("Concat", *values, axis=1)

    def column(self, value: str) -> str:
        """Return the only column of a matrix as a vector."""
        return self("Squeeze", value, np.array([1]))

    # ---- the finished graph ----------------------------------------------------------

    def value_info(self, name: str, dtype, shape):
        """Describe an input or an output."""
        dtype = np.dtype(object if np.dtype(dtype).kind in "USO" else dtype)
        kind = self.helper.np_dtype_to_tensor_dtype(dtype)
        return self.helper.make_tensor_value_info(name, kind, shape)

    def model(self, name: str, inputs: list, outputs: list, **about: str):
        """Return the finished model of an estimator, checked; about: its metadata."""
        onnx = require("onnx", "onnx")
        graph = self.helper.make_graph(
            self.nodes, name, inputs, outputs, initializer=self.constants
        )
        domains = {node.domain for node in self.nodes} - {""}
        opsets = [self.helper.make_opsetid("", OPSET)]
        opsets += [self.helper.make_opsetid(domain, 3) for domain in sorted(domains)]
        model = self.helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="kaucus"
        )
        self.helper.set_model_props(model, about)
        onnx.checker.check_model(model)
        return model


# ----------------------------------------------------------------------------------
# The cells of a partition, in operators of ONNX.
# ----------------------------------------------------------------------------------


def cell_masks(graph: Graph, partition, x: str, n_cells: int) -> list[str]:
    """Add the membership masks of the cells to a graph, (n, 1) each."""
    cells = graph("Unsqueeze", _cells(graph, partition, x), np.array([1]))
    return [graph("Equal", cells, i) for i in range(n_cells)]


def _cells(graph: Graph, partition, x: str) -> str:
    """Add the number of each row's cell, (n,)."""
    if isinstance(partition, kernels.NearestCenter):
        return _nearest(graph, partition.centers, x)
    if hasattr(partition, "nearest"):  # labels of the training rows, numbered
        return _known_cells(graph, partition, x)
    return _cell_labels(graph, partition, x)


def _nearest(graph: Graph, centers: np.ndarray, x: str) -> str:
    """Add the number of the nearest centre: the largest ⟨x, c⟩ − ‖c‖²/2."""
    shift = centers.mean(axis=0)
    centers = centers - shift
    x = graph("Sub", x, shift[None, :])
    return graph.argmax(graph.affine(x, centers.T, -np.sum(centers**2, axis=1) / 2))


def _known_cells(graph: Graph, partition, x: str) -> str:
    """Add the index of each label among the training labels.

    A row with another label goes where the mean of a cell is nearest.
    """
    found = graph("Unsqueeze", _cells(graph, partition.function, x), np.array([1]))
    labels = np.asarray(partition.labels).astype(np.int64)
    same = graph.cast(graph("Equal", found, labels[None, :]), graph.dtype)
    unknown = graph("Less", graph.column(graph.largest(same)), 0.5)
    nearest = _nearest(graph, partition.nearest.centers, x)
    return graph("Where", unknown, nearest, graph.argmax(same))


def _cell_labels(graph: Graph, function, x: str) -> str:
    """Add the labels, or leaves, that one of scikit-learn's estimators returns."""
    model = getattr(function, "model", function)
    leaves = getattr(function, "leaves", False)
    if not isinstance(model, BaseEstimator):
        raise NotExportableError(
            f"partition={function!r} cannot be exported to ONNX; use "
            "partition='kmeans', another name, or one of scikit-learn's estimators."
        )
    options: dict = {"zipmap": False} if is_classifier(model) else {}
    if leaves:
        options["decision_leaf"] = True
    skl2onnx = require("skl2onnx", "onnx")
    double = skl2onnx.common.data_types.DoubleTensorType
    converted = skl2onnx.convert_sklearn(
        model,
        initial_types=[("rows", double([None, model.n_features_in_]))],
        options={id(model): options} if options else None,
        target_opset=OPSET,
    )
    outputs = graph.join(converted.graph, {"rows": graph.cast(x, np.float64)})
    found = outputs[-1] if leaves else outputs[0]
    return graph("Reshape", graph.cast(found, np.int64), np.array([-1]))


# ----------------------------------------------------------------------------------
# Kernel matrices of new rows and fixed points, in operators of ONNX.
#
# What is known beforehand (the points, their norms, whitened or mapped) is worked out
# in float64 when the graph is made; the graph has one product of rows and points, and
# what turns it into the kernel.
# ----------------------------------------------------------------------------------

# As in RowMap: squares of scaled values do not overflow.
_LARGEST = 1e6


@functools.singledispatch
def kernel_matrix(kernel, graph: Graph, x: str, points: np.ndarray) -> str:
    """Add k(x, y) of rows x, (n, d), and fixed points, (m, d), to a graph, (n, m)."""
    raise NotExportableError(
        f"kernel={kernel!r} cannot be exported to ONNX; use 'linear', 'poly', 'rbf', "
        "'exponential', 'matern32', 'matern52', 'rational_quadratic', 'cauchy', "
        "'sigmoid', 'cosine' or 'laplacian', a MahalanobisRBF or a ClusterRBF."
    )


def kernel_sums(kernel, graph: Graph, x: str, points, coef, offset) -> str:
    """Add Σ aᵢ k(x, yᵢ) + b to a graph, (n, t)."""
    if isinstance(kernel, kernels.Linear):  # no need of the points
        return graph.affine(x, points.T @ coef, offset)
    return graph.affine(kernel_matrix(kernel, graph, x, points), coef, offset)


@functools.singledispatch
def kernel_diagonal(kernel, graph: Graph, x: str) -> str:
    """Add k(x, x) of each row to a graph, (n, 1) or (1, 1)."""
    return graph.constant(np.ones((1, 1)))


# ---- kernels of an inner product -----------------------------------------------------


@kernel_matrix.register(kernels.Linear)
@kernel_matrix.register(kernels.Polynomial)
@kernel_matrix.register(kernels.Sigmoid)
def _(kernel, graph: Graph, x: str, points: np.ndarray) -> str:
    gamma, coef0, function = _of_inner_products(kernel, graph)
    offset = np.full(len(points), coef0)
    return function(graph.affine(x, gamma * points.T, offset))


@kernel_diagonal.register(kernels.Linear)
@kernel_diagonal.register(kernels.Polynomial)
@kernel_diagonal.register(kernels.Sigmoid)
def _(kernel, graph: Graph, x: str) -> str:
    gamma, coef0, function = _of_inner_products(kernel, graph)
    return function(graph("Add", graph("Mul", _squared_norms(graph, x), gamma), coef0))


def _of_inner_products(kernel, graph: Graph) -> tuple[float, float, Callable]:
    """Return γ, c and f of a kernel f(γ⟨x, y⟩ + c)."""
    if isinstance(kernel, kernels.Linear):
        return 1.0, 0.0, str
    if isinstance(kernel, kernels.Sigmoid):
        function = functools.partial(graph, "Tanh")
    else:
        function = functools.partial(_power, graph, degree=int(kernel.degree))
    return float(kernel.gamma), float(kernel.coef0), function


@kernel_matrix.register
def _(kernel: kernels.Cosine, graph: Graph, x: str, points: np.ndarray) -> str:
    return graph.affine(unit_vectors(graph, x), unit_rows(points).T)


@kernel_diagonal.register
def _(kernel: kernels.Cosine, graph: Graph, x: str) -> str:
    return _squared_norms(graph, unit_vectors(graph, x))  # 0 of a row of zeros


# ---- kernels of a distance -----------------------------------------------------------


@kernel_matrix.register
def _(kernel: kernels.Gaussian, graph: Graph, x: str, points: np.ndarray) -> str:
    return graph("Exp", _minus_distances(graph, x, points, kernel.gamma))


@kernel_matrix.register
def _(kernel: kernels.Exponential, graph: Graph, x: str, points: np.ndarray) -> str:
    D = squared_distances(graph, x, points, kernel.gamma**2)
    return graph("Exp", graph("Neg", graph("Sqrt", D)))


@kernel_matrix.register
def _(kernel: kernels.Cauchy, graph: Graph, x: str, points: np.ndarray) -> str:
    D = squared_distances(graph, x, points, kernel.gamma)
    return graph("Reciprocal", graph("Add", D, 1.0))


@kernel_matrix.register
def _(kernel: kernels.Matern32, graph: Graph, x: str, points: np.ndarray) -> str:
    r = graph("Sqrt", squared_distances(graph, x, points, 3 * kernel.gamma**2))
    return graph("Mul", graph("Add", r, 1.0), graph("Exp", graph("Neg", r)))


@kernel_matrix.register
def _(kernel: kernels.Matern52, graph: Graph, x: str, points: np.ndarray) -> str:
    D = squared_distances(graph, x, points, 5 * kernel.gamma**2)
    r = graph("Sqrt", D)
    polynomial = graph("Add", graph("Add", r, 1.0), graph("Div", D, 3.0))
    return graph("Mul", polynomial, graph("Exp", graph("Neg", r)))


@kernel_matrix.register
def _(
    kernel: kernels.RationalQuadratic, graph: Graph, x: str, points: np.ndarray
) -> str:
    D = squared_distances(graph, x, points, kernel.gamma / kernel.alpha)
    return graph("Pow", graph("Add", D, 1.0), -float(kernel.alpha))


@kernel_matrix.register
def _(kernel: kernels.Laplacian, graph: Graph, x: str, points: np.ndarray) -> str:
    # Scaled first: γ Σ |x − y| = Σ |γx − γy|.
    x = graph("Mul", x, float(kernel.gamma))
    D = _manhattan_distances(graph, x, kernel.gamma * points)
    return graph("Exp", graph("Neg", D))


@kernel_matrix.register
def _(kernel: kernels.MahalanobisRBF, graph: Graph, x: str, points: np.ndarray) -> str:
    white = _whitening(kernel.covariance, points.shape[1])
    x = graph.affine(x, white)
    return graph("Exp", _minus_distances(graph, x, points @ white, kernel.gamma))


@kernel_matrix.register
def _(kernel: kernels.MappedKernel, graph: Graph, x: str, points: np.ndarray) -> str:
    x = map_rows(graph, kernel.row_map, x)
    return kernel_matrix(kernel.kernel, graph, x, kernel.row_map(points))


@kernel_diagonal.register
def _(kernel: kernels.MappedKernel, graph: Graph, x: str) -> str:
    return kernel_diagonal(kernel.kernel, graph, map_rows(graph, kernel.row_map, x))


@kernel_matrix.register
def _(kernel: kernels.ClusterRBF, graph: Graph, x: str, points: np.ndarray) -> str:
    """Compute the values for every cell that a row may be in, and take its own."""
    cells = cell_numbers(kernel.partition, points, kernel.n_cells)
    order = np.argsort(np.argsort(cells, kind="stable"), kind="stable")
    matrix = None
    for i, mask in enumerate(cell_masks(graph, kernel.partition, x, kernel.n_cells)):
        parts = [
            _of_two_cells(kernel, graph, x, points[cells == j], i, j)
            for j in np.unique(cells)
        ]
        own = graph.columns(*parts)
        matrix = own if matrix is None else graph("Where", mask, own, matrix)
    return graph("Gather", matrix, order, axis=1)  # as the points were given


@kernel_diagonal.register
def _(kernel: kernels.ClusterRBF, graph: Graph, x: str) -> str:
    if kernel.normalization == "unit":
        return graph.constant(np.ones((1, 1)))
    raise NotExportableError(
        f"normalization={kernel.normalization!r} of {kernel!r} has no diagonal in "
        "ONNX; use normalization='unit'."
    )


def _of_two_cells(
    kernel: kernels.ClusterRBF, graph: Graph, x: str, points, i, j
) -> str:
    """Add the kernel for rows of cell i and points of cell j, (n, m_j)."""
    d = points.shape[1]
    white = _whitening(kernel.covariances[i] + kernel.covariances[j], d)
    log_factor = float(kernel.log_normalizers(d)[i, j])
    x = graph.affine(x, white)
    D = _minus_distances(graph, x, points @ white, kernel.gamma)
    return graph("Exp", graph("Add", D, log_factor))


# ---- steps ---------------------------------------------------------------------------


def squared_distances(graph: Graph, x: str, points, factor: float = 1.0) -> str:
    """Add factor ‖x − y‖² to a graph, (n, m), never negative."""
    return graph("Max", _distances(graph, x, points, factor), 0.0)


def _minus_distances(graph: Graph, x: str, points, factor: float) -> str:
    return graph("Min", _distances(graph, x, points, -factor), 0.0)


def _distances(graph: Graph, x: str, points: np.ndarray, factor: float) -> str:
    """Add factor (‖x‖² + ‖y‖² − 2⟨x, y⟩) as one product, [x, ‖x‖²] W + b.

    Less by what rounding may have added, so that equal rows have the distance 0 once
    negative ones are cut off: a root would magnify what is left.
    """
    rounding = 4 * float(np.finfo(graph.dtype).eps) * math.sqrt(points.shape[1] + 1)
    shift = points.mean(axis=0)  # so that the norms are of the size of the distances
    points = points - shift
    x = graph("Sub", x, shift[None, :])
    rows = graph.columns(x, _squared_norms(graph, x))
    less = factor * (1 - rounding)
    weights = np.vstack([-2 * factor * points.T, np.full((1, len(points)), less)])
    return graph.affine(rows, weights, less * np.sum(points**2, axis=1))


def _squared_norms(graph: Graph, x: str) -> str:
    return graph.sum(graph("Mul", x, x))


def unit_vectors(graph: Graph, x: str) -> str:
    """Add x / ‖x‖ to a graph; rows of zeros stay zero."""
    norms = graph("Sqrt", _squared_norms(graph, x))
    shortest = 4 * float(np.finfo(graph.dtype).tiny)
    norms = graph("Where", graph("Greater", norms, shortest), norms, np.ones((1, 1)))
    return graph("Div", x, norms)


def _power(graph: Graph, value: str, degree: int) -> str:
    """Raise to a whole power by squaring, which is faster than ``Pow``."""
    if degree == 1:
        return value
    square = _power(graph, graph("Mul", value, value), degree // 2)
    return graph("Mul", square, value) if degree % 2 else square


def _manhattan_distances(graph: Graph, x: str, points: np.ndarray) -> str:
    """Add Σ |x − y|, (n, m): column by column, so that no (n, m, d) is made."""
    onnx_type = graph.helper.np_dtype_to_tensor_dtype(graph.dtype)
    info = functools.partial(graph.helper.make_tensor_value_info, elem_type=onnx_type)
    node = graph.helper.make_node
    axis = graph.numpy_helper.from_array(np.array([1]), "axis")
    body = graph.helper.make_graph(
        [
            node("Unsqueeze", ["x_column", "axis"], ["x_1"]),
            node("Sub", ["x_1", "y_column"], ["difference"]),
            node("Abs", ["difference"], ["distance"]),
            node("Add", ["sum", "distance"], ["sum_out"]),
        ],
        "add_column",
        [
            info("sum", shape=[None, len(points)]),
            info("x_column", shape=[None]),
            info("y_column", shape=[len(points)]),
        ],
        [info("sum_out", shape=[None, len(points)])],
        initializer=[axis],
    )
    nothing = graph("MatMul", x, np.zeros((points.shape[1], len(points))))
    columns = graph("Transpose", x, perm=[1, 0])
    return graph("Scan", nothing, columns, points.T, body=body, num_scan_inputs=2)


def map_rows(graph: Graph, row_map: kernels.RowMap, x: str) -> str:
    """Add the rows in a learned metric to a graph; see :class:`RowMap`."""
    x = graph("Mul", graph("Sub", x, row_map.center[None]), row_map.scale[None])
    if np.isfinite(row_map.bound):
        kept = graph("Clip", x, -row_map.free, row_map.free)
        over = graph("Clip", graph("Sub", x, kept), -_LARGEST, _LARGEST)
        share = graph("Div", over, float(row_map.bound))
        root = graph("Sqrt", graph("Add", graph("Mul", share, share), 1.0))
        x = graph("Add", kept, graph("Div", over, root))
    x = graph("Sub", x, row_map.offset[None])
    if row_map.weights.ndim == 1:
        return graph("Mul", x, row_map.weights[None])
    return graph.affine(x, row_map.weights)


def _whitening(covariance: np.ndarray, n_features: int) -> np.ndarray:
    """Return W with Σ⁻¹ = W Wᵀ, (d, d)."""
    if covariance.ndim < 2:
        return np.diag(np.broadcast_to(1 / np.sqrt(covariance), n_features))
    root = np.linalg.cholesky(covariance)
    return np.linalg.inv(root).T
