"""Classify images by a vote of their patches."""

import math
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from kaucus.backend import (
    array_namespace,
    as_like,
    astype,
    budget_to_have,
    device_of,
    dtype_name,
    format_bytes,
    itemsize,
    resolve_budget,
)
from kaucus.contract import (
    FollowsX,
    HostAccuracy,
    on_host,
    rowwise,
    validate_data,
)
from kaucus.estimators._kmeans_kernel_classifier import KMeansKernelClassifier
from kaucus.estimators._parameters import MEMORY_BUDGET, ChecksParameters, one_of
from kaucus.estimators._predictions import all_classes, labels_at
from kaucus.estimators._progress import share_reporter
from kaucus.estimators._validation import (
    check_one_label_type,
    check_weights,
    encode_labels,
    weights_with_classes,
)
from kaucus.preprocessing import iter_patches, patch_view

VOTINGS = ("majority", "sum")
# Patches may take this share of the budget; the rest is the estimator's.
_PATCH_SHARE = 0.8


def _can_give_probabilities(self) -> bool:
    if self.voting == "majority":
        return True
    inner = getattr(self, "estimator_", self.estimator)
    if inner is not None and not hasattr(inner, "predict_proba"):
        raise AttributeError(
            f"voting='sum' takes probabilities from {inner!r}, which has no "
            "predict_proba. Use voting='majority'."
        )
    return True


