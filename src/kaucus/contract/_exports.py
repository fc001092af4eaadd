"""The method by which an estimator becomes an ONNX graph."""

import importlib


class ExportsONNX:
    """Mixin of estimators that ONNX has a form for."""

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
