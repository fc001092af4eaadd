"""scikit-learn transformers, most of them for images."""

from kaucus.preprocessing._dictionary import PatchDictionary
from kaucus.preprocessing._fourier import FourierFeatures
from kaucus.preprocessing._patches import ImagePatches, iter_patches, patch_view
from kaucus.preprocessing._scaling import UnitNormalizer
from kaucus.preprocessing._window import GaussianWindow

__all__ = [
    "UnitNormalizer",
    "FourierFeatures",
    "GaussianWindow",
    "ImagePatches",
    "PatchDictionary",
    "iter_patches",
    "patch_view",
]
