"""Base of the classifier and the regressor of pictures."""

import sys
from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    as_like,
    astype,
    dtype_name,
    generator_from,
    is_numpy,
    on_gpu,
    products_in,
    rows_for_device,
    take_rows,
    to_numpy,
    warn_user,
)
from kaucus.contract import FollowsX, validate_data
from kaucus.estimators._kernel_input import map_rows, place_support
from kaucus.estimators._parameters import (
    BOOLEAN,
    MEMORY_BUDGET,
    NONE,
    NOT_NEGATIVE,
    POSITIVE,
    RANDOM_STATE,
    ChecksParameters,
    Constraint,
    count,
    is_whole,
    one_of,
)
from kaucus.estimators._progress import share_reporter
from kaucus.estimators._validation import check_weights, relative_weights
from kaucus.machines import (
    ALTERNATIVES,
    PICTURE_CS,
    PICTURE_GAMMAS,
    PictureModel,
    PicturePlan,
    Problem,
    fit_pictures,
    picture_decision_values,
)
from kaucus.pictures import (
    PRECISIONS,
    FilterBank,
    resolve_precision,
)
from kaucus.preprocessing import PatchDictionary
from kaucus.solvers import SolveInfo

AUTO = one_of("auto")
# How many filters "auto" is.
_FILTERS_CPU, _FILTERS_GPU = 512, 2048


def _are_grids(value) -> bool:
    several = isinstance(value, tuple) and len(value) > 0
    return several and all(is_whole(cells) and cells > 0 for cells in value)


GRIDS = Constraint(_are_grids, "a tuple of such numbers")


