"""Base class of the support vector classifiers on a partition of the rows."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    as_like,
    few_threads_for,
    format_bytes,
    generator_from,
    interruptible,
    resolve_budget,
    take_rows,
    to_numpy,
    warn_user,
)
from kaucus.contract import FollowsX, HostAccuracy, rowwise, validate_data
from kaucus.estimators._kernel_input import map_rows, on_device
from kaucus.estimators._parameters import (
    MEMORY_BUDGET,
    POSITIVE,
    RANDOM_STATE,
    ChecksParameters,
    count,
    one_of,
)
from kaucus.estimators._partitions import (
    PartitionedRows,
    check_partition_parameter,
    fit_partition,
)
from kaucus.estimators._predictions import labels_at
from kaucus.estimators._ranges import check_magnitude, check_results
from kaucus.estimators._validation import (
    check_one_label_type,
    check_weights,
    encode_labels,
    weights_with_classes,
)
from kaucus.kernels import (
    Kernel,
    fill_constant_columns,
    regularisation_text,
    regularise_covariances,
)
from kaucus.machines import COVARIANCES, cell_covariances


class PartitionedSVC(
    FollowsX, HostAccuracy, ClassifierMixin, ChecksParameters, BaseEstimator
):
    """Base of ClusterRBFSVC and LocalSVC: fits cells, kernels and SVMs.

    A subclass says which kernel is for which rows (``_kernels_and_rows``), stores the
    SVMs (``_store_svms``) and asks them (``_decision_values``). Kernels are
    computed where the rows are, or on ``device``; the partition and the SVMs, which
    are scikit-learn's, on the host.

    Parameters
    ----------
    C : float
        Inverse strength of the regularisation, as in ``SVC``.
    n_clusters : int
        Number of cells, k.
    partition : {"kmeans", "gmm", "dpgmm", "linear", "tree"}, clusterer or callable
        How the cells are found: k-means (10 starts of k-means++), a Gaussian mixture, a
        Dirichlet process mixture, the classes that a linear classifier predicts, or
        the ``n_clusters`` leaves of a tree; any clusterer or classifier with
        ``predict``, of which a clone is fitted if it is not fitted yet; or a function
        of rows that returns their cells.
    covariance : {"full", "diag", "radial"}
        Whole covariances, diagonal ones, or multiples of the identity.
    class_weight : dict or "balanced"
        Weights of the classes; ``"balanced"`` makes them inversely proportional to
        their numbers of rows.
    tol : float
        Tolerance at which the solver stops, as in ``SVC``.
    max_iter : int
        Most steps of the solver.
    device : str
        None computes the kernel where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes
        it there. Needs torch. Cells and SVMs are always computed on the host.
    random_state : int, RandomState or Generator
        Draws the starts of the partition.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    partition_ : callable
        Returns the cells of rows, 0 to ``n_cells_`` − 1.
    n_cells_ : int
        Cells that have rows; at most ``n_clusters`` where it is asked for.
    covariances_ : ndarray of shape (n_cells, n_features, n_features)
        The covariances; (n_cells, n_features) if diagonal, (n_cells,) if radial.
    epsilon_ : ndarray of shape (n_cells,)
        The share of the covariance of all rows that was mixed into a singular one.
    """

    _parameters: ClassVar = {
        "C": POSITIVE.advise("Try 1.0; larger fits closer."),
        "gamma": POSITIVE | one_of("scale", "auto"),
        "n_clusters": count(),
        "covariance": one_of(*COVARIANCES),
        "tol": POSITIVE,
        "max_iter": count(most=2**31 - 1),  # libsvm counts steps in 32 bits
        "memory_budget": MEMORY_BUDGET,
        "random_state": RANDOM_STATE,
    }

    # Whether one SVM sees all rows: its matrix is then checked before clustering.
    _has_one_svm = False

    def fit(self, X, y, sample_weight=None, X_unlabeled=None):
        """Find the cells and fit the support vector machines.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 counts as two equal rows.
        X_unlabeled : array-like of shape (n_unlabeled, n_features), default=None
            Rows without labels, such as those to be predicted, that help to find the
            cells and their covariances (the paper's transductive use). None: the
            training rows alone.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        X, indices, row_weight, weight, others = self._validated(
            X, y, sample_weight, X_unlabeled
        )
        self._check_memory(X, X.shape[0] if self._has_one_svm else 0)
        cells = self._fit_cells(X, indices, row_weight, others).cells
        parts = self._kernels_and_rows(cells)
        self._check_memory(X, max(len(rows) for _, rows in parts))
        majority = int(np.argmax(np.bincount(indices, weights=weight)))
        with _no_convergence_warnings():
            fitted = Parallel(getattr(self, "n_jobs", None), prefer="threads")(
                delayed(self._fit_svm)(
                    kernel, take_rows(X, rows), indices[rows], weight[rows]
                )
                for kernel, rows in parts
            )
        models = [majority if model is None else model for model, _ in fitted]
        self._store_svms(
            [kernel for kernel, _ in parts], models, [vectors for _, vectors in fitted]
        )
        self._report_steps(*(m for m in models if not isinstance(m, int)))
        return self

    def _fit_svm(self, kernel: Kernel, X, indices, weight):
        """Return a support vector machine and its support vectors.

        The number of the class in place of an SVM where there is one class, None
        where there is no labelled row.
        """
        present = np.unique(indices)
        if len(present) < 2:
            return (int(present[0]) if len(present) else None), None
        from sklearn.svm import SVC  # not before: it imports rich where there is one

        with few_threads_for(X.shape[0]):
            K = kernel(on_device(X, self.device))
        model = SVC(
            C=self.C,
            kernel="precomputed",
            tol=self.tol,
            max_iter=self.max_iter,
            cache_size=200,
        )
        interruptible(model.fit, check_results(to_numpy(K)), indices, weight)
        return model, take_rows(X, model.support_)

    def _check_combinations(self) -> None:
        check_partition_parameter(self.partition)

    def _validate(self, X, y="no_validation", *, reset: bool, **options):
        checked = validate_data(self, X, y, reset=reset, dtype=np.float64, **options)
        rows = checked[0] if isinstance(checked, tuple) else checked
        check_magnitude(rows, fitted=reset)
        return checked

    def _validated(self, X, y, sample_weight, X_unlabeled):
        """Return rows of positive weight, class numbers, weights and unlabelled rows.

        A row of weight 0 is a row that is not there.
        """
        check_one_label_type(y)
        X, y = self._validate(X, y, reset=True, ensure_min_samples=2)
        self.classes_, indices = encode_labels(y)
        if X_unlabeled is not None:
            X_unlabeled = self._validate(X_unlabeled, reset=False)
        row_weight = check_weights(sample_weight, X)
        weight = weights_with_classes(
            row_weight, self.class_weight, self.classes_, indices
        )
        if weight is None:
            weight = row_weight = np.ones(X.shape[0])
        elif row_weight is None:
            row_weight = np.ones(X.shape[0])
        kept = np.flatnonzero(weight > 0)
        self._check_clusters(len(kept))
        rows = take_rows(X, kept)
        return rows, indices[kept], row_weight[kept], weight[kept], X_unlabeled

    def _check_clusters(self, n_rows: int) -> None:
        if isinstance(self.partition, str) and n_rows < self.n_clusters:
            raise ValueError(
                f"n_samples={n_rows} should be >= n_clusters={self.n_clusters}; lower "
                "n_clusters or pass more rows."
            )

    def _check_memory(self, X, n_rows: int) -> None:
        """Refuse a kernel matrix of so many rows that does not fit, before the work."""
        budget, d = resolve_budget(self.memory_budget), X.shape[1]
        # Ours, and the copy that libsvm's wrapper makes.
        matrix = 2 * 8 * n_rows * n_rows
        # Rows in float64 and those of the cells; covariances, their roots and inverses.
        copies = 8 * (2 * X.shape[0] * d + 3 * self.n_clusters * d * d)
        if matrix + copies > budget:
            of_rows = f" of {n_rows:,} rows" if n_rows else ""
            raise ValueError(
                f"{format_bytes(matrix)} are needed for a kernel matrix{of_rows}, "
                f"{format_bytes(copies)} for copies of the rows and covariances; "
                f"memory_budget allows {format_bytes(budget)}. Use fewer rows, a "
                "larger one, or LSSVMClassifier(kernel=ClusterRBF(...)), in blocks."
            )

    def _fit_cells(self, X, indices, weight, X_unlabeled) -> PartitionedRows:
        """Fit the partition, and store cells and covariances.

        Rows without labels take part in both, with weight 1.
        """
        n, given, X = X.shape[0], X, to_numpy(X)
        if X_unlabeled is not None:
            X_unlabeled = to_numpy(X_unlabeled)
            X = np.concatenate([X, X_unlabeled])
            weight = np.concatenate([weight, np.ones(len(X_unlabeled))])
        rng = generator_from(self.random_state)
        fitted = fit_partition(self.partition, self.n_clusters, X, indices, weight, rng)
        k, kind = fitted.n_cells, self.covariance
        of_all = cell_covariances(X, np.zeros(len(X), int), 1, kind, weight)[0]
        covariances = cell_covariances(X, fitted.cells, k, kind, weight)
        covariances = fill_constant_columns(covariances, of_all)
        regular = regularise_covariances(covariances, of_all)
        self.covariances_ = as_like(regular.covariances, given)
        self.epsilon_ = as_like(regular.epsilons, given)
        self.partition_, self.n_cells_ = fitted.partition, k
        self._report_cells(regular.epsilons)
        return fitted._replace(cells=fitted.cells[:n])

    def _report_cells(self, epsilons: np.ndarray) -> None:
        if (epsilons > 0).any():
            warn_user(
                f"{regularisation_text(epsilons)} epsilon_ tells how much of it. "
                "Fewer clusters, more rows, or covariance='diag' avoid it.",
                LinAlgWarning,
            )

    def _gamma(self, expected_distance: float) -> float:
        """Return gamma as a number.

        ``"scale"`` gives the mean exponent that it has in scikit-learn's ``SVC``, 2.
        """
        if isinstance(self.gamma, str):
            scale = 2.0 / expected_distance
            return scale if self.gamma == "scale" else 1.0 / self.n_features_in_
        return float(self.gamma)

    def _report_steps(self, *models: Any) -> None:
        """Store the steps, and warn once where they did not suffice."""
        self.n_iter_ = int(max((np.max(m.n_iter_) for m in models), default=1))
        if self.n_iter_ >= self.max_iter:
            warn_user(
                f"The support vector machine stopped after max_iter={self.max_iter} "
                "steps; increase max_iter or tol, lower C, or scale the data.",
                ConvergenceWarning,
            )

    @rowwise
    def decision_function(self, X):
        """Return the decision values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one value, positive for ``classes_[1]``; else one-vs-rest
            values, as scikit-learn's ``SVC`` makes them.
        """
        values = self._values(X)
        return values[:, 1] if len(self.classes_) == 2 else values

    @rowwise
    def predict(self, X):
        """Return the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        like, two = self._values(X), len(self.classes_) == 2
        values = to_numpy(like)
        numbers = values[:, 1] > 0 if two else np.argmax(values, axis=1)
        numbers = as_like(numbers.astype(np.int64), like)
        return labels_at(self.classes_, numbers, like)

    def _values(self, X):
        """Check rows, and return their decision values, (n, n_classes)."""
        check_is_fitted(self, "partition_")
        X = self._validate(X, reset=False)
        values = map_rows(self._decision_values, X, self.device, self.memory_budget)
        return check_results(values)


@contextlib.contextmanager
def _no_convergence_warnings() -> Iterator[None]:
    """Ignore scikit-learn's own warning of too few steps; ours names a remedy.

    Around all threads, not in each: they share one list of filters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
