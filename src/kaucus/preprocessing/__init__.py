"""scikit-learn transformers, most of them for images."""

from kaucus.preprocessing.images import (
    FourierFeatures,
    GaussianWindow,
    ImagePatches,
    PatchDictionary,
    iter_patches,
    patch_view,
)
from kaucus.preprocessing.rows import UnitNormalizer

__all__ = [
    "FourierFeatures",
    "GaussianWindow",
    "ImagePatches",
    "PatchDictionary",
    "UnitNormalizer",
    "iter_patches",
    "patch_view",
]
