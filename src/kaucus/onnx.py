"""Fitted models as ONNX graphs, for programs without Python or scikit-learn."""

from kaucus.export.onnx import register_converters, to_onnx
from kaucus.export.onnx_kernels import NotExportableError

__all__ = ["NotExportableError", "register_converters", "to_onnx"]
