"""The k-means kernel classifier as the paper's steps say, in plain float64 NumPy.

Andrecut (2020), Sec. 2 and 5, written as one would write it down: no blocks, no
shortcuts, one class after another. The benchmark runs against it.
"""

import numpy as np


def unit_rows(X):
    """Eq. (21)-(22)."""
    X = np.asarray(X, dtype=np.float64)
    X = X - X.mean(axis=1, keepdims=True)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def spherical_kmeans(X, k, rng, tol=1e-4, max_iter=100):
    """Steps 1-9 of Sec. 5: random rows first, stop on the alignment deviation."""
    centers = X[rng.choice(len(X), k, replace=False)]
    for _ in range(max_iter):
        labels = np.argmax(X @ centers.T, axis=1)
        new = centers.copy()
        for q in range(k):
            total = X[labels == q].sum(axis=0)
            norm = np.linalg.norm(total)
            if norm > 0:
                new[q] = total / norm
        deviation = 1 - np.mean(np.sum(new * centers, axis=1))
        centers = new
        if deviation <= tol:
            break
    return centers


class PlainKMeansKernel:
    """Representatives of each class, and the LS-SVM of them by one solve."""

    def __init__(self, n_representatives, epsilon=1e-6, degree=4, seed=0):
        self.n_representatives = n_representatives
        self.epsilon, self.degree, self.seed = epsilon, degree, seed

    def fit(self, X, y):
        X, rng = unit_rows(X), np.random.default_rng(self.seed)
        self.classes_ = np.unique(y)
        parts = [
            spherical_kmeans(X[y == c], self.n_representatives, rng)
            for c in self.classes_
        ]
        self.points_ = np.concatenate(parts)
        m, k = len(self.points_), len(self.classes_)
        system = np.zeros((m + 1, m + 1))
        system[0, 1:] = system[1:, 0] = 1
        system[1:, 1:] = (self.points_ @ self.points_.T) ** self.degree
        system[1:, 1:] += self.epsilon * np.eye(m)
        labels = np.repeat(np.arange(k), [len(part) for part in parts])
        right = np.zeros((m + 1, k))
        right[1:] = labels[:, None] == np.arange(k)
        self.solution_ = np.linalg.solve(system, right)
        return self

    def predict(self, X):
        K = (unit_rows(X) @ self.points_.T) ** self.degree
        values = K @ self.solution_[1:] + self.solution_[0]
        return self.classes_[np.argmax(values, axis=1)]
