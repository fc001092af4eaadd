"""Packages that only some users need, ONNX among them: imported late, or missed."""

import importlib
import importlib.util
from typing import Any


class MissingPackageError(ModuleNotFoundError):
    """An optional package is needed and not installed."""


def require(module: str, extra: str) -> Any:
    """Import a module, or name the extra that brings it.

    Parameters
    ----------
    module : str
        For example ``"skops.io"``.
    extra : str
        The extra of kaucus that has it.
    """
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise MissingPackageError(
            f"{package} is not installed; this needs it: pip install 'kaucus[{extra}]'"
        )
    return importlib.import_module(module)


# ---- ONNX, one of them ---------------------------------------------------------------


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
