"""Checks of labels, weights and kernel matrices, before any long work.

Each error names the value it got, what was expected, and what to do.
"""

import numbers
from collections.abc import Iterable

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, column_or_1d

from kaucus.contract import on_host
from kaucus.estimators._ranges import check_targets, check_weight_range


def check_one_label_type(y) -> None:
    """Check that a list has no text beside numbers: NumPy would make all of it text."""
    if isinstance(y, list | tuple):
        _check_label_types(y)


def encode_labels(y) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and, for each row, the number of its class.

    Raises
    ------
    ValueError
        If the labels are continuous, of mixed types, or all equal.
    """
    y = column_or_1d(y)
    if y.dtype == object:
        _check_label_types(y)
        y = y if isinstance(y[0], str) else np.array(y.tolist())
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {kind}. y has values such as {y[:3].tolist()}; a "
            "classifier needs classes: whole numbers, texts or booleans. Use "
            "a regressor for numbers that are measured, or turn them into classes."
        )
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes.tolist()[0]!r}); a classifier needs at "
            "least two classes. Check how the training rows were chosen."
        )
    return classes, np.searchsorted(classes, y)  # no sort of millions of rows


def check_known_labels(y, classes, known) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of a stream, and the number of each row's class.

    Parameters
    ----------
    y : array-like of shape (n,)
    classes : array-like of shape (k,) or None
        What the caller says the classes are; needed where ``known`` is None.
    known : array of shape (k,) or None
        The classes of earlier calls.

    Raises
    ------
    ValueError
        If the classes are missing, change, or do not have a label of ``y``.
    """
    y = column_or_1d(y)
    if known is None and classes is None:
        raise ValueError(
            "partial_fit needs classes=, all labels that will ever come, at its first "
            "call; for example classes=np.unique(y_all)."
        )
    given = known if classes is None else np.unique(np.asarray(on_host(classes)))
    if known is not None and not np.array_equal(given, known):
        raise ValueError(
            f"classes={given.tolist()} is not what it was at the first call, "
            f"{known.tolist()}. Pass None, or fit anew."
        )
    if len(given) < 2:
        raise ValueError(
            f"classes={given.tolist()}; a classifier needs at least two classes."
        )
    new = np.setdiff1d(y, given)
    if new.size:
        raise ValueError(
            f"y has the labels {new.tolist()[:5]}, which are not among the classes "
            f"{given.tolist()}; name all classes at the first call of partial_fit."
        )
    return given, np.searchsorted(given, y)


def _check_label_types(labels: Iterable) -> None:
    kinds = sorted({_label_type(label) for label in labels})
    if len(kinds) < 2:
        return
    remedy = "Convert them, for example with [str(label) for label in y]."
    if "NoneType" in kinds:
        remedy = "Take out the rows whose label is None."
    raise ValueError(
        f"y mixes labels of the types {', '.join(kinds)}; labels must be of one "
        f"type. {remedy}"
    )


def _label_type(label: object) -> str:
    number = isinstance(label, numbers.Real | np.bool_)
    return "number" if number else type(label).__name__


def numeric_targets(y: np.ndarray) -> np.ndarray:
    """Return a regressor's targets as float64, (n, t).

    Raises
    ------
    ValueError
        If they are texts, even ones that can be read as numbers, or not finite.
    """
    if y.dtype.kind not in "fiub":
        raise ValueError(
            f"y has values such as {y[:1].tolist()[0]!r}, of dtype {y.dtype}; a "
            "regressor needs numbers. Convert them with y.astype(float), or use a "
            "classifier for labels."
        )
    targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    check_targets(targets)
    return targets


