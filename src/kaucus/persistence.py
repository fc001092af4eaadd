"""Models in files that hold data and no program: saved and loaded without pickle."""

from kaucus.export.files import (
    ModelFile,
    ModelFileError,
    describe,
    load,
    save,
    trusted_types,
)

__all__ = ["ModelFile", "ModelFileError", "describe", "load", "save", "trusted_types"]
