"""Names of methods in the tables -> unfitted scikit-learn estimators."""

from collections.abc import Mapping
from typing import Any

from kaucus.experiments._preprocessing import make_preprocessing
from kaucus.experiments._registry import METHODS, Named, look_up


def build_method(
    method: str,
    params: Mapping[str, Any],
    *,
    normalize: str | None = None,
    device: str | None = None,
    seed: int | None = None,
    memory_budget: int | str | None = None,
    methods: Mapping[str, Named] = METHODS,
) -> Any:
    """Build the unfitted estimator of a cell.

    Parameters
    ----------
    method : str
        A name in ``methods``.
    params : mapping
        Parameters of the estimator.
    normalize : str, default=None
        What is put before it, a name in ``PREPROCESSING``; ``"unit"`` is
        :class:`~kaucus.preprocessing.UnitNormalizer`.
    device : str, default=None
        Where the estimator computes; None leaves that to the data.
    seed : int, default=None
        Its ``random_state``, if it has one.
    memory_budget : int or str, default=None
        Its ``memory_budget``; None leaves the estimator's own.
    methods : mapping, default=METHODS
        Registry of names.

    Returns
    -------
    estimator
        Ready to be fitted.

    Raises
    ------
    ValueError
        When the method is unknown, or has no such device or budget.
    """
    estimator = look_up(method, methods)(**params)
    if "random_state" not in params:
        _set_everywhere(estimator, "random_state", seed)
    for name, value in (("device", device), ("memory_budget", memory_budget)):
        if value is None:
            continue
        if not _set_everywhere(estimator, name, value):
            raise ValueError(
                f"{name}={value!r} was asked for, but method {method!r} has no such "
                f"parameter; leave the {name} out for it."
            )
    return _normalized(estimator, normalize)


def _set_everywhere(estimator: Any, name: str, value: Any) -> bool:
    """Set a parameter of an estimator and of those inside it; tell if any has it."""
    known = estimator.get_params(deep=True)
    found = [key for key in known if key == name or key.endswith(f"__{name}")]
    estimator.set_params(**dict.fromkeys(found, value))
    return bool(found)


def _normalized(estimator: Any, normalize: str | None) -> Any:
    """Put the asked normalisation before the estimator."""
    if normalize is None:
        return estimator
    from sklearn.pipeline import make_pipeline

    return make_pipeline(*make_preprocessing(normalize), estimator)
