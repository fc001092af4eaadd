"""Errors that are shown without a traceback, and their exit codes."""

import numpy as np

from kaucus._array.blocks import parse_bytes
from kaucus._array.namespace import to_device
from kaucus._base import MissingPackageError
from kaucus.export.files import ModelFileError
from kaucus.export.onnx_kernels import NotExportableError
from kaucus.export.tables import TableError


class MachineError(ValueError):
    """A device or an amount of memory that this machine does not have."""


USAGE_ERRORS = (
    MachineError,
    ModelFileError,
    NotExportableError,
    TableError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
# Whatever a library refuses with a message: a full disk, too little memory.
OTHER_ERRORS = (ValueError, OSError, MemoryError)
MISSING_ERRORS = (FileNotFoundError, MissingPackageError)


def exit_code_of(error: Exception) -> int | None:
    """Return the exit code of an error that needs no traceback, None of any other."""
    if isinstance(error, MISSING_ERRORS):
        return 3
    if isinstance(error, USAGE_ERRORS):
        return 2
    return 1 if isinstance(error, OTHER_ERRORS) else None


def check_machine(device: str | None, memory_budget: str | None) -> None:
    """Check device and memory budget at once, before data is looked for."""
    try:
        if memory_budget is not None:
            parse_bytes(memory_budget)
        to_device(np.empty(0), device)
    except (ValueError, ModuleNotFoundError) as error:
        raise MachineError(str(error)) from error
