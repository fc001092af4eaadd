"""The cells of a partition, in operators of ONNX."""

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from kaucus.contract import require
from kaucus.delivery._onnx_graph import OPSET, Graph, NotExportableError
from kaucus.kernels import NearestCenter


def cell_masks(graph: Graph, partition, x: str, n_cells: int) -> list[str]:
    """Add to a graph, for each cell, whether a row is in it, (n, 1).

    Parameters
    ----------
    graph : Graph
    partition : callable
        As a kernel or a classifier of cells has it.
    x : str
        Name of the rows, (n, d).
    n_cells : int
    """
    cells = graph("Unsqueeze", _cells(graph, partition, x), np.array([1]))
    return [graph("Equal", cells, i) for i in range(n_cells)]


def _cells(graph: Graph, partition, x: str) -> str:
    """Add the number of each row's cell, (n,)."""
    if isinstance(partition, NearestCenter):
        return _nearest(graph, partition.centers, x)
    if hasattr(partition, "nearest"):  # labels of the training rows, numbered
        return _known_cells(graph, partition, x)
    return _labels(graph, partition, x)


def _nearest(graph: Graph, centers: np.ndarray, x: str) -> str:
    """Add the number of the nearest centre: the largest ⟨x, c⟩ − ‖c‖²/2."""
    shift = centers.mean(axis=0)
    centers = centers - shift
    x = graph("Sub", x, shift[None, :])
    return graph.argmax(graph.affine(x, centers.T, -np.sum(centers**2, axis=1) / 2))


def _known_cells(graph: Graph, partition, x: str) -> str:
    """Add the place of each label among those of the training rows.

    A row with another label goes where the mean of a cell is nearest.
    """
    found = graph("Unsqueeze", _cells(graph, partition.function, x), np.array([1]))
    labels = np.asarray(partition.labels).astype(np.int64)
    same = graph.cast(graph("Equal", found, labels[None, :]), graph.dtype)
    unknown = graph("Less", graph.column(graph.largest(same)), 0.5)
    nearest = _nearest(graph, partition.nearest.centers, x)
    return graph("Where", unknown, nearest, graph.argmax(same))


def _labels(graph: Graph, function, x: str) -> str:
    """Add the labels, or leaves, that one of scikit-learn's estimators returns."""
    model = getattr(function, "model", function)
    leaves = getattr(function, "leaves", False)
    if not isinstance(model, BaseEstimator):
        raise NotExportableError(
            f"partition={function!r} has no form in ONNX; use partition='kmeans', "
            "another name, or one of scikit-learn's estimators."
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
