"""A metric learned from the labels."""

from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from kaucus import _base as base
from kaucus._array.namespace import as_like, is_sparse, working_types
from kaucus.fitting._problem import ClassTargets, NumberTargets, Problem
from kaucus.fitting._search import metric_options, metric_or_scale
from kaucus.kernels._kernel import kernel_class

# ----------------------------------------------------------------------------------
# A transformer to columns in which a metric learned from the targets is Euclidean.
# ----------------------------------------------------------------------------------

# More distinct whole numbers than this, and than the root of their number, are counts
# or measurements, not classes.
_MOST_CLASSES = 20


class LearnedMetric(base.FollowsX, TransformerMixin, BaseEstimator):
    """Scale, weigh and mix columns by a metric that is learned from the targets.

    Rows are mapped by z = u T, where u are the columns of x on a common scale and
    T Tᵀ = Mᵖ is the metric: M is the mean over the rows of Σ_j ∇f_j ∇f_jᵀ, the outer
    products of the gradients of a kernel fit f, taken again in the columns found so
    far. Plain Euclidean distances of z are then those of the metric, for any estimator
    that follows. Whether and how is decided by rows that neither fit nor metric has
    seen; where it does not help, columns are only scaled, or left unchanged.

    ``KMeansKernelClassifier`` and ``KMeansKernelRegressor`` do the same by themselves
    (``learn_metric``), and choose their kernel together with it.

    Parameters
    ----------
    kind : {"auto", "diagonal", "full"}, default="auto"
        A weight for each column, or all directions; ``"auto"`` chooses. Sparse rows,
        and more than 1,000 columns with ``"auto"``, are weighed.
    power : {"auto", 0.5, 1} or float, default="auto"
        p; ``"auto"`` chooses 1 or ½.
    max_steps : int, default=3
        Steps of fit and metric at most. 0: columns are only scaled.
    kernel : str, default="auto"
        Of the fits: ``"auto"`` chooses among ``"exponential"``, ``"rbf"`` and, up to 64
        columns, ``"laplacian"``; or the name of a kernel with a gradient.
    max_samples : int, default=4500
        Rows that learn and judge; of more, so many are drawn.
    cv : int or None, default=None
        Folds in which every row judges once. None: one split with a third of the rows
        as judges; below 1,500 rows three folds, below 300 four.
    memory_budget : int or str, default=None
        Bytes, or a string such as ``"4GiB"``; where it is short, fewer rows are drawn.
    random_state : int, RandomState or Generator, default=None
        Draws the rows.

    Attributes
    ----------
    metric_ : ndarray of shape (n_features, n_features) or (n_features,)
        T Tᵀ for columns of spread 1; of a diagonal one, the diagonal.
    components_ : ndarray of shape (n_features, n_components) or (n_features,)
        T, which scaled columns are multiplied by.
    feature_importances_ : ndarray of shape (n_features,)
        The diagonal of ``metric_``, with the sum 1.
    kind_ : {"identity", "diagonal", "full"}
        What was chosen; ``"identity"`` where no step helped.
    scale_ : {"standard", "bounded"}
        Whether columns are put on a common scale, or stay on their own and only values
        beyond the training rows are bounded.
    n_steps_ : int
        Steps that were taken.
    kernel_ : kernel object
        The kernel of the best fit, for transformed rows.
    C_ : float
        Its C.
    row_map_ : RowMap
        The map itself.
    search_results_ : dict of ndarrays
        A row for every fit that was judged: ``kernel``, ``gamma``, ``C``, ``score``
        (minus the loss of rows held out), ``n_columns``, ``chosen`` (true in one of
        them, whose gamma is that of all rows), ``scale``, ``kind``, ``power`` and
        ``n_steps``. For ``pandas.DataFrame(metric.search_results_)``.

    See Also
    --------
    KMeansKernelClassifier : Learns a metric by itself.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for feature
    learning in neural networks and backpropagation-free machine learning models",
    Science (2024).

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LearnedMetric
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 5))
    >>> y = np.sin(3 * X[:, 0])
    >>> metric = LearnedMetric(random_state=0).fit(X, y)
    >>> int(np.argmax(metric.feature_importances_))
    0
    """

    fit_batches, to_onnx = base.fit_batches, base.to_onnx
    _dask_fit = "rows"
    _parameters: ClassVar = {
        "kind": base.one_of("auto", "diagonal", "full"),
        "power": base.POSITIVE | base.one_of("auto"),
        "kernel": base.Constraint(
            lambda kernel: isinstance(kernel, str),
            "'auto' or the name of a kernel with a gradient, such as 'rbf'",
        ),
        "max_steps": base.count(least=0),
        "max_samples": base.count(least=50),
        "cv": base.count(least=2) | base.NONE,
        "memory_budget": base.MEMORY_BUDGET,
        "random_state": base.RANDOM_STATE,
    }

    @base.stored
    def __init__(
        self,
        kind: Literal["auto", "diagonal", "full"] = "auto",
        *,
        power: float | Literal["auto"] = "auto",
        max_steps: int = 3,
        kernel: base.KernelName = "auto",
        max_samples: int = 4500,
        cv: int | None = None,
        device: str | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Training rows. Of fewer than 50 the columns are only scaled.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels, or numbers: floats with a fraction, several outputs, and whole
            numbers of more than 20 and √n_samples different values.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. Only ratios
            count; a weight of 0 leaves the row out.

        Returns
        -------
        self : LearnedMetric
        """
        self._check_parameters()
        base.check_one_label_type(y)
        X, y = self._validate(X, y, reset=True)
        weight = base.relative_weights(base.check_weights(sample_weight, X))
        rows = self._placed(X)
        problem = Problem.of(rows, targets_of(y, weight), weight)
        options, rng = self._options(X), base.generator_from(self.random_state)
        report, budget = base.share_reporter(self.verbose, "stage"), self.memory_budget
        found = metric_or_scale(
            problem, options, rng, callback=report, memory_budget=budget
        )
        self.row_map_ = found.row_map
        self.kernel_, self.C_ = found.kernel, found.C
        self.kind_, self.scale_ = found.kind, found.scale
        self.n_steps_, self.search_results_ = found.n_steps, found.results
        self.metric_ = as_like(found.row_map.metric(), X)
        self.components_ = as_like(found.row_map.weights, X)
        self.feature_importances_ = as_like(found.row_map.importances(), X)
        return self

    def fit_transform(self, X, y, sample_weight=None) -> np.ndarray:
        """Learn the metric; return the transformed rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, y, sample_weight).transform(X)

    @base.rowwise
    def transform(self, X) -> np.ndarray:
        """Return the rows in columns whose Euclidean distance is that of the metric.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray or CSR matrix of shape (n_samples, n_components)
        """
        check_is_fitted(self, "row_map_")
        X = self._validate(X, reset=False)
        base.warn_of_wild_rows(self, X, self.row_map_)
        return self._map_rows(self.row_map_, X)

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return the names of the columns: those of X, or ``learnedmetric0`` and so on.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the features; None: ``feature_names_in_``, or ``x0`` and so on.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self, "row_map_")
        if self.row_map_.weights.ndim > 1:
            numbers = range(self.row_map_.n_components)
            return np.asarray([f"learnedmetric{k}" for k in numbers], dtype=object)
        known = getattr(self, "feature_names_in_", None)
        names = known if input_features is None else np.asarray(input_features, object)
        if names is None:
            return np.asarray([f"x{k}" for k in range(self.n_features_in_)], object)
        unlike = known is not None and list(names) != list(known)
        if len(names) != self.n_features_in_ or unlike:
            raise ValueError(
                f"input_features has {len(names)} names that are not those of fit; "
                "pass feature_names_in_, or None."
            )
        return np.asarray(names, dtype=object)

    # ---- parts -----------------------------------------------------------------------

    def _options(self, X):
        options = metric_options(X, self.kernel, "tune", None)
        if self.kind == "full" and is_sparse(X):
            raise ValueError(
                f"kind={self.kind!r} mixes columns, which would fill a sparse X; use "
                "kind='diagonal', or X.toarray()."
            )
        if self.kind != "auto":
            options = replace(options, kinds=(self.kind,))
        if self.power != "auto":
            options = replace(options, powers=(float(self.power),))
        rows = {"cv": self.cv, "max_samples": self.max_samples}
        return replace(options, max_steps=self.max_steps, **rows)

    def _validate(self, X, y="no_validation", *, reset: bool):
        options = {"accept_sparse": "csr", "dtype": working_types(None)}
        options |= {"multi_output": True} if reset else {}
        checked = base.validate_data(self, X, y, reset=reset, **options)
        base.check_magnitude(checked[0] if reset else checked, fitted=reset)
        return checked

    def _check_combinations(self) -> None:
        if self.kernel != "auto":
            kernel_class(self.kernel, also=("auto",))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def targets_of(y: np.ndarray, weight) -> ClassTargets | NumberTargets:
    """Return the targets as classes or as numbers."""
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    distinct = len(np.unique(y)) if kind == "multiclass" else 0
    counts = y.dtype.kind in "fiu" and distinct > max(_MOST_CLASSES, len(y) ** 0.5)
    if kind in ("binary", "multiclass") and not counts:
        classes, labels = base.encode_labels(y)
        return ClassTargets(labels, len(classes), lambda weight, labels: weight)
    return NumberTargets.of(base.numeric_targets(y), 10, weight)
