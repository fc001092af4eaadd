"""A builder of ONNX graphs, node by node.

Plain operators only: products, sums, exponentials. ONNX's operators for support vector
machines compute a kernel value at a time and are many times slower.
"""

from typing import Any

import numpy as np

from kaucus.contract import require

# Of 2022, for runtimes of some age; no operator here has got another form since.
OPSET, IR_VERSION = 18, 8


class NotExportableError(ValueError):
    """A model, or a part of it, that cannot be written as an ONNX graph.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMClassifier
    >>> from kaucus.onnx import to_onnx
    >>> own = LSSVMClassifier(kernel=lambda X, Y: X @ Y.T)
    >>> to_onnx(own.fit(np.eye(4), [0, 0, 1, 1]))
    Traceback (most recent call last):
    ...
    kaucus.delivery._onnx_graph.NotExportableError: ...
    """


class Graph:
    """Nodes and constants; ``graph(op, a, b)`` adds a node and returns its output.

    Parameters
    ----------
    dtype : {"float32", "float64"}
        Precision of the arithmetic, and of constants that are floats.
    given : {"float32", "float64"}
        Precision of the rows as they are given.
    """

    def __init__(self, dtype: str, given: str):
        self.helper = require("onnx.helper", "onnx")
        self.numpy_helper = require("onnx.numpy_helper", "onnx")
        self.dtype = np.dtype(dtype)
        self.given = np.dtype(given)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def name(self, hint: str) -> str:
        """Return a name that nothing has yet."""
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
        """Add the nodes of another graph; return the names that its outputs get.

        Parameters
        ----------
        other : GraphProto
        inputs : dict
            For each of its inputs, the name of a value here.
        """
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
        """Return values side by side."""
        return self("Concat", *values, axis=1)

    def column(self, value: str) -> str:
        """Return the only column of a matrix as a vector."""
        return self("Squeeze", value, np.array([1]))

    # ---- the finished graph ----------------------------------------------------------

    def value_info(self, name: str, dtype, shape):
        """Describe an input or an output."""
        dtype = np.dtype(dtype)
        kind = self.helper.np_dtype_to_tensor_dtype(
            np.dtype(object) if dtype.kind in "USO" else dtype
        )
        return self.helper.make_tensor_value_info(name, kind, shape)

    def model(self, name: str, inputs: list, outputs: list, **about: str):
        """Return the finished model, checked.

        Parameters
        ----------
        name : str
            Of the estimator.
        inputs, outputs : list of value infos
        **about : str
            What the file tells about itself.
        """
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
