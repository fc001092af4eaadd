"""Kernel machines of pictures."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from kaucus import _base as base
from kaucus._array import namespace as nx
from kaucus._array.blocks import budget_to_have, format_bytes, resolve_budget
from kaucus._array.rows import rows_for_device
from kaucus.estimators._predict import (
    ClassifierPredictions,
    RegressorPredictions,
    labels_at,
)
from kaucus.estimators.kmeans_kernel import KMeansKernelClassifier
from kaucus.fitting._pictures import (
    ALTERNATIVES,
    PICTURE_CS,
    PICTURE_GAMMAS,
    PictureModel,
    PicturePlan,
    fit_pictures,
    picture_decision_values,
)
from kaucus.fitting._problem import (
    ClassTargets,
    NumberTargets,
    Problem,
    all_classes,
    of_rows,
)
from kaucus.kernels._patches import (
    PRECISIONS,
    PictureFeatures,
    n_positions,
    resolve_precision,
)
from kaucus.preprocessing.images import (
    PatchDictionary,
    banks_of,
    iter_patches,
    patch_view,
)
from kaucus.solvers._system import SolveInfo, classification_score

# ----------------------------------------------------------------------------------
# Base of the classifier and the regressor of pictures.
# ----------------------------------------------------------------------------------

AUTO = base.one_of("auto")
# How many filters "auto" is.
_FILTERS_CPU, _FILTERS_GPU = 512, 2048


GRIDS = base.Constraint(
    lambda value: (
        isinstance(value, tuple)
        and len(value) > 0
        and all(base.is_whole(cells) and cells > 0 for cells in value)
    ),
    "a tuple of such numbers",
)


class PatchKernelBase(base.FollowsX, BaseEstimator):
    """Base of PatchKernelClassifier and PatchKernelRegressor.

    Parameters
    ----------
    n_filters : int or "auto"
        How many filters, shared out evenly among the sizes of patches. ``"auto"``:
        2,048 on a GPU, 512 elsewhere. More are better, and take longer.
    patch_sizes : int or sequence of int
        Side of a patch in pixels, or several of them, such as ``(4, 6, 9)``.
    image_shape : tuple of int or None
        ``(height, width)`` or ``(channels, height, width)``; None: guessed.
        Rows are flattened in that order. Shapes of 784, 1,024 and 3,072 columns are
        guessed; ``image_shape_`` and ``verbose=1`` show them.
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
        1 prints a guessed shape and what was chosen, and shows progress on a terminal.

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
        "n_filters": base.count() | AUTO,
        "gamma": base.POSITIVE | AUTO,
        "C": base.POSITIVE | AUTO,
        "mirror": base.BOOLEAN | base.one_of("auto"),
        "threshold": base.NOT_NEGATIVE | AUTO,
        "pooling": base.count() | GRIDS | AUTO,
        "power": base.POSITIVE | AUTO,
        "combine": base.one_of("sum", "mean"),
        "n_representatives": base.count(least=2) | base.NONE,
        "precision": base.one_of(*PRECISIONS),
        "memory_budget": base.MEMORY_BUDGET,
        "random_state": base.RANDOM_STATE,
    }

    # Draws the patches, and knows the shape of pictures.
    _dictionary_class = PatchDictionary

    def _checked_weights(self, sample_weight, X) -> np.ndarray | None:
        """Return the weights of the pictures; only their ratios where C is chosen."""
        weight = base.check_weights(sample_weight, X)
        return base.relative_weights(weight) if base.is_auto(self.C) else weight

    def _learn(self, problem: Problem) -> PictureModel:
        """Fit on the device; store pictures, coefficients and chosen parameters."""
        rng, X = base.generator_from(self.random_state), problem.rows
        rows = rows_for_device(X, self.device, self.memory_budget)
        precision = resolve_precision(self.precision, rows)
        plan = self._plan(X, rows, precision, rng)
        with nx.products_in("tf32" if precision == "float16" else None):
            model = fit_pictures(replace(problem, rows=rows), plan, rng)
        fitted = problem.targets.unit.restored(model.solution)
        kernel, chosen = model.kernel, model.chosen
        self.kernel_, self.gamma_, self.C_ = kernel, kernel.gamma, model.C
        self.mirror_, self.pooling_ = chosen["mirror"], chosen["cells"]
        self.threshold_, self.power_ = kernel.how.threshold, kernel.how.power
        self.search_results_ = _as_columns(model.results, model.chosen)
        self.X_fit_ = nx.take_rows(X, nx.as_like(model.rows, X))
        self.dual_coef_ = nx.as_like(fitted.dual_coef, X)
        self.intercept_ = nx.as_like(fitted.intercept, X)
        self._kept = model.kept
        self._report(model.solution.info)
        return model

    def _plan(self, X, rows, precision: str, rng) -> PicturePlan:
        """Make the filters; return the plan of the fit."""
        few = _FILTERS_GPU if nx.on_gpu(rows) else _FILTERS_CPU
        choices = {}
        for name, values in ALTERNATIVES.items():
            value = getattr(self, "pooling" if name == "cells" else name)
            value = value.item() if isinstance(value, np.generic) else value
            choices[name] = values if base.is_auto(value) else (value,)
        grids = choices["cells"]
        dictionary = self._dictionary_class(
            few if base.is_auto(self.n_filters) else self.n_filters,
            self.patch_sizes,
            image_shape=self.image_shape,
            dictionary=self.dictionary,
            pooling=int(np.max(grids[0])),
            whitening=self.whitening,
            random_state=int(rng.integers(2**31)),
            verbose=self.verbose,
        ).fit(X)
        self.image_shape_, banks = dictionary.image_shape_, banks_of(dictionary)
        # The grids that every picture has positions for, or the first.
        positions = [min(n_positions(self.image_shape_, bank.size)) for bank in banks]
        fitting = tuple(cells for cells in grids if np.max(cells) <= min(positions))
        choices["cells"] = fitting or grids[:1]
        return PicturePlan(
            PictureFeatures.of(dictionary, precision),
            banks,
            choices,
            PICTURE_GAMMAS if base.is_auto(self.gamma) else (float(self.gamma),),
            PICTURE_CS if base.is_auto(self.C) else (float(self.C),),
            self.combine,
            self.n_representatives,
            self.memory_budget,
            lambda stage: base.share_reporter(self.verbose, stage),
        )

    def _report(self, info: SolveInfo) -> None:
        """Store the solver's report, and warn of an added jitter."""
        self.solver_, self.solve_info_ = info.solver, info
        if info.solver == "cholesky" and info.jitter > 0:
            nx.warn_user(
                f"K + I/C is not positive definite in {info.precision} at "
                f"C={self.C_:g}; {info.jitter:.1e} was added to its diagonal. Lower C, "
                "or take out repeated pictures.",
                LinAlgWarning,
            )
        if self.verbose:
            print(f"[kaucus] {self.explain()}", file=sys.stderr)

    def explain(self) -> str:
        """Return a description of the chosen parameters and of the solver.

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
        parts = {
            "pictures": f"pictures of shape {self.image_shape_}, {n_filters} filters, "
            f"{grids} cells, mirror={self.mirror_}, threshold={self.threshold_:g},",
            "chosen": f"power={self.power_:g}, gamma={self.gamma_:g}, C={self.C_:g}, "
            f"of {len(self.search_results_['loss'])} trials by leave-one-out;",
            "solver": f"kernel columns of {columns}, solver={self.solver_!r}.",
        }
        return self._told(parts)

    def _validate(self, X, y="no_validation", *, reset: bool, **options):
        """Return pictures in their own type of numbers (and ``y`` as NumPy array)."""
        checked = base.validate_data(
            self, X, y, reset=reset, dtype="numeric", **options
        )
        X, *rest = checked if isinstance(checked, tuple) else (checked,)
        if nx.dtype_name(X) in ("bool", "float16"):
            X = nx.astype(X, "float32")
        return (X, *rest) if rest else X

    def _decision_values(self, X, dtype=None):
        """Return f(x), (n, t), in the kind of ``X``, and in its precision or ``dtype``.

        The precision of whole numbers is float32.
        """
        check_is_fitted(self, "dual_coef_")
        X = self._validate(X, reset=False)
        values = self._map_rows(self._values_on_device, X)
        if dtype is None:
            dtype = "float64" if nx.dtype_name(X) == "float64" else "float32"
        return nx.astype(values, dtype)

    def _values_on_device(self, rows):
        """Return f(x) of pictures on their device, (n, t), in float64."""
        budget = self.memory_budget
        support = base.place_support(self.X_fit_, rows, self.device, budget)
        if nx.is_numpy(support) and not nx.is_numpy(rows):
            support = nx.as_like(support, rows)
        precision = self.kernel_.how.precision
        if precision == "float16" and not nx.on_gpu(rows):
            precision = "float32"
        how = self.kernel_.how._replace(precision=precision)
        kernel = replace(self.kernel_, how=how, memory_budget=budget)
        with nx.products_in("tf32" if precision == "float16" else None):
            return picture_decision_values(
                kernel,
                rows,
                support,
                nx.as_like(self.dual_coef_, rows),
                nx.as_like(self.intercept_, rows)[None, :],
                self._kept,
                base.share_reporter(self.verbose, "picture"),
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def with_weight(problem: Problem) -> Problem:
    """Return the problem of the pictures whose weight is above zero."""
    present = problem.present()
    return problem if len(present) == problem.n else problem.part(present)


def _as_columns(results: list[dict], chosen: dict) -> dict[str, np.ndarray]:
    """Return records as columns, for a data frame."""
    names = ("mirror", "threshold", "cells", "power", "gamma", "C", "loss")
    results = [{**chosen, **row} for row in results]  # what is fixed is in no trial
    columns = {name: [row[name] for row in results] for name in names}
    cells = np.empty(len(results), dtype=object)
    cells[:] = columns.pop("cells")
    found = {name: np.array(values) for name, values in columns.items()}
    return {"pooling": cells, **found}


# ----------------------------------------------------------------------------------
# Classifier and regressor of pictures by a kernel of their patches.
# ----------------------------------------------------------------------------------


class PatchKernelClassifier(ClassifierPredictions, PatchKernelBase):
    """Classifier of pictures: a Gaussian kernel of patches, and a least-squares SVM.

    Features of a picture are its responses to a dictionary of random patches of the
    training pictures, pooled over a few cells
    (:class:`~kaucus.preprocessing.PatchDictionary`). A Gaussian kernel of these
    features is summed over blocks of filters, so that the features never exist at
    once, and the least-squares SVM is solved exactly where the matrix of all pictures
    fits ``memory_budget``. No network, no gradients, no iterations.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Inverse strength of the regularisation, H = K + I/C. ``"auto"``: that of the
        least leave-one-out log-loss.

    Attributes
    ----------
    search_results_ : dict of ndarrays
        What was tried, a row for each, and its leave-one-out log-loss. For
        ``pandas.DataFrame(model.search_results_)``.
    loo_score_ : float
        Leave-one-out accuracy of the model on 2,000 of its pictures (10,000 on a GPU).
    dual_coef_ : ndarray of shape (n_representatives, n_targets)
        Their coefficients; n_targets is 1 for two classes, else n_classes.
    intercept_ : ndarray of shape (n_targets,)
        b.

    See Also
    --------
    PatchKernelRegressor : The same for numbers.
    PatchVotingClassifier : Any classifier on patches, and a vote.
    kaucus.preprocessing.PatchDictionary : The features, for any other estimator.

    Notes
    -----
    What is ``"auto"`` is chosen by the leave-one-out log-loss of up to 2,500 training
    pictures (10,000 on a GPU), each parameter in its turn. Mirror images and other
    values of threshold, pooling and power are taken where they are better by twice the
    standard error of the difference.

    n pictures, m filters, q cells: n m H W c p² multiplications for the responses,
    n² m q for the inner products, n³/3 for the solution; n² numbers of float32, and
    copies that the solver makes. Features are kept for predictions where a quarter of
    the budget holds them, and are in no pickle.

    References
    ----------
    A. Coates, H. Lee, A. Y. Ng, "An analysis of single-layer networks in unsupervised
    feature learning", AISTATS (2011).

    M. Andrecut, "K-Means Kernel Classifier" (2020), whose patches and representatives
    this carries on.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kaucus import PatchKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PatchKernelClassifier(64, 3, image_shape=(8, 8), random_state=0)
    >>> model.fit(X[:600], y[:600]).score(X[600:], y[600:]) > 0.95
    True
    >>> model.mirror_
    False
    """

    probability = "softmax"

    @base.stored
    def __init__(
        self,
        n_filters: int | Literal["auto"] = "auto",
        patch_sizes: int | Sequence[Any] = 6,
        *,
        image_shape: Sequence[int] | None = None,
        gamma: float | Literal["auto"] = "auto",
        C: float | Literal["auto"] = "auto",
        mirror: bool | Literal["auto"] = "auto",
        threshold: float | Literal["auto"] = 1.0,
        pooling: int | Literal["auto"] | Sequence[Any] = 3,
        power: float | Literal["auto"] = 0.5,
        combine: Literal["sum", "mean"] = "sum",
        dictionary: Literal["random", "kmeans"] = "random",
        whitening: float | None = 0.1,
        n_representatives: int | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        device: str | None = None,
        precision: Literal["auto", "float64", "float32", "float16"] = "auto",
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None) -> Self:
        """Make the filters, search the open parameters, and fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened picture, of numbers of any type; uint8 is best.
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each picture: its weight multiplies its squared error. A factor
            of all weights is one of C, and changes nothing with ``C="auto"``. Of
            pictures of weight 0 no patch is drawn either; where there are some, the
            others are copied.

        Returns
        -------
        self : PatchKernelClassifier
        """
        self._check_parameters()
        X, indices = self._validate_labels(X, y)
        weight = self._checked_weights(sample_weight, X)
        targets = ClassTargets(indices, len(self.classes_), self._weights)
        problem = with_weight(Problem.of(X, targets, weight))
        model = self._learn(problem)
        loo, rows = model.solution.loo_decision, model.unseen_rows
        labels, judged = problem.targets.values[rows], of_rows(problem.fit_weight, rows)
        self._calibrate(loo, labels, judged)
        values = all_classes(nx.to_numpy(loo))
        self.loo_score_ = classification_score(values, labels, "accuracy", judged).value
        return self

    def _weights(self, weight, indices):
        """Return the weights of pictures times those of their classes."""
        return base.weights_with_classes(
            weight, self.class_weight, self.classes_, indices
        )


class PatchKernelRegressor(RegressorPredictions, PatchKernelBase):
    """Regressor of pictures: a Gaussian kernel of patches, and a least-squares SVM.

    As :class:`PatchKernelClassifier`, for one or several numbers of each picture: an
    angle, an age, a position. What is left open is chosen by the leave-one-out squared
    error.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Inverse strength of the regularisation, H = K + I/C. ``"auto"``: that of the
        least leave-one-out squared error.

    Attributes
    ----------
    search_results_ : dict of ndarrays
        What was tried, a row for each, and its leave-one-out squared error, for outputs
        of unit variance.
    loo_score_ : float
        Leave-one-out R² of the model on 2,000 of its pictures (10,000 on a GPU).
    dual_coef_ : ndarray of shape (n_representatives, n_outputs)
        Their coefficients.
    intercept_ : ndarray of shape (n_outputs,)
        b.

    See Also
    --------
    PatchKernelClassifier : The same for classes.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kaucus import PatchKernelRegressor
    >>> X, _ = load_digits(return_X_y=True)
    >>> ink = X.mean(axis=1)
    >>> model = PatchKernelRegressor(32, 3, image_shape=(8, 8), random_state=0)
    >>> model.fit(X[:300], ink[:300]).score(X[300:], ink[300:]) > 0.5
    True
    """

    @base.stored
    def __init__(
        self,
        n_filters: int | Literal["auto"] = "auto",
        patch_sizes: int | Sequence[Any] = 6,
        *,
        image_shape: Sequence[int] | None = None,
        gamma: float | Literal["auto"] = "auto",
        C: float | Literal["auto"] = "auto",
        mirror: bool | Literal["auto"] = "auto",
        threshold: float | Literal["auto"] = 1.0,
        pooling: int | Literal["auto"] | Sequence[Any] = 3,
        power: float | Literal["auto"] = 0.5,
        combine: Literal["sum", "mean"] = "sum",
        dictionary: Literal["random", "kmeans"] = "random",
        whitening: float | None = 0.1,
        n_representatives: int | None = None,
        device: str | None = None,
        precision: Literal["auto", "float64", "float32", "float16"] = "auto",
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None) -> Self:
        """Make the filters, search the open parameters, and fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened picture, of numbers of any type.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each picture: its weight multiplies its squared error. A factor
            of all weights is one of C, and changes nothing with ``C="auto"``. Of
            pictures of weight 0 no patch is drawn either; where there are some, the
            others are copied.

        Returns
        -------
        self : PatchKernelRegressor
        """
        self._check_parameters()
        X, Y = self._validate_outputs(X, y)
        weight = self._checked_weights(sample_weight, X)
        targets = NumberTargets.of(Y, 1, weight)
        problem = with_weight(Problem.of(X, targets, weight))
        model = self._learn(problem)
        unseen = problem.targets.values[model.unseen_rows]
        judged = of_rows(problem.fit_weight, model.unseen_rows)
        squares = (nx.to_numpy(model.solution.loo_decision) - unseen) ** 2
        spread = (unseen - np.average(unseen, axis=0, weights=judged)) ** 2
        lost = np.average(squares, axis=0, weights=judged)
        spread = np.maximum(np.average(spread, axis=0, weights=judged), 1e-300)
        self.loo_score_ = float(np.mean(1 - lost / spread))
        return self


# ----------------------------------------------------------------------------------
# Classify images by a vote of their patches.
# ----------------------------------------------------------------------------------

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
    base.FollowsX, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
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
        Bytes, or a string such as ``"8GiB"``; None is three quarters of what is free.
        All patches are held in ``fit``, blocks of them in ``predict``. What they leave
        is the ``memory_budget`` of the estimator, where it has one that is None.
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
    >>> model.fit(X[:400], y[:400]).n_patches_
    4
    >>> model.score(X[400:600], y[400:600]) > 0.9
    True
    """

    score = base.score
    _parameters: ClassVar = {
        "voting": base.one_of("majority", "sum"),
        "memory_budget": base.MEMORY_BUDGET,
    }

    @base.stored
    def __init__(
        self,
        estimator: Any = None,
        *,
        patch_size: int | Sequence[int] | None = None,
        image_shape: Sequence[int] | None = None,
        voting: Literal["majority", "sum"] = "majority",
        memory_budget: int | str | None = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None) -> Self:
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
        base.check_one_label_type(y)
        X, y = self._validate(X, y, reset=True)
        self.classes_, indices = base.encode_labels(y)
        weight = base.check_weights(sample_weight, X)
        base.weights_with_classes(weight, None, self.classes_, indices)
        # Of one image, whatever the kind of X: how many patches, of how many pixels.
        one = patch_view(np.arange(X.shape[1])[None], self.image_shape, self.patch_size)
        n_axes = 1 if self.image_shape is None else 2
        self.n_patches_ = math.prod(one.shape[1 : 1 + n_axes])
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
            name = _weight_argument(estimator)
            options = {name: np.repeat(weight, self.n_patches_)}
        self.estimator_ = estimator.fit(patches, labels, **options)
        return self

    @base.rowwise
    def predict(self, X) -> np.ndarray:
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
        winners = nx.array_namespace(votes).argmax(votes, axis=1)
        return labels_at(self.classes_, winners, votes)

    @base.rowwise
    def decision_function(self, X) -> np.ndarray:
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

    @base.available_if(_can_give_probabilities)
    @base.rowwise
    def predict_proba(self, X) -> np.ndarray:
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
            xp = nx.array_namespace(votes)
            least = xp.min(votes, axis=1, keepdims=True)
            votes = votes - xp.where(least < 0, least, xp.zeros_like(least))
            return votes / xp.sum(votes, axis=1, keepdims=True)
        parts = self._map_patches(X, lambda rows: self.estimator_.predict_proba(rows))
        return nx.joined([nx.array_namespace(p).mean(p, axis=1) for p in parts])

    def _votes(self, X):
        """Return the votes of the patches for each class, (n, k)."""
        count = _majority if self.voting == "majority" else _sum
        return nx.joined([count(v) for v in self._map_patches(X, self._values)])

    def _map_patches(self, X, function):
        """Yield ``function(patches)`` of each block of images, (images, patches, k)."""
        check_is_fitted(self, "estimator_")
        X = self._validate(X, reset=False)
        report = base.share_reporter(self.verbose, "image")
        # The estimator makes copies of what it is given.
        budget = min(resolve_budget(self.memory_budget, X) // 4, 2**29)
        size, shape = self.patch_size, (-1, self.n_patches_, len(self.classes_))
        blocks = iter_patches(X, self.image_shape, size, memory_budget=budget)
        for rows, patches in blocks:
            values = nx.as_like(function(patches), X)
            yield nx.array_namespace(values).reshape(values, shape)
            if report is not None:
                report(rows.stop, X.shape[0])

    def _values(self, patches):
        """Return decision values of patches for each class, (n_patches, k)."""
        estimator = self.estimator_
        if hasattr(estimator, "decision_function"):
            values = estimator.decision_function(patches)
            shape = (patches.shape[0], -1)
            return all_classes(nx.array_namespace(values).reshape(values, shape))
        if hasattr(estimator, "predict_proba"):
            return estimator.predict_proba(patches)
        labels = np.asarray(base.on_host(estimator.predict(patches)))
        return np.asarray(labels[:, None] == self.classes_, float)

    def _validate(self, X, y="no_validation", *, reset: bool):
        # A classifier's fit needs two rows, its predict one.
        checked = base.validate_data(
            self, X, y, reset=reset, dtype="numeric", ensure_min_samples=1 + reset
        )
        X, *rest = checked if isinstance(checked, tuple) else (checked,)
        if "float" not in nx.dtype_name(X):
            X = nx.astype(X, "float32" if nx.itemsize(X) <= 2 else "float64")
        return (X, *rest) if rest else X

    def _new_estimator(self, patch_bytes: int, X):
        """Return the estimator to be fitted, with the memory that the patches leave."""
        estimator = self.estimator
        if estimator is None:
            estimator = KMeansKernelClassifier(learn_metric=False)
        estimator = clone(estimator)
        if self.memory_budget is None:
            return estimator
        left = resolve_budget(self.memory_budget, X) - patch_bytes
        budgets = {
            name: budget_to_have(left, X)
            for name, value in estimator.get_params().items()
            if name.split("__")[-1] == "memory_budget" and value is None
        }
        return estimator.set_params(**budgets)

    def _patch_bytes(self, X, n_values: int) -> int:
        """Return the bytes of all patches; raise MemoryError beyond the budget."""
        budget = resolve_budget(self.memory_budget, X)
        needed = X.shape[0] * n_values * nx.itemsize(X)
        if needed > _PATCH_SHARE * budget:
            raise MemoryError(
                f"{X.shape[0] * self.n_patches_} patches take {format_bytes(needed)}, "
                f"and the estimator needs memory of its own; memory_budget allows "
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


def _sum(values):
    """Return the sums of decision values over patches, (n, k), of (n, p, k)."""
    return nx.array_namespace(values).sum(values, axis=1)


def _majority(values):
    """Return votes, with a fraction between −½ and ½ by which ties are decided."""
    xp, k = nx.array_namespace(values), values.shape[2]
    classes = xp.arange(k, device=nx.device_of(values))
    votes = xp.argmax(values, axis=2)[:, :, None] == classes[None, None, :]
    sums = nx.astype(_sum(values), "float64")
    return _sum(nx.astype(votes, "float64")) + sums / (2 * (xp.abs(sums) + 1) + 1e-9)


def _weight_argument(estimator) -> str:
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
    return f"{prefix}sample_weight"
