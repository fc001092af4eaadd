"""Features and kernels of pictures by their patches: loops, as the formulas are."""

import numpy as np


def contrast_normalised(patch, epsilon):
    """Return (p − mean) / √(var + ε)."""
    return (patch - patch.mean()) / np.sqrt(patch.var() + epsilon)


def windows(length, n_cells):
    """Return first and last + 1 of windows of twice their spacing, symmetric."""
    width = length if n_cells == 1 else max(2 * length // (n_cells + 1), 1)
    if n_cells % 2 == 1 and (length - width) % 2 == 1:
        width = width + 1
    last = length - width
    found = []
    for k in range(n_cells):
        mirrored = k >= (n_cells + 1) // 2
        from_edge = n_cells - 1 - k if mirrored else k
        start = round(last * from_edge / max(n_cells - 1, 1))
        start = last - start if mirrored else start
        found.append((start, start + width))
    return found


def responses(image, filters, biases, epsilon):
    """Return z at each position, (h, w, m), of an image (c, H, W)."""
    m, _, p, q = filters.shape
    h, w = image.shape[1] - p + 1, image.shape[2] - q + 1
    z = np.empty((h, w, m))
    for i in range(h):
        for j in range(w):
            patch = image[:, i : i + p, j : j + q]
            contrast = np.sqrt(patch.var() + epsilon)
            for k in range(m):
                z[i, j, k] = np.sum(filters[k] * patch) / contrast + biases[k]
    return z


def pooled(image, filters, biases, *, epsilon, threshold, n_cells):
    """Return the means of both rectified parts over cells, (cells · 2 · m,)."""
    z = responses(image, filters, biases, epsilon)
    found = []
    for top, bottom in windows(z.shape[0], n_cells):
        for left, right in windows(z.shape[1], n_cells):
            cell = z[top:bottom, left:right]
            for sign in (1, -1):
                rectified = np.maximum(sign * cell - threshold, 0)
                found.append(rectified.mean(axis=(0, 1)))
    return np.concatenate(found)


def features(images, filters, biases, *, epsilon, threshold, n_cells, power, mirror):
    """Return the features of images (n, c, H, W), one row each."""
    options = {"epsilon": epsilon, "threshold": threshold, "n_cells": n_cells}
    rows = []
    for image in images:
        row = pooled(image, filters, biases, **options)
        if mirror:
            row = (row + pooled(image[:, :, ::-1], filters, biases, **options)) / 2
        rows.append(row**power)
    return np.array(rows)


def gaussian_kernel(phi, psi, gamma):
    """Return exp(−γ ‖φ − ψ‖² / (2 σ²)) of features standardised by those of ``psi``."""
    mean, deviation = psi.mean(axis=0), psi.std(axis=0)
    varies = deviation > 1e-6
    phi, psi = ((x - mean)[:, varies] / deviation[varies] for x in (phi, psi))
    D = np.array([[np.sum((a - b) ** 2) for b in psi] for a in phi])
    return np.exp(-gamma * D / (2 * varies.sum()))