def check_weights(sample_weight, X) -> np.ndarray | None:
    """Return row weights as float64, zero or more and not all zero, or None."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(X.shape[0], float(sample_weight))
    weight = np.asarray(on_host(sample_weight))
    if weight.dtype.kind not in "fiubO":
        raise ValueError(
            f"sample_weight has values such as {weight.ravel()[:1].tolist()}; expected "
            f"numbers, one per row, shape ({X.shape[0]},)."
        )
    weight = check_array(
        weight,
        ensure_2d=False,
        allow_nd=True,
        dtype=np.float64,
        input_name="sample_weight",
    )
    if weight.shape != (X.shape[0],):
        raise ValueError(
            f"sample_weight has shape {weight.shape}; expected one weight per row of "
            f"X, shape ({X.shape[0]},)."
        )
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight has the negative value {weight.min():g}; weights must be "
            "zero or more. A weight of 0 passes over a row."
        )
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero for every row; give some row weight.")
    check_weight_range(weight)
    return weight


def relative_weights(weight: np.ndarray | None) -> np.ndarray | None:
    """Return weights over their mean; None where all are equal.

    For a fit that chooses C. A factor of all weights is one of C: without this it
    would move the values of C that there are to choose from.
    """
    if weight is None or np.ptp(weight) == 0:
        return None
    return weight / mean_weight(weight)


def mean_weight(weight: np.ndarray | None) -> float:
    """Return the mean weight of the rows that have one."""
    return 1.0 if weight is None else float(weight[weight > 0].mean())


def check_start_labels(labels, n_samples: int, n_clusters: int) -> np.ndarray:
    """Return the clusters in which an iteration is to begin, as int64."""
    given = np.asarray(on_host(labels))
    if given.shape != (n_samples,):
        raise ValueError(
            f"init has shape {given.shape}; expected the cluster of each row, shape "
            f"({n_samples},), or 'k-means++' or 'random'."
        )
    whole = given.dtype.kind in "iu" or (
        given.dtype.kind == "f" and bool((given == np.floor(given)).all())
    )
    if not whole or given.min() < 0 or given.max() >= n_clusters:
        raise ValueError(
            f"init has values such as {given[:3].tolist()}; expected the cluster of "
            f"each row, whole numbers from 0 to n_clusters - 1 = {n_clusters - 1}."
        )
    return given.astype(np.int64)


_IN_WORDS = {1: "one", 2: "two"}


def weights_with_classes(
    sample_weight: np.ndarray | None,
    class_weight,
    classes: np.ndarray,
    indices,
    *,
    at_least: int = 2,
) -> np.ndarray | None:
    """Multiply row weights by class weights; rows of some classes must remain.

    ``"balanced"`` counts rows with their weights. ``at_least`` is how many classes.
    """
    weight = sample_weight
    if class_weight is not None:
        balanced = isinstance(class_weight, str) and class_weight == "balanced"
        if not (balanced or isinstance(class_weight, dict)):
            raise ValueError(
                f"class_weight={class_weight!r} must be None, 'balanced' or a dict "
                "{class: weight}."
            )
        by_class = _class_weights(sample_weight, class_weight, classes, indices)
        weight = by_class if weight is None else weight * by_class
    if weight is not None:
        present = np.bincount(indices, weights=weight, minlength=len(classes)) > 0
        if present.sum() < at_least:
            raise ValueError(
                f"Of the classes {classes.tolist()} only {classes[present].tolist()} "
                f"have rows of positive weight; at least {_IN_WORDS[at_least]} must. "
                "Check sample_weight and class_weight."
            )
    check_weight_range(weight)
    return weight


def _class_weights(sample_weight, class_weight, classes, indices) -> np.ndarray:
    if isinstance(class_weight, dict):
        _check_class_weights(class_weight, classes)
        return compute_sample_weight(class_weight, classes[indices])
    weights = np.ones(len(indices)) if sample_weight is None else sample_weight
    counts = np.bincount(indices, weights=weights, minlength=len(classes))
    share = np.divide(1.0, counts, out=np.zeros_like(counts), where=counts > 0)
    return (counts.sum() / len(classes) * share)[indices]


def _check_class_weights(class_weight: dict, classes: np.ndarray) -> None:
    for label, weight in class_weight.items():
        if label not in classes.tolist():
            raise ValueError(
                f"class_weight has {label!r}, which is not a class of y; the classes "
                f"are {classes.tolist()}."
            )
        ok = isinstance(weight, numbers.Real) and np.isfinite(weight) and weight >= 0
        if not ok:
            raise ValueError(
                f"class_weight[{label!r}]={weight!r} must be a finite number, zero or "
                "more."
            )
