"""Export of a fitted model to ONNX: choice of the precision, names of the outputs.

Estimators of this package are converted here; pipelines with scikit-learn's parts by
skl2onnx, with which converters for ours are registered.
"""

from collections.abc import Iterable

import numpy as np
from sklearn.utils.validation import check_is_fitted

import kaucus
from kaucus.contract import require
from kaucus.delivery._onnx_graph import Graph
from kaucus.delivery._onnx_models import dense_points, outputs_of, support_of

PRECISIONS = ("float32", "float64")
# Points at which both precisions are compared, and how far apart they may be, in units
# of the spread of the values: a quarter of what is promised.
_N_PROBES, _TOLERANCE = 32, 2.5e-6


def to_onnx(model, *, dtype="float32"):
    """Return a fitted model as an ONNX model.

    Parameters
    ----------
    model : estimator or pipeline
        One of ours, or a pipeline of ours with parts of scikit-learn's that skl2onnx
        knows, or one that begins with skrub's ``TableVectorizer``.
    dtype : {"float32", "float64"}, default="float32"
        Of the rows that the graph takes, and of the numbers that it returns. Within,
        it computes in float64 where float32 would move a result by more than 1e-5 of
        the spread of the results; that is measured.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(result, "model.onnx")`` writes it. One input, ``X``, of any number
        of rows; of a table, one input for each column, (n, 1).

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
    if hasattr(model, "steps"):  # a pipeline
        from kaucus.delivery._onnx_pipelines import pipeline_to_onnx
        from kaucus.delivery._onnx_tables import begins_with_a_table, table_to_onnx

        if begins_with_a_table(model):
            return table_to_onnx(model, dtype)
        return pipeline_to_onnx(model, dtype)
    return _export(model, dtype, arithmetic_of(model, dtype))


def _export(model, dtype: str, arithmetic: str):
    """Return the model of an estimator, with one input and its outputs."""
    graph = Graph(arithmetic, given=dtype)
    x = "X" if arithmetic == dtype else graph.cast("X", arithmetic)
    outputs = finished_outputs(graph, model, outputs_of(model, graph, x), dtype)
    n_features = model.n_features_in_
    return graph.model(
        type(model).__name__,
        [graph.value_info("X", dtype, ["n", n_features])],
        outputs,
        **about_columns(getattr(model, "feature_names_in_", None)),
    )


def about_columns(names: Iterable[str] | None) -> dict[str, str]:
    """Return the metadata of a model file."""
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
    one_column = (name == "decision" and len(classes) == 2) or (
        name == "prediction" and model._single_output
    )
    return np.dtype(dtype), ["n"] if one_column else ["n", _width(model, name)]


def _width(model, name: str) -> int:
    if name in ("decision", "probabilities"):
        return len(model.classes_)
    if name == "prediction":
        return model.dual_coef_.shape[1]
    return len(model.get_feature_names_out())


# ---- which precision -----------------------------------------------------------------


def arithmetic_of(model, dtype: str) -> str:
    """Return the precision in which a model's graph must compute.

    For an LS-SVM both are tried: at some of its own points, very near them, where
    distances lose most, and between them. Others cost little, or need float64 anyway.
    """
    has_values = hasattr(model, "dual_coef_") and model.kernel_ is not None
    if dtype == "float64" or not has_values:
        return "float64"
    points = dense_points(support_of(model))
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
    """Return f(x) as the graph computes it, (n, t)."""
    evaluator = require("onnx.reference", "onnx").ReferenceEvaluator
    proto = _export(model, "float32", arithmetic)
    name = "decision" if hasattr(model, "classes_") else "prediction"
    with np.errstate(all="ignore"):
        [values] = evaluator(proto).run([name], {"X": rows})
    return np.asarray(values, dtype=np.float64).reshape(len(rows), -1)
