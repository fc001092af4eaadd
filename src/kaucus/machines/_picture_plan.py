"""What a machine for pictures is fitted by, and what comes out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.kernels import FilterGroup, KeptFeatures, PatchKernel
from kaucus.pictures import FilterBank, PictureFeatures, PixelRange
from kaucus.solvers import LSSVMSolution


class PicturePlan(NamedTuple):
    """How a machine for pictures is to be fitted."""

    shape: tuple[int, int, int]
    pixels: PixelRange
    banks: list[FilterBank]
    precision: str
    choices: dict[str, Sequence]
    """The values of mirror, threshold, cells and power to choose from."""
    gammas: Sequence[float]
    Cs: Sequence[float]
    combine: str = "sum"
    """"sum": the Gaussian of summed distances; "mean": the mean of Gaussians."""
    n_representatives: int | None = None
    """None: all pictures if their matrix fits, else as many as do."""
    memory_budget: int | str | None = None
    progress: Callable[[str], Callable[[int, int], object] | None] = lambda stage: None


def make_parts(banks: Sequence[FilterBank], cells, combine: str):
    """Return the parts of a kernel: one of all groups, or one of each."""
    grids = cells if isinstance(cells, tuple) else (cells,)
    groups = [FilterGroup(bank, n_cells) for bank in banks for n_cells in grids]
    return (tuple(groups),) if combine == "sum" else tuple((g,) for g in groups)


def features_for(plan: PicturePlan, chosen: dict) -> PictureFeatures:
    """Return how pictures become features, with what was chosen."""
    return PictureFeatures(
        plan.shape,
        plan.pixels,
        float(chosen["threshold"]),
        float(chosen["power"]),
        bool(chosen["mirror"]),
        plan.precision,
    )


class PictureModel(NamedTuple):
    """A fitted machine, f(x) = Σ_q a_q k(x, z_q) + b, and how it came about."""

    kernel: PatchKernel
    C: float
    chosen: dict
    """Mirror, threshold, cells and power."""
    results: list[dict]
    """What was tried, and its loss."""
    rows: np.ndarray
    """Numbers of the pictures z_q."""
    solution: LSSVMSolution
    unseen_rows: np.ndarray
    """Numbers of the pictures with leave-one-out values."""
    kept: KeptFeatures
    """Features of the pictures z_q, where there was room for them."""
