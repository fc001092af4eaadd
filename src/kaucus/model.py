"""The types that saved models are made of, under names that do not move.

A file says ``kaucus.model.RowMap``, wherever that class is written today: every
estimator, transformer and kernel of the package, and the records that they hold.
"""

import inspect

from sklearn.base import BaseEstimator

from kaucus import estimators, kernels, preprocessing
from kaucus._base import Packed
from kaucus.estimators._committee import ErrorSize, Trees
from kaucus.estimators._predict import Training
from kaucus.estimators.cells import KnownCells, ModelCells
from kaucus.fitting._problem import TargetUnit
from kaucus.fitting._represented import Stream
from kaucus.kernels._cells import Factor, NearestCenter
from kaucus.kernels._kernel import Kernel
from kaucus.kernels._metric import RowMap
from kaucus.kernels._patches import (
    FilterBank,
    FilterGroup,
    KeptFeatures,
    Moments,
    PatchKernel,
    PictureFeatures,
    PixelRange,
)
from kaucus.preprocessing.frames import (
    CategoryColumn,
    DateColumn,
    FrameEncoder,
    ManyLevels,
    NumberColumn,
)
from kaucus.solvers._columns import NormalEquations, RunningSums
from kaucus.solvers._system import SolveInfo

# What is no estimator, and changes with the format of files (``export.files.FORMAT``).
RECORDS = (
    *(Packed, Training, KnownCells, ModelCells, TargetUnit, Stream, Factor),
    *(NearestCenter, RowMap, FilterBank, FilterGroup, KeptFeatures, Moments),
    *(PatchKernel, PictureFeatures, PixelRange, NormalEquations, RunningSums),
    *(SolveInfo, ErrorSize, Trees, FrameEncoder, NumberColumn, DateColumn),
    *(CategoryColumn, ManyLevels),
)


def _offered(kind: type, *packages) -> list[type]:
    """Return the classes of a kind that packages offer."""
    values = [value for package in packages for value in vars(package).values()]
    return [v for v in values if inspect.isclass(v) and issubclass(v, kind)]


_TYPES = {
    cls.__name__: cls
    for cls in (
        *_offered(BaseEstimator, estimators, preprocessing),
        *_offered(Kernel, kernels),
        *RECORDS,
    )
}
globals().update(_TYPES)
__all__ = sorted(_TYPES)
