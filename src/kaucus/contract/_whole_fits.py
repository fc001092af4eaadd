"""What Ctrl-C and errors leave behind: a whole model, or none.

The rule, for every estimator and transformer of this package. Ctrl-C during ``fit`` is
answered within about a second, in one of two ways:

- *A usable model is kept*, ``fit`` returns, and a ``ConvergenceWarning`` says what was
  kept. So do the iterative solvers after their first step, k-means and kernel k-means
  after the first assignment, least squares of many rows after the first block of rows,
  and a search by leave-one-out after the first C.
- *The estimator is not fitted*, also if it was before, and ``KeyboardInterrupt``
  reaches the caller. So everywhere else. docs/interrupts.md has a table.

``partial_fit`` that is interrupted keeps a model in the same way, or leaves the one
from before the call, and raises. An error in either leaves everything as it was.

How it is kept: the functions of the core return what they have, with
``interrupted=True``, or raise; an estimator tells of the first by a warning, and
:class:`WholeFits` takes care of the second. What is long and compiled is cut, or runs
in a thread (:func:`kaucus.backend.interruptible`).
"""

import functools
from typing import Any

from kaucus.contract._partitions import is_dask, refusal


class WholeFits:
    """Mixin of every estimator: ``fit`` leaves a whole model behind, or none."""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        for name in ("fit", "fit_transform", "partial_fit"):
            if name in vars(cls):
                anew = name != "partial_fit"
                setattr(cls, name, _whole(vars(cls)[name], begins_anew=anew))


def _whole(method: Any, *, begins_anew: bool) -> Any:
    """Return the method, with what it changed undone where it ends by an exception."""

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        X = args[0] if args else kwargs.get("X")
        if method.__name__ == "partial_fit" and is_dask(X):
            raise refusal(self, "partial_fit")
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            forget = begins_anew and not isinstance(error, Exception)
            # One assignment: a second Ctrl-C finds the one state or the other.
            self.__dict__ = _unfitted(before) if forget else before
            raise

    return wrapped


def _unfitted(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state without what scikit-learn knows a fitted estimator by."""
    return {name: value for name, value in state.items() if not name.endswith("_")}
