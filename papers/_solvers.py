"""What Andrecut (2016) writes down and does not run on his data, each as one function.

Rows one by one in their order (eq. 29-31), greedy matching pursuit (eq. 48-55), and the
Nyström approximation by eigenvectors (eq. 20-25) of rows that are chosen by their Renyi
entropy. They are no part of the package: random blocks reach the same in less time.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kaucus import LSSVMClassifier
from kaucus.evaluation.clustering import peak_memory, timed
from kaucus.preprocessing import UnitNormalizer
from papers._data import load_split
from papers._svm_grid import Measurement

C = 1e4  # the paper's γ
DEGREE = 4  # ⟨x, x'⟩⁴, eq. 64


def bordered(K: np.ndarray) -> np.ndarray:
    """Return Θ = [[0, 1ᵀ], [1, K + I/C]], eq. 17."""
    n = len(K)
    theta = np.ones((n + 1, n + 1))
    theta[0, 0] = 0.0
    theta[1:, 1:] = K + np.eye(n) / C
    return theta


def kaczmarz_rows(A: np.ndarray, B: np.ndarray, n_sweeps: int) -> np.ndarray:
    """Return x after sweeps over the rows of A x = B in their order (eq. 29-30)."""
    norms = np.linalg.norm(A, axis=1)
    A, B = A / norms[:, None], B / norms[:, None]  # eq. 36-37
    x = np.zeros((A.shape[1], B.shape[1]))
    for _ in range(n_sweeps):
        for row, b in zip(A, B, strict=True):
            x += np.outer(row, b - row @ x)
    return x


def greedy_pursuit(A: np.ndarray, B: np.ndarray, n_steps: int) -> np.ndarray:
    """Return x after steps of matching pursuit by the best column (eq. 48-55).

    One column serves all right-hand sides: the one that reduces the sum of their
    squared residuals most. Each step changes the correlations by one column of AᵀA.
    """
    gram = A.T @ A
    squares = np.diagonal(gram)
    correlations = A.T @ B
    x = np.zeros((A.shape[1], B.shape[1]))
    for _ in range(n_steps):
        j = np.argmax((correlations**2).sum(axis=1) / squares)  # eq. 55
        alpha = correlations[j] / squares[j]  # eq. 53
        x[j] += alpha
        correlations -= np.outer(gram[:, j], alpha)  # of r - alpha psi
    return x


def renyi_rows(
    K: np.ndarray, n_rows: int, n_trials: int, rng: np.random.Generator
) -> np.ndarray:
    """Return rows of large quadratic Renyi entropy −log(Σ K / J²), by random swaps."""
    order = rng.permutation(len(K))
    inside, outside = order[:n_rows].copy(), order[n_rows:].copy()
    sums = K[:, inside].sum(axis=1)
    for _ in range(n_trials):
        i, o = rng.integers(n_rows), rng.integers(len(outside))
        old, new = inside[i], outside[o]
        # Of the sum over pairs: what `new` adds, less what `old` takes away.
        added = 2 * (sums[new] - K[new, old]) + K[new, new]
        if added < 2 * sums[old] - K[old, old]:
            inside[i], outside[o] = new, old
            sums += K[:, new] - K[:, old]
    return inside


def nystrom_factors(K: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return V and λ with V diag(λ) Vᵀ = K_NJ K_JJ⁻¹ K_JN (eq. 22-25).

    Eq. 24 prints √(N/J) and K_JJ; eq. 25 holds with √(J/N) and K_NJ.
    """
    values, vectors = np.linalg.eigh(K[np.ix_(rows, rows)])
    keep = values > values[-1] * 1e-12
    values, vectors = values[keep], vectors[:, keep]
    ratio = len(K) / len(rows)
    return K[:, rows] @ vectors / values / np.sqrt(ratio), ratio * values


