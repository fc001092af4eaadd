"""Names of what is done to rows before a method -> scikit-learn transformers."""

from collections.abc import Callable
from typing import Any


def _unit() -> list[Any]:
    from kaucus.preprocessing import UnitNormalizer

    return [UnitNormalizer()]


def _fourier(**options: Any) -> list[Any]:
    from kaucus.preprocessing import FourierFeatures

    return [FourierFeatures(**options)]


def _window() -> list[Any]:
    from kaucus.preprocessing import GaussianWindow

    return [GaussianWindow(image_shape=(3, 32, 32))]


# Equations of Andrecut (2016). He does not say which transform he takes: 1-D is that of
# the flattened picture.
PREPROCESSING: dict[str, Callable[[], list[Any]]] = {
    "unit": _unit,  # eq. 61-62
    "fourier-1d": lambda: _fourier(fft="1d"),  # eq. 69-75
    "fourier-2d": lambda: _fourier(image_shape=(28, 28), fft="2d", power=1.0),
    "window-unit": lambda: [*_window(), *_unit()],  # eq. 76, then 61-62
    "window-fourier-1d": lambda: [*_window(), *_fourier(fft="1d")],  # 76, 69-75
}


def make_preprocessing(name: str) -> list[Any]:
    """Return the unfitted transformers of that name, in their order."""
    if name not in PREPROCESSING:
        known = ", ".join(map(repr, PREPROCESSING))
        raise ValueError(f"normalize={name!r} is not known; use {known} or None.")
    return PREPROCESSING[name]()
