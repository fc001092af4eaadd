"""Pictures transformed letter by letter: sums over frequencies, loops over patches."""

import itertools

import numpy as np


def dft(image, axes):
    """Return Σ x[..m..] exp(−2πi Σₐ kₐ mₐ / Lₐ) over the axes, term by term."""
    F = np.zeros(image.shape, dtype=complex)
    for k in np.ndindex(*image.shape):
        for m in itertools.product(*(range(image.shape[a]) for a in axes)):
            place = list(k)
            for a, index in zip(axes, m, strict=True):
                place[a] = index
            turns = sum(k[a] * i / image.shape[a] for a, i in zip(axes, m, strict=True))
            F[k] += image[tuple(place)] * np.exp(-2j * np.pi * turns)
    return F


def half_spectrum(row, image_shape, fft):
    """Return |FFT| of one row, of the last axis only the first half, flattened."""
    image = row.reshape(-1) if fft == "1d" else row.reshape(image_shape)
    n_axes = min(2, image.ndim) if fft == "2d" else image.ndim
    F = dft(image, range(image.ndim - n_axes, image.ndim))
    half = [k for k in range(image.shape[-1]) if 2 * k < image.shape[-1]]
    return np.abs(F[..., half]).ravel()


def fourier_row(row, image_shape, fft, power):
    """Return eq. (15)-(20) of Andrecut (2020), in the order in which they stand."""
    x = row - row.mean()
    f = half_spectrum(x, image_shape, fft) ** power
    f = f - f.mean()
    x = x / np.linalg.norm(x)
    f = f / np.linalg.norm(f)
    return np.concatenate([x, f]) / np.sqrt(2)


def patches_of(row, image_shape, size):
    """Return the patches of one row, as rows, by a loop over their corners."""
    height, width = image_shape[-2:]
    image = row.reshape(-1, height, width)
    found = []
    for i in range(height - size + 1):
        for j in range(width - size + 1):
            patch = [
                image[c, i + k, j + m]
                for c in range(len(image))
                for k in range(size)
                for m in range(size)
            ]
            found.append(patch)
    return np.array(found)


def window(size, c):
    """Return eq. (76) of Andrecut (2016) for L = size, whose constant is c."""
    G = np.empty((size, size))
    for i in range(1, size + 1):
        for j in range(1, size + 1):
            G[i - 1, j - 1] = np.exp(-c * ((i - size / 2) ** 2 + (j - size / 2) ** 2))
    return G
