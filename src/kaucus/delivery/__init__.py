"""Fitted models in, what other programs and people read out: files, graphs, pages."""

from kaucus.delivery._files import (
    ModelFile,
    ModelFileError,
    describe,
    load,
    save,
    write_whole,
)
from kaucus.delivery._onnx_export import to_onnx
from kaucus.delivery._onnx_graph import NotExportableError
from kaucus.delivery._onnx_pipelines import register_converters
from kaucus.delivery._trusted import trusted_types

__all__ = [
    "ModelFile",
    "ModelFileError",
    "NotExportableError",
    "describe",
    "load",
    "register_converters",
    "save",
    "to_onnx",
    "trusted_types",
    "write_whole",
]
