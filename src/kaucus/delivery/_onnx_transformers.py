"""Transformers of rows and pictures, in operators of ONNX."""

import math

import numpy as np

from kaucus.backend import to_numpy
from kaucus.delivery._onnx_graph import Graph
from kaucus.preprocessing import FourierFeatures, GaussianWindow, UnitNormalizer


def unit_normalized(model: UnitNormalizer, graph: Graph, x: str) -> str:
    """Add centred rows of unit norm to a graph."""
    return _centred_unit_rows(graph, x, model.n_features_in_)


def windowed(model: GaussianWindow, graph: Graph, x: str) -> str:
    """Add images times their window to a graph."""
    window = to_numpy(model.window_).reshape(-1)
    n_channels = model.n_features_in_ // len(window)
    return graph("Mul", x, np.tile(window, n_channels)[None])


def with_spectrum(model: FourierFeatures, graph: Graph, x: str) -> str:
    """Add images with their spectra to a graph: eq. (15)-(20) of Andrecut (2020)."""
    d, n_frequencies = model.n_features_in_, math.prod(model.spectrum_shape_)
    x = _centred_unit_rows(graph, x, d)
    shape = (d,) if model.fft == "1d" else tuple(model.image_shape_)
    f = _fourier_modulus(graph, x, shape, len(shape) if model.fft != "2d" else 2)
    f = graph("Pow", f, float(model.power))
    if model.fft != "2d" or math.prod(shape[:-2]) == 1:
        # Zero, as the mean is off; a small power would magnify the rounding.
        f = graph("Mul", f, (np.arange(n_frequencies) > 0).astype(float)[None])
    f = _centred_unit_rows(graph, f, n_frequencies)
    if not model.concatenate:
        return f
    return graph("Mul", graph.columns(x, f), math.sqrt(0.5))


def _centred_unit_rows(graph: Graph, x: str, d: int) -> str:
    """Add (x − ⟨x⟩) / ‖x − ⟨x⟩‖; a constant row becomes zero."""
    peaks = graph.largest(graph("Abs", x))
    centred = graph("Sub", x, graph("Mul", graph.sum(x), 1 / d))
    norms = graph("Sqrt", graph.sum(graph("Mul", centred, centred)))
    # What is left of a constant row is rounding, not a direction.
    rounding = 4 * float(np.finfo(graph.given).eps) * math.sqrt(d)
    varies = graph("Greater", norms, graph("Mul", peaks, rounding))
    norms = graph("Where", varies, norms, np.ones((1, 1)))
    return graph("Where", varies, graph("Div", centred, norms), np.zeros((1, 1)))


def _fourier_modulus(graph: Graph, x: str, shape: tuple[int, ...], n_axes: int) -> str:
    """Add |FFT(x)| over the last axes, the first half of it, (n, n_frequencies).

    A transform of one axis is a product with a matrix of cosines and one of sines.
    """
    rank = len(shape) + 1
    real = graph("Reshape", x, np.array([-1, *shape]))
    half = math.ceil(shape[-1] / 2)
    cosines, sines = _waves(shape[-1], half)
    real, imaginary = graph.affine(real, cosines), graph.affine(real, sines)
    for axis in range(rank - n_axes, rank - 1):
        order = [*range(rank)]
        order[axis], order[-1] = order[-1], order[axis]
        turned = [graph("Transpose", v, perm=order) for v in (real, imaginary)]
        cosines, sines = _waves(shape[axis - 1], shape[axis - 1])
        parts = [(graph.affine(v, cosines), graph.affine(v, sines)) for v in turned]
        (rc, rs), (ic, is_) = parts
        turned = graph("Sub", rc, is_), graph("Add", rs, ic)
        real, imaginary = (graph("Transpose", v, perm=order) for v in turned)
    squares = [graph("Mul", v, v) for v in (real, imaginary)]
    modulus = graph("Sqrt", graph("Add", *squares))
    n_frequencies = math.prod(shape[:-1]) * half
    return graph("Reshape", modulus, np.array([-1, n_frequencies]))


def _waves(n: int, n_kept: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cos and −sin of 2π j k / n, (n, n_kept)."""
    # Whole turns are taken off first: sines of large numbers are rounded.
    angles = 2 * np.pi * (np.outer(np.arange(n), np.arange(n_kept)) % n) / n
    return np.cos(angles), -np.sin(angles)
