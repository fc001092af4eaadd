"""Arrays in, arrays out: scikit-learn transformers, for images first."""

from kaucus.preprocessing._scaling import UnitNormalizer

__all__ = ["UnitNormalizer"]