class PatchVotingClassifier(
    FollowsX,
    HostAccuracy,
    ClassifierMixin,
    MetaEstimatorMixin,
    ChecksParameters,
    BaseEstimator,
):
    """Any classifier on the patches of images, and a vote of the patches.

    A patch inherits the label of its image; all overlapping patches of the training
    images make one large training set. An image then is what most of its patches
    say. Many shifted views of each image make the classifier indifferent to small
    shifts. (Andrecut 2020, Sec. 4.)

    Parameters
    ----------
    estimator : classifier, default=None
        Fitted on the patches as rows. None:
        ``KMeansKernelClassifier(learn_metric=False)``. For images, put a
        :class:`~kaucus.preprocessing.UnitNormalizer` before it, in a pipeline.
    patch_size : int, tuple of int or None, default=None
        Height and width of a patch, or a pair of both. None: nine tenths of each side,
        which is 25 of 28 as in the paper.
    image_shape : tuple of int or None, default=None
        Shape of an image, in the order of the flattened row, height and width last:
        ``(28, 28)``, or ``(3, 32, 32)`` for three colour planes one after another.
        None: rows have a single axis, and patches are pieces of it.
    voting : {"majority", "sum"}, default="majority"
        ``"majority"``: the class of most patches; ties go to the larger sum of decision
        values. ``"sum"``: the class of the largest sum of decision values (of
        probabilities, where the estimator has no ``decision_function``).
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"8GiB"``; None is three quarters of what is free. All
        patches are held in ``fit``, blocks of them in ``predict``. What the patches
        leave is the ``memory_budget`` of the estimator, where it has one that is None.
    verbose : int, default=0
        1 shows the progress of predictions on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    estimator_ : classifier
        The fitted one.
    n_patches_ : int
        Patches of an image.

    See Also
    --------
    kaucus.preprocessing.ImagePatches : The patches side by side, as features.

    Notes
    -----
    Images of whole numbers of one or two bytes become float32, other numbers keep
    their type: the 960,000 patches of 25 × 25 of all MNIST digits are 2.2 GiB.

    References
    ----------
    M. Andrecut, "K-means kernel classifier" (2020), Sec. 4.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kaucus import PatchVotingClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PatchVotingClassifier(patch_size=7, image_shape=(8, 8))
    >>> model.fit(X[:1000], y[:1000]).n_patches_
    4
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameters: ClassVar = {
        "voting": one_of(*VOTINGS),
        "memory_budget": MEMORY_BUDGET,
    }

    def __init__(
        self,
        estimator=None,
        *,
        patch_size=None,
        image_shape=None,
        voting="majority",
        memory_budget=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.patch_size = patch_size
        self.image_shape = image_shape
        self.voting = voting
        self.memory_budget = memory_budget
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Fit the estimator on all patches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened image.
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the images, given to each of their patches.

        Returns
        -------
        self : PatchVotingClassifier
        """
        self._check_parameters()
        check_one_label_type(y)
        X, y = self._validate(X, y, reset=True)
        self.classes_, indices = encode_labels(y)
        weight = check_weights(sample_weight, X)
        weights_with_classes(weight, None, self.classes_, indices)
        # Of one image, whatever the kind of X: how many patches, of how many pixels.
        one = patch_view(np.arange(X.shape[1])[None], self.image_shape, self.patch_size)
        self.n_patches_ = self._count_patches(one)
        patch_bytes = self._patch_bytes(X, one.size)
        estimator = self._new_estimator(patch_bytes, X)
        # A budget for one block of all patches.
        budget = budget_to_have(2 * patch_bytes, X)
        [(_, patches)] = iter_patches(
            X, self.image_shape, self.patch_size, memory_budget=budget
        )
        labels = np.repeat(self.classes_[indices], self.n_patches_)
        options = {}
        if weight is not None:
            repeated = np.repeat(weight, self.n_patches_)
            options = _weight_argument(estimator, repeated)
        self.estimator_ = estimator.fit(patches, labels, **options)
        return self

    @rowwise
    def predict(self, X):
        """Return the class that the patches vote for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened image.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        votes = self._votes(X)
        winners = array_namespace(votes).argmax(votes, axis=1)
        return labels_at(self.classes_, winners, votes)

    @rowwise
    def decision_function(self, X):
        """Return the votes for each class, or the sums of decision values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened image.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one value, positive for ``classes_[1]``. Votes carry a
            fraction below one half by which ties are decided.
        """
        votes = self._votes(X)
        return votes[:, 1] - votes[:, 0] if len(self.classes_) == 2 else votes

    @available_if(_can_give_probabilities)
    @rowwise
    def predict_proba(self, X):
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened image.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Shares of the votes with ``voting="majority"``; with ``"sum"`` the mean of
            the patches' probabilities, whose largest can be another class than that of
            the largest sum of decision values.
        """
        if self.voting == "majority":
            votes = self._votes(X)
            xp = array_namespace(votes)
            least = xp.min(votes, axis=1, keepdims=True)
            votes = votes - xp.where(least < 0, least, xp.zeros_like(least))
            return votes / xp.sum(votes, axis=1, keepdims=True)
        parts = self._map_patches(X, lambda rows: self.estimator_.predict_proba(rows))
        return _joined([array_namespace(p).mean(p, axis=1) for p in parts])

    def _votes(self, X):
        """Return the votes of the patches for each class, (n, k)."""
        count = _majority if self.voting == "majority" else _sum
        return _joined([count(v) for v in self._map_patches(X, self._values)])

    def _map_patches(self, X, function):
        """Yield ``function(patches)`` of each block of images, (images, patches, k)."""
        check_is_fitted(self, "estimator_")
        X = self._validate(X, reset=False)
        report = share_reporter(self.verbose, "image")
        # The estimator makes copies of what it is given.
        budget = min(resolve_budget(self.memory_budget, X) // 4, 2**29)
        blocks = iter_patches(
            X, self.image_shape, self.patch_size, memory_budget=budget
        )
        for rows, patches in blocks:
            values = as_like(function(patches), X)
            shape = (-1, self.n_patches_, len(self.classes_))
            yield array_namespace(values).reshape(values, shape)
            if report is not None:
                report(rows.stop, X.shape[0])

    def _values(self, patches):
        """Return decision values of patches for each class, (n_patches, k)."""
        estimator = self.estimator_
        if hasattr(estimator, "decision_function"):
            values = estimator.decision_function(patches)
            shape = (patches.shape[0], -1)
            return all_classes(array_namespace(values).reshape(values, shape))
        if hasattr(estimator, "predict_proba"):
            return estimator.predict_proba(patches)
        labels = np.asarray(on_host(estimator.predict(patches)))
        return np.asarray(labels[:, None] == self.classes_, float)

    def _validate(self, X, y="no_validation", *, reset: bool):
        # A classifier's fit needs two rows, its predict one.
        checked = validate_data(
            self, X, y, reset=reset, dtype="numeric", ensure_min_samples=1 + reset
        )
        X, rest = (
            (checked[0], checked[1:]) if isinstance(checked, tuple) else (checked, ())
        )
        if "float" not in dtype_name(X):
            X = astype(X, "float32" if itemsize(X) <= 2 else "float64")
        return (X, *rest) if rest else X

    def _new_estimator(self, patch_bytes: int, X):
        """Return the estimator to be fitted, with the memory that the patches leave."""
        estimator = KMeansKernelClassifier(learn_metric=False)
        if self.estimator is not None:
            estimator = clone(self.estimator)
        if self.memory_budget is None:
            return estimator
        left = resolve_budget(self.memory_budget, X) - patch_bytes
        budgets = {
            name: budget_to_have(left, X)
            for name, value in estimator.get_params().items()
            if name.split("__")[-1] == "memory_budget" and value is None
        }
        return estimator.set_params(**budgets)

    def _count_patches(self, one: np.ndarray) -> int:
        n_axes = 1 if self.image_shape is None else 2
        return math.prod(one.shape[1 : 1 + n_axes])

    def _patch_bytes(self, X, n_values: int) -> int:
        """Return the bytes of all patches, if the budget allows them."""
        budget = resolve_budget(self.memory_budget, X)
        needed = X.shape[0] * n_values * itemsize(X)
        if needed > _PATCH_SHARE * budget:
            raise MemoryError(
                f"{X.shape[0] * self.n_patches_} patches take {format_bytes(needed)}, "
                f"and the estimator needs memory beside them; memory_budget allows "
                f"{format_bytes(budget)}. Pass float32 images, fewer of them, a "
                "smaller patch_size, or a larger memory_budget."
            )
        return needed

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        if self.estimator is not None:
            tags.array_api_support = get_tags(self.estimator).array_api_support
        return tags


def _joined(parts: list):
    return parts[0] if len(parts) == 1 else array_namespace(parts[0]).concat(parts)


def _sum(values):
    """Return the sums of decision values over patches, (n, k), of (n, p, k)."""
    return array_namespace(values).sum(values, axis=1)


def _majority(values):
    """Return votes, with a fraction between −½ and ½ by which ties are decided."""
    xp, k = array_namespace(values), values.shape[2]
    classes = xp.arange(k, device=device_of(values))
    votes = xp.argmax(values, axis=2)[:, :, None] == classes[None, None, :]
    sums = astype(_sum(values), "float64")
    return _sum(astype(votes, "float64")) + sums / (2 * (xp.abs(sums) + 1) + 1e-9)


def _weight_argument(estimator, weight: np.ndarray) -> dict[str, np.ndarray]:
    """Return the keyword by which an estimator, or a pipeline's last, takes weights."""
    last, prefix = estimator, ""
    if hasattr(estimator, "steps"):  # a pipeline
        name, last = estimator.steps[-1]
        prefix = f"{name}__"
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(
            f"sample_weight was given, but {last!r} takes none; use another estimator, "
            "or sample_weight=None."
        )
    return {f"{prefix}sample_weight": weight}