def nystrom_solution(V: np.ndarray, values: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return W with (V diag(λ) Vᵀ + I/C) W = Z by eq. 21."""
    inner = np.eye(len(values)) / C + values[:, None] * (V.T @ V)
    return C * (Z - V @ np.linalg.solve(inner, values[:, None] * (V.T @ Z)))


# ---- measurements --------------------------------------------------------------------


def measure_equations(
    dataset: str, params: Mapping[str, Any], *, seed: int, data_home: Any = None
) -> Measurement:
    """Return the test error in per cent of one of the functions above.

    ``params`` has ``n_train``, and ``method``: "kaczmarz rows" with ``n_sweeps``,
    "greedy pursuit" with ``n_steps``, or "nystrom" with ``block_size`` and ``n_trials``
    of the choice by entropy, 0 for random rows. The seed draws training rows.
    """
    n_train = params["n_train"]
    split = load_split(
        dataset, n_train=n_train, sample="random", seed=seed, data_home=data_home
    )
    unit = UnitNormalizer()
    X, X_test = unit.fit_transform(split.X_train), unit.transform(split.X_test)
    K, K_test = (X @ X.T) ** DEGREE, (X_test @ X.T) ** DEGREE
    classes = np.unique(split.y_train)
    Z = (split.y_train[:, None] == classes) * 1.0
    W, seconds = timed(_solve, K, Z, dict(params), np.random.default_rng(seed))
    predicted = classes[np.argmax(W[0] + K_test @ W[1:], axis=1)]
    error = 100 * float(np.mean(predicted != split.y_test))
    return Measurement(error, n_train, seconds, {})


def _solve(
    K: np.ndarray, Z: np.ndarray, params: dict[str, Any], rng: np.random.Generator
) -> np.ndarray:
    """Return intercepts and weights, (1 + n, classes)."""
    method, zero = params["method"], np.zeros((1, Z.shape[1]))
    if method == "kaczmarz rows":
        return kaczmarz_rows(bordered(K), np.vstack([zero, Z]), params["n_sweeps"])
    if method == "greedy pursuit":
        return greedy_pursuit(bordered(K), np.vstack([zero, Z]), params["n_steps"])
    if method != "nystrom":
        raise ValueError(
            f"method={method!r} must be 'kaczmarz rows', 'greedy pursuit' or 'nystrom'."
        )
    rows = renyi_rows(K, params["block_size"], params["n_trials"], rng)
    # Without the border, which makes Θ indefinite: targets less their mean instead.
    mean = Z.mean(axis=0, keepdims=True)
    W = nystrom_solution(*nystrom_factors(K, rows), Z - mean)
    # Predictions are of the approximated kernel too: K_·J K_JJ⁻¹ K_JN W.
    on_rows = np.zeros_like(W)
    on_rows[rows] = np.linalg.pinv(K[np.ix_(rows, rows)], hermitian=True) @ K[rows] @ W
    return np.vstack([mean, on_rows])


def measure_step(
    dataset: str, params: Mapping[str, Any], *, seed: int, data_home: Any = None
) -> Measurement:
    """Return seconds or GB of a step of a randomized solver, in single precision.

    ``params`` has ``solver``, ``block_size``, ``n_steps`` and ``quantity``: "seconds" a
    step, or "GB" by which memory rises during the fit.
    """
    split = load_split(dataset, dtype="float32", data_home=data_home)
    X = UnitNormalizer().fit_transform(split.X_train)
    model = LSSVMClassifier(
        kernel="poly",
        degree=DEGREE,
        gamma=1.0,
        coef0=0.0,
        C=C,
        solver=params["solver"],
        block_size=params["block_size"],
        max_iter=params["n_steps"],
        tol=1e-9,
        probability=False,
        random_state=seed,
    )
    with peak_memory() as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it stops when asked to
        _, seconds = timed(model.fit, X, split.y_train)
    a_step = seconds / params["n_steps"]
    gigabytes = (memory.rise or 0) / 1e9
    value = a_step if params["quantity"] == "seconds" else gigabytes
    detail = {"seconds a step": a_step, "GB": gigabytes}
    return Measurement(value, len(X), seconds, detail)
