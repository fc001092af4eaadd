"""Checks of a kernel matrix that the user computed."""

from kaucus.backend import Array, array_namespace, diagonal, epsilon


def check_precomputed(K: Array) -> None:
    """Check that a precomputed training matrix can be a kernel matrix.

    Square, symmetric to rounding, and with no 2 × 2 minor that is negative, which
    finds most indefinite matrices in one pass over K, before it is factored.
    """
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square matrix of the training rows, got "
            f"shape {tuple(K.shape)}; pass k(X, X) to fit and k(X_new, X) to predict."
        )
    xp, on_diagonal = array_namespace(K), diagonal(K)
    if bool(xp.any(on_diagonal < 0)):
        i = int(xp.argmin(on_diagonal))
        raise ValueError(
            f"The precomputed kernel matrix has K[{i}, {i}] = "
            f"{float(on_diagonal[i]):.3g}; the diagonal of a positive semidefinite "
            "matrix is not negative. A matrix of distances is no kernel matrix; "
            "exp(-gamma * distances**2) is one."
        )
    slack = 1e3 * epsilon(K) * max(float(xp.max(on_diagonal)), 1e-300)
    roots = xp.sqrt(on_diagonal)
    for start in range(0, K.shape[0], 512):
        rows = slice(start, min(start + 512, K.shape[0]))
        _check_symmetric(K, rows, slack)
        _check_minors(K, rows, roots, slack)


def _check_symmetric(K: Array, rows: slice, slack: float) -> None:
    xp = array_namespace(K)
    difference = xp.abs(K[rows, :] - K[:, rows].T)
    largest = float(xp.max(xp.abs(K[rows, :])))
    if float(xp.max(difference)) > max(slack, 1e-6 * largest):
        i, j = _place_of_largest(difference, rows)
        raise ValueError(
            f"The precomputed kernel matrix is not symmetric: K[{i}, {j}] = "
            f"{float(K[i, j]):.6g}, K[{j}, {i}] = {float(K[j, i]):.6g}. Pass "
            "(K + K.T) / 2 if the difference is noise."
        )


def _check_minors(K: Array, rows: slice, roots: Array, slack: float) -> None:
    xp = array_namespace(K)
    excess = xp.abs(K[rows, :]) - roots[rows][:, None] * roots[None, :]
    if float(xp.max(excess)) > max(slack, 1e-6 * float(xp.max(roots)) ** 2):
        i, j = _place_of_largest(excess, rows)
        raise ValueError(
            f"The precomputed kernel matrix is indefinite: K[{i}, {j}]² = "
            f"{float(K[i, j]) ** 2:.6g} exceeds K[{i}, {i}] K[{j}, {j}] = "
            f"{float(K[i, i]) * float(K[j, j]):.6g}. Use a positive semidefinite "
            "kernel, or shift its eigenvalues: K + λ I."
        )


def _place_of_largest(block: Array, rows: slice) -> tuple[int, int]:
    """Return row and column of the largest entry of a block of rows."""
    xp = array_namespace(block)
    i, j = divmod(int(xp.argmax(xp.reshape(block, (-1,)))), block.shape[1])
    return i + rows.start, j
