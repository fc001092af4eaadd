"""Fitted models as ONNX graphs, for programs without Python or scikit-learn."""

from kaucus.delivery import NotExportableError, register_converters, to_onnx

__all__ = ["NotExportableError", "register_converters", "to_onnx"]