class PatchKernelBase(FollowsX, ChecksParameters, BaseEstimator):
    """Base of both: dictionary, search, fit and decision values.

    Parameters
    ----------
    n_filters : int or "auto"
        How many filters, shared out evenly among the sizes of patches. ``"auto"``:
        2,048 on a GPU, 512 elsewhere. More are better, and take longer.
    patch_sizes : int or sequence of int
        Side of a patch in pixels, or several of them, such as ``(4, 6, 9)``.
    image_shape : tuple of int or None
        ``(height, width)`` or ``(channels, height, width)``, in the order of the
        flattened row. None: guessed from 784, 1,024 or 3,072 columns; ``image_shape_``
        and ``verbose=1`` tell.
    gamma : float or "auto"
        Width of the kernel, for features whose mean squared norm is one.
    mirror : bool or "auto"
        Whether a picture and its mirror image are pooled together.
    threshold : float or "auto"
        Responses of a smaller size count as zero.
    pooling : int, tuple of int or "auto"
        Cells along each side; of a tuple, all these grids together.
    power : float or "auto"
        What pooled responses are raised to.
    combine : {"sum", "mean"}
        With several sizes of patches or grids of cells: the Gaussian of the summed
        distances, or the mean of the Gaussians of each.
    dictionary : {"random", "kmeans"}
        As in :class:`~kaucus.preprocessing.PatchDictionary`.
    whitening : float or None
        As in :class:`~kaucus.preprocessing.PatchDictionary`.
    n_representatives : int or None
        Pictures whose kernel columns all pictures are fitted on: a half of them drawn
        at random, then the hardest. None: all pictures, and the exact solution, where
        their matrix fits ``memory_budget``; as many as fit, elsewhere. As many as there
        are pictures: the exact solution too.
    precision : {"auto", "float64", "float32", "float16"}
        Of the responses to filters. ``"auto"``: float16 on a GPU, with tf32 products,
        and float32 elsewhere. Pictures stay in their own type; systems of equations are
        solved in float64.
    random_state : int, RandomState or Generator
        Draws the patches, the pictures of the search and the representatives.
    verbose : int
        1 tells a guessed shape and what was chosen, and shows progress on a terminal.

    Attributes
    ----------
    image_shape_ : tuple of int
        (channels, height, width).
    gamma_ : float
        The gamma in use.
    C_ : float
        The C in use.
    mirror_ : bool
        Whether mirror images are pooled.
    threshold_ : float
        The threshold in use.
    pooling_ : int or tuple of int
        The cells along each side in use.
    power_ : float
        The power in use.
    kernel_ : PatchKernel
        The kernel, with its filters and the moments of the features.
    X_fit_ : array of shape (n_representatives, n_features)
        The pictures whose kernel columns the model is made of.
    solver_ : str
        ``"cholesky"``: exact, of all pictures; ``"normal_equations"``: least squares on
        representatives.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    """

    _parameters: ClassVar = {
        "n_filters": count() | AUTO,
        "gamma": POSITIVE | AUTO,
        "C": POSITIVE | AUTO,
        "mirror": BOOLEAN | one_of("auto"),
        "threshold": NOT_NEGATIVE | AUTO,
        "pooling": count() | GRIDS | AUTO,
        "power": POSITIVE | AUTO,
        "combine": one_of("sum", "mean"),
        "n_representatives": count(least=2) | NONE,
        "precision": one_of(*PRECISIONS),
        "memory_budget": MEMORY_BUDGET,
        "random_state": RANDOM_STATE,
    }

    # Draws the patches, and knows the shape of pictures.
    _dictionary_class = PatchDictionary

    def _checked_weights(self, sample_weight, X) -> np.ndarray | None:
        """Return the weights of the pictures; only their ratios where C is chosen."""
        weight = check_weights(sample_weight, X)
        return relative_weights(weight) if _is_auto(self.C) else weight

    def _learn(self, problem: Problem) -> PictureModel:
        """Fit on the device; store the pictures, the coefficients, what was chosen."""
        rng, X = generator_from(self.random_state), problem.rows
        rows = rows_for_device(X, self.device, self.memory_budget)
        precision = resolve_precision(self.precision, rows)
        plan = self._plan(X, rows, precision, rng)
        with products_in("tf32" if precision == "float16" else None):
            model = fit_pictures(problem._replace(rows=rows), plan, rng)
        fitted = problem.targets.unit.restored(model.solution)
        kernel, chosen = model.kernel, model.chosen
        self.kernel_, self.gamma_, self.C_ = kernel, kernel.gamma, model.C
        self.mirror_, self.pooling_ = chosen["mirror"], chosen["cells"]
        self.threshold_, self.power_ = kernel.how.threshold, kernel.how.power
        self.search_results_ = _as_columns(model.results, model.chosen)
        self.X_fit_ = take_rows(X, as_like(model.rows, X))
        self.dual_coef_ = as_like(fitted.dual_coef, X)
        self.intercept_ = as_like(fitted.intercept, X)
        self._kept = model.kept
        self._report(model.solution.info)
        return model

    def _plan(self, X, rows, precision: str, rng) -> PicturePlan:
        """Make the filters; return the plan of the fit with what is left to choose."""
        few = _FILTERS_GPU if on_gpu(rows) else _FILTERS_CPU
        grids = self._choice("pooling", "cells")
        dictionary = self._dictionary_class(
            few if _is_auto(self.n_filters) else self.n_filters,
            self.patch_sizes,
            image_shape=self.image_shape,
            dictionary=self.dictionary,
            pooling=int(np.max(grids[0])),
            whitening=self.whitening,
            random_state=int(rng.integers(2**31)),
            verbose=self.verbose,
        ).fit(X)
        self.image_shape_ = dictionary.image_shape_
        pairs = zip(dictionary.filters_, dictionary.biases_, strict=True)
        banks = [FilterBank(to_numpy(f), to_numpy(b)) for f, b in pairs]
        return PicturePlan(
            dictionary.image_shape_,
            dictionary.pixel_range_,
            banks,
            precision,
            {
                "mirror": self._choice("mirror", "mirror"),
                "threshold": self._choice("threshold", "threshold"),
                "cells": _that_fit(grids, banks, self.image_shape_),
                "power": self._choice("power", "power"),
            },
            PICTURE_GAMMAS if _is_auto(self.gamma) else (float(self.gamma),),
            PICTURE_CS if _is_auto(self.C) else (float(self.C),),
            self.combine,
            self.n_representatives,
            self.memory_budget,
            lambda stage: share_reporter(self.verbose, stage),
        )

    def _choice(self, parameter: str, name: str) -> tuple:
        value = getattr(self, parameter)
        if isinstance(value, np.generic):
            value = value.item()
        return ALTERNATIVES[name] if _is_auto(value) else (value,)

    def _report(self, info: SolveInfo) -> None:
        """Store what ran, and warn once where the user must know."""
        self.solver_, self.solve_info_ = info.solver, info
        if info.solver == "cholesky" and info.jitter > 0:
            warn_user(
                f"K + I/C is not positive definite in {info.precision} at "
                f"C={self.C_:g}; {info.jitter:.1e} was added to its diagonal. Lower C, "
                "or take out repeated pictures.",
                LinAlgWarning,
            )
        if self.verbose:
            print(f"[kaucus] {self.explain()}", file=sys.stderr)

    def explain(self):
        """Say in words what the last fit has chosen, and how it was solved.

        Returns
        -------
        str
        """
        check_is_fitted(self, "dual_coef_")
        groups = [group for part in self.kernel_.parts for group in part]
        n_filters = sum({id(g.bank.filters): g.n_filters for g in groups}.values())
        cells = self.pooling_ if isinstance(self.pooling_, tuple) else (self.pooling_,)
        grids = ", ".join(f"{n} x {n}" for n in cells)
        n, exact = self.X_fit_.shape[0], self.solver_ == "cholesky"
        columns = f"all {n} pictures" if exact else f"{n} representatives"
        return (
            f"pictures of shape {self.image_shape_}, {n_filters} filters, {grids} "
            f"cells, mirror={self.mirror_}, threshold={self.threshold_:g}, "
            f"power={self.power_:g}, gamma={self.gamma_:g}, C={self.C_:g}, of "
            f"{len(self.search_results_['loss'])} trials by leave-one-out; kernel "
            f"columns of {columns}, solver={self.solver_!r}."
        )

    def _validate(self, X, y="no_validation", *, reset: bool, **options):
        """Return pictures in their own type of numbers (and ``y`` as NumPy array)."""
        checked = validate_data(self, X, y, reset=reset, dtype="numeric", **options)
        X, rest = (
            (checked[0], checked[1:]) if isinstance(checked, tuple) else (checked, ())
        )
        if dtype_name(X) in ("bool", "float16"):
            X = astype(X, "float32")
        return (X, *rest) if rest else X

    def _decision_values(self, X, dtype=None):
        """Return f(x), (n, t), in the kind of ``X``, and in its precision or ``dtype``.

        The precision of whole numbers is float32.
        """
        check_is_fitted(self, "dual_coef_")
        X = self._validate(X, reset=False)
        values = map_rows(self._values_on_device, X, self.device, self.memory_budget)
        if dtype is None:
            dtype = "float64" if dtype_name(X) == "float64" else "float32"
        return astype(values, dtype)

    def _values_on_device(self, rows):
        """Return f(x) of pictures on their device, (n, t), in float64."""
        budget = self.memory_budget
        support = place_support(self.X_fit_, rows, self.device, budget)
        if is_numpy(support) and not is_numpy(rows):
            support = as_like(support, rows)
        precision = self.kernel_.how.precision
        if precision == "float16" and not on_gpu(rows):
            precision = "float32"
        how = self.kernel_.how._replace(precision=precision)
        kernel = replace(self.kernel_, how=how, memory_budget=budget)
        with products_in("tf32" if precision == "float16" else None):
            return picture_decision_values(
                kernel,
                rows,
                support,
                as_like(self.dual_coef_, rows),
                as_like(self.intercept_, rows)[None, :],
                self._kept,
                share_reporter(self.verbose, "picture"),
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def with_weight(problem: Problem) -> Problem:
    """Return the problem of the pictures whose weight is above zero."""
    present = problem.present()
    return problem if len(present) == problem.n else problem.part(present)


def _is_auto(value) -> bool:
    return isinstance(value, str) and value == "auto"


def _that_fit(grids: tuple, banks: list[FilterBank], shape) -> tuple:
    """Return the grids that every picture has positions for, or the first."""
    smallest = min(min(shape[1] - b.size[0], shape[2] - b.size[1]) + 1 for b in banks)
    return tuple(g for g in grids if np.max(g) <= smallest) or grids[:1]


def _as_columns(results: list[dict], chosen: dict) -> dict[str, np.ndarray]:
    """Return records as columns, for a data frame."""
    names = ("mirror", "threshold", "cells", "power", "gamma", "C", "loss")
    results = [{**chosen, **row} for row in results]  # what is fixed is in no trial
    columns = {name: [row[name] for row in results] for name in names}
    cells = np.empty(len(results), dtype=object)
    cells[:] = columns.pop("cells")
    found = {name: np.array(values) for name, values in columns.items()}
    return {"pooling": cells, **found}
