"""Export of pipelines by skl2onnx, with converters for the estimators of kaucus."""

import functools

from sklearn.base import ClusterMixin

from kaucus.contract import require
from kaucus.delivery._onnx_export import (
    about_columns,
    arithmetic_of,
    finished_outputs,
    output_kind,
)
from kaucus.delivery._onnx_graph import OPSET, Graph, NotExportableError
from kaucus.delivery._onnx_models import outputs_of

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
    _check_steps(model)
    register_converters()
    skl2onnx, types = _skl2onnx()
    kind = types.FloatTensorType if dtype == "float32" else types.DoubleTensorType
    try:
        proto = skl2onnx.convert_sklearn(
            model,
            initial_types=[("X", kind([None, model.n_features_in_]))],
            options={"zipmap": False} if _has_zipmap(model) else None,
            target_opset=OPSET,
        )
    except Exception as error:  # skl2onnx has many kinds
        if isinstance(error, NotExportableError):
            raise
        steps = ", ".join(type(step).__name__ for _, step in model.steps)
        raise NotExportableError(
            f"skl2onnx cannot convert this pipeline ({steps}): {error}"
        ) from error
    helper = require("onnx.helper", "onnx")
    helper.set_model_props(
        proto, about_columns(getattr(model, "feature_names_in_", None))
    )
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


def _check_steps(model) -> None:
    """Refuse what skl2onnx would misread: both outputs of a clusterer as columns."""
    for _, step in model.steps[:-1]:
        if isinstance(step, ClusterMixin) and _is_ours(step):
            raise NotExportableError(
                f"{type(step).__name__} before the last step of a pipeline has no form "
                "in ONNX here; put it last, or export the steps apart."
            )


def _has_zipmap(model) -> bool:
    """Tell whether the last step is a classifier of scikit-learn's."""
    last = model.steps[-1][1]
    return hasattr(last, "classes_") and not _is_ours(last)


def _is_ours(model) -> bool:
    return outputs_of.dispatch(type(model)) is not outputs_of.dispatch(object)


# ---- what skl2onnx calls -------------------------------------------------------------


def _precision(variable) -> str:
    _, types = _skl2onnx()
    return "float64" if isinstance(variable.type, types.DoubleTensorType) else "float32"


def _parse(scope, model, inputs, custom_parsers=None):
    """Declare the operator of an estimator and its outputs."""
    _, types = _skl2onnx()
    alias = f"Kaucus{_registered(type(model)).__name__}"
    operator = scope.declare_local_operator(alias, model)
    operator.inputs = list(inputs)
    dtype = _precision(inputs[0])
    for name in _output_names(model):
        kind, shape = output_kind(model, name, dtype)
        tensor = getattr(types, _TENSORS[kind.name])([None, *shape[1:]])
        operator.outputs.append(scope.declare_local_variable(name, tensor))
    return operator.outputs


def _registered(cls: type) -> type:
    """Return the class of ours that an estimator is, or is derived from."""
    return next(base for base in cls.__mro__ if base in outputs_of.registry)


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
            **_attributes(inner, node),
        )


def _attributes(graph: Graph, node) -> dict:
    return {a.name: graph.helper.get_attribute_value(a) for a in node.attribute}
