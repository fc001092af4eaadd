"""Pipelines that begin with skrub's TableVectorizer: an input for every column.

Numbers and categories have a form in ONNX; texts that are cut into pieces, and dates,
have none.
"""

import numpy as np

from kaucus.delivery._onnx_export import about_columns, arithmetic_of, finished_outputs
from kaucus.delivery._onnx_graph import Graph, NotExportableError
from kaucus.delivery._onnx_models import outputs_of


def begins_with_a_table(model) -> bool:
    """Tell whether the first step of a pipeline takes columns of any kind."""
    return type(model.steps[0][1]).__name__ == "TableVectorizer"


def table_to_onnx(model, dtype: str):
    """Return a pipeline of a TableVectorizer and numeric steps as an ONNX model.

    Parameters
    ----------
    model : Pipeline
        ``TableVectorizer``, then ``SimpleImputer``, ``StandardScaler`` or
        transformers of ours, then an estimator of ours.
    dtype : {"float32", "float64"}
        Of the columns of numbers, and of the results.
    """
    vectorizer, *between, last = (step for _, step in model.steps)
    arithmetic = arithmetic_of(last, dtype)
    graph = Graph(arithmetic, given=dtype)
    x, inputs = _columns(vectorizer, graph)
    for step in between:
        x = numeric_step(step, graph, x)
    outputs = finished_outputs(graph, last, outputs_of(last, graph, x), dtype)
    about = about_columns(vectorizer.feature_names_in_)
    return graph.model(type(last).__name__, inputs, outputs, **about)


def _columns(vectorizer, graph: Graph) -> tuple[str, list]:
    """Add the columns that a TableVectorizer makes; return them and the inputs."""
    parts, names, inputs = [], [], []
    for column in vectorizer.feature_names_in_:
        if column not in vectorizer.transformers_:
            continue  # it had no value, and was dropped
        encoder = vectorizer.transformers_[column]
        kind = type(encoder).__name__
        if kind not in ("PassThrough", "OneHotEncoder"):
            raise NotExportableError(
                f"Column {column!r} is read by a {kind}, which has no form in ONNX; "
                "fit without it, or export the last step alone, kaucus.onnx.to_onnx"
                "(model[-1]), whose rows are the columns after the steps before it."
            )
        is_number = kind == "PassThrough"
        name = f"{column}_in" if column in _OUTPUTS else str(column)
        inputs.append(
            graph.value_info(name, graph.given if is_number else object, ["n", 1])
        )
        parts.append(
            _number(graph, name) if is_number else _one_hot(graph, name, encoder)
        )
        names += vectorizer.input_to_outputs_[column]
    if names != list(vectorizer.all_outputs_):
        raise NotExportableError(
            "This version of skrub orders its columns in another way than expected."
        )
    return graph.columns(*parts), inputs


_OUTPUTS = ("label", "decision", "probabilities", "prediction", "transformed")


def _number(graph: Graph, name: str) -> str:
    """Add a column of numbers, in the precision of the graph."""
    return name if graph.given == graph.dtype else graph.cast(name, graph.dtype)


def _one_hot(graph: Graph, name: str, encoder) -> str:
    """Add a column for each category; an empty text is a gap, others are none."""
    [categories], dropped = encoder.categories_, encoder.drop_idx_[0]
    keys, numbers = [], []
    for number, category in enumerate(categories):
        is_gap = category is None or category != category  # NaN
        for text in ("", "nan", "None") if is_gap else (str(category),):
            keys.append(text)
            numbers.append(number)
    codes = graph(
        "LabelEncoder",
        name,
        domain="ai.onnx.ml",
        keys_strings=keys,
        values_int64s=numbers,
        default_int64=-1,
    )
    kept = [k for k in range(len(categories)) if k != dropped]
    return graph.cast(graph("Equal", codes, np.array([kept])), graph.dtype)


def numeric_step(step, graph: Graph, x: str) -> str:
    """Add a transformer of numeric columns to a graph."""
    kind = type(step).__name__
    if kind in ("SimpleImputer", "GapFiller"):
        return _filled(step, graph, x)
    if kind == "StandardScaler":
        return _standardised(step, graph, x)
    return outputs_of(step, graph, x)["transformed"]


def _filled(step, graph: Graph, x: str) -> str:
    gaps = graph("IsNaN", x)
    filled = graph("Where", gaps, np.asarray(step.statistics_, float)[None], x)
    if step.indicator_ is None or not len(step.indicator_.features_):
        return filled
    told = graph("Gather", gaps, np.asarray(step.indicator_.features_), axis=1)
    return graph.columns(filled, graph.cast(told, graph.dtype))


def _standardised(step, graph: Graph, x: str) -> str:
    if step.with_mean:
        x = graph("Sub", x, np.asarray(step.mean_, float)[None])
    return graph("Div", x, np.asarray(step.scale_, float)[None]) if step.with_std else x
