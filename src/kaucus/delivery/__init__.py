"""Fitted models in, what other programs and people read out: files, graphs, pages."""

from kaucus.delivery._files import (
    ModelFile,
    ModelFileError,
    describe,
    load,
    save,
    write_whole,
)
from kaucus.delivery._trusted import trusted_types

__all__ = [
    "ModelFile",
    "ModelFileError",
    "describe",
    "load",
    "save",
    "trusted_types",
    "write_whole",
]
