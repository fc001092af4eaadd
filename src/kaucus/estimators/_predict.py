"""Predictions: classes, probabilities, sets, values, intervals."""

import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from kaucus import _base as base
from kaucus._array import namespace as nx
from kaucus._array.blocks import format_bytes, resolve_budget, row_blocks
from kaucus._array.rows import resident_bytes
from kaucus.fitting._problem import (
    NO_UNIT,
    Model,
    Problem,
    TargetUnit,
    all_classes,
    one_vs_rest_targets,
)
from kaucus.solvers._blocks import Start
from kaucus.solvers._columns import RowData
from kaucus.solvers._left_out import (
    LeftOutModels,
    check_enough_rows,
    class_scores,
    leave_out_on_representatives,
    leave_out_rows,
    left_out_intervals,
    left_out_sets,
    move_left_out,
    split_sets,
    widened_intervals,
)
from kaucus.solvers._system import fit_temperature, softmax, sum_of_exponentials

# ----------------------------------------------------------------------------------
# What a fitted model keeps so that its leave-one-out models can be asked for.
#
# A fit costs and keeps nothing more for them: targets and weights are remembered, rows
# are referred to. The factor that all leave-one-out models share is made when it is
# first asked for, at the price of one solution of the system, and stays until the next
# fit. Files of a model have neither.
# ----------------------------------------------------------------------------------

# Of the blocks in which new rows meet all leave-one-out models: kernel columns, what
# is solved for, influences and copies of these.
_BLOCK_BYTES, _NUMBERS = 256 * 2**20, 6
# Training rows that a model on representatives keeps from being freed.
_MOST_KEPT = 512 * 2**20
_DIRECT = ("cholesky", "eigh", "normal_equations")
_NOT_IN_FILES = (
    "a file or copy of a model does not have its training rows; fit again to have them"
)


@dataclass(frozen=True, eq=False)
class Training:
    """The solved problem, for leave-one-out models."""

    values: np.ndarray
    """Targets in ``unit``, (n, t), or numbers of classes, (n,)."""
    weight: np.ndarray | None
    """In the least squares, (n,)."""
    C: float
    rows: Any = None
    """(n, d), or a given kernel matrix; None: the rows that the model keeps."""
    unit: TargetUnit = NO_UNIT


def _is_level(value: Any) -> bool:
    if isinstance(value, str) or np.ndim(value) > 1:
        return False
    levels = [base.as_float(v) for v in np.atleast_1d(np.asarray(value, dtype=object))]
    return len(levels) > 0 and all(0 < level < 1 for level in levels)


LEVELS = base.Constraint(_is_level, "a number between 0 and 1, or a sequence of such")


def levels_of(confidence_level: Any) -> list[float]:
    """Return the levels as a list, checked."""
    LEVELS.advise("Try 0.9.").check("confidence_level", confidence_level)
    return [float(v) for v in np.atleast_1d(confidence_level)]


def of_levels(found: Any, confidence_level: Any) -> Any:
    """Return intervals or sets, without the axis of levels for a single level."""
    return found if np.ndim(confidence_level) else found[:, :, 0]


class KnowsLeftOut:
    """Mixin of estimators that know every leave-one-out model in closed form."""

    _training: Training | None = None
    _no_training = "it was not fitted to rows"
    """Why there is none."""
    _left_out: LeftOutModels | None = None
    _calibration: Any = None
    """Residuals or decision values of rows held out; None before ``conformalize``."""
    _is_sent = False
    """Whether this is a copy for a worker, which takes the models along."""

    @property
    def is_conformalized_(self) -> bool:
        """Whether :meth:`conformalize` was given rows since the last fit."""
        return self._calibration is not None

    def _remember(self, training: Training | None, reason: str = "") -> None:
        """Store the problem of a fit, or the reason why intervals are impossible."""
        if training is not None:  # what is the caller's may change
            training = replace(
                training,
                values=np.array(training.values),
                weight=None if training.weight is None else np.array(training.weight),
                rows=None if training.rows is None else nx.owned(training.rows),
            )
        self._training, self._no_training = training, reason
        self._left_out = self._calibration = None

    def _remember_fit(self, X, values, C: float, weight, unit=NO_UNIT) -> None:
        """Keep the problem of an LS-SVM of all rows."""
        rows = X if self._precomputed else None  # X_fit_ has them
        self._remember(Training(values, weight, C, rows, unit))

    def _remember_represented(self, X, problem: Problem, model: Model) -> None:
        """Keep the problem of a model on representatives, where all rows count."""
        targets, weight = problem.targets, problem.fit_weight
        if model.solution.info.solver == "quantiles":
            self._remember(None, "loss='quantile' is no least squares")
        elif model.fit_rows is not None:
            self._remember(None, "fit_on='boundary' fits rows that are not like others")
        elif (n_bytes := resident_bytes(X)) > _MOST_KEPT:
            self._remember(
                None,
                f"the training rows take {format_bytes(n_bytes)}, and a model keeps no "
                f"more than {format_bytes(_MOST_KEPT)} of them in memory",
            )
        elif model.solution.info.solver == "normal_equations":
            given = (targets.values, weight, model.C, X, targets.unit)
            self._remember(Training(*given))
        elif model.order is not None:
            values = targets.values[model.order]
            weight = targets.like(values).fit_weights(None)
            self._remember(Training(values, weight, model.C, None, targets.unit))
        else:
            self._remember(None, "fit_on='representatives' fits centres, not rows")

    def _left_out_models(self) -> LeftOutModels:
        """Return the leave-one-out models, made at the first call."""
        check_is_fitted(self, "dual_coef_")
        if self._left_out is None:
            self._check_has_left_out()
            with nx.products_in(None):
                self._left_out = self._make_left_out()
        return self._left_out

    def _check_has_left_out(self) -> None:
        """Raise where the fit has no leave-one-out models in closed form."""
        info, reason = self.solve_info_, self._no_training
        if self._training is not None:
            if info.solver in _DIRECT:
                return
            reason = f"solver={info.solver!r} approximates one model by iterations"
        raise ValueError(
            "Leave-one-out models are not known: "
            f"{reason}. Hold rows out and use method='split': "
            "model.conformalize(X_held_out, y_held_out)."
        )

    def _make_left_out(self) -> LeftOutModels:
        """Return the leave-one-out models, by solving the system of the fit again."""
        training = self._training
        support = None if self._precomputed else self._support_rows()
        represented = self.solve_info_.solver == "normal_equations"
        given = training.rows if training.rows is not None else support
        kernel, rows = self._kernel_and_rows(self.kernel_, given)
        like = rows
        if represented:
            like = points = base.on_device(nx.as_like(support, rows), self.device)
        Y = nx.as_like(self._target_columns(training.values), like)
        data = RowData(kernel, rows, Y, nx.as_like(training.weight, Y))
        options = {"C": training.C, "memory_budget": self.memory_budget}
        if not represented:
            return _in_unit(leave_out_rows(data, **options), training.unit)
        fitted = training.unit.standardised(Start(self.dual_coef_, self.intercept_))
        fitted = (nx.as_like(part, Y) for part in fitted)
        rng = base.generator_from(self.random_state)
        models = leave_out_on_representatives(data, points, *fitted, rng=rng, **options)
        return _in_unit(models, training.unit)

    def _target_columns(self, values: np.ndarray) -> np.ndarray:
        """Return the columns of the least squares, (n, t)."""
        return values

    def _over_left_out(self, X, function):
        """Return a function of blocks of rows and all leave-one-out models.

        ``function(f, models, x, K)`` takes decision values, (b, t), the models, rows
        and their kernel columns.
        """
        X = self._validate(X, reset=False)
        made = self._left_out_models()

        def of_rows(rows):
            models = move_left_out(made, rows)
            n = models.left_out.residuals.shape[0]
            budget = resolve_budget(self.memory_budget, models.left_out.residuals)
            limit = min(budget // 4, _BLOCK_BYTES)
            parts = [
                function(*self._columns_of(rows[block, :], models))
                for block in row_blocks(rows.shape[0], 8 * n * _NUMBERS, limit)
            ]
            return nx.joined(parts)

        if self._precomputed:
            return of_rows(X)
        return self._map_rows(of_rows, X)

    def _columns_of(self, rows, models: LeftOutModels):
        """Return decision values, models, rows and their kernel columns."""
        if self._precomputed:
            K = nx.astype(rows, "float64")
            f = K @ nx.as_like(self.dual_coef_, K) + nx.as_like(self.intercept_, K)
            return f, models, rows, K
        return self._values_on_device(rows), models, rows, models.columns(rows)

    # ---- copies ----------------------------------------------------------------------

    def _for_rows(self, X, method: str):
        """Return self; for a Dask collection a copy that takes the models along."""
        if method == "split" or not base.is_dask(X):
            return self
        models = move_left_out(self._left_out_models(), np.empty(0))
        sent = copy.copy(self)
        sent._left_out, sent._is_sent = models, True
        sent._training = replace(self._training, rows=None)
        return sent

    def __getstate__(self):
        state = super().__getstate__()
        if state.get("_is_sent"):
            return state
        training = state.get("_training")
        state.pop("_left_out", None)
        if training is not None and training.rows is not None:
            state |= {"_training": None, "_no_training": _NOT_IN_FILES}
        return state


def _in_unit(models: LeftOutModels, unit: TargetUnit) -> LeftOutModels:
    """Return leave-one-out models of standard targets for those of the user."""
    rows = models.left_out
    scale = nx.as_like(unit.scale, rows.residuals)
    residuals, values = rows.residuals * scale, unit.values(rows.values)
    rows = rows._replace(residuals=residuals, values=values)
    return replace(models, scale=models.scale * scale**2, left_out=rows)


def check_calibrated(calibration) -> None:
    """Raise where rows held out are needed and none were given."""
    if calibration is None:
        raise ValueError(
            "method='split' needs rows that were not fitted; give them first: "
            "model.conformalize(X_held_out, y_held_out)."
        )


def checked_predictions(predictions) -> np.ndarray:
    """Return predictions that a user gives as finite numbers, (n, t)."""
    given = np.asarray(nx.to_numpy(predictions), dtype=np.float64)
    given = given.reshape(given.shape[0] if given.ndim else 1, -1)
    if not np.isfinite(given).all():
        row = int(np.argmin(np.isfinite(given).all(axis=1)))
        raise ValueError(
            f"predictions has {given[row].tolist()[:3]} in row {row}; pass a finite "
            "number for every row."
        )
    return given


def refuse_dask(X, method: str = "conformalize") -> None:
    """Raise where rows to compare with are a Dask collection."""
    if base.is_dask(X):
        raise TypeError(
            f"{method} needs its rows in one place, and X is a Dask collection. A "
            "few thousand rows are enough: X[:5000].compute()."
        )


# ----------------------------------------------------------------------------------
# Predictions of regressors: values, standard deviations, intervals.
# ----------------------------------------------------------------------------------

INTERVAL_METHODS = ("plus", "naive", "minmax", "split")


# Rows may be float32. Of targets with a large offset, float32 would keep few digits.
_RESULTS = "float64"


class RegressorPredictions(MultiOutputMixin, RegressorMixin):
    """From decision values to predictions of one or several outputs."""

    score = base.score

    @base.rowwise
    def predict(self, X) -> np.ndarray:
        """Return f(x).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            In float64, whatever the rows.
        """
        values = base.check_results(self._decision_values(X, _RESULTS))
        return values[:, 0] if self._single_output else values

    def _validate_outputs(self, X, y, *, reset: bool = True):
        """Return ``X`` and the outputs as columns, (n, t)."""
        options = {"multi_output": True, "y_numeric": True}
        X, y = self._validate(
            X, y, reset=reset, ensure_min_samples=1 + reset, **options
        )
        if reset:
            self._single_output = y.ndim == 1
        return X, base.numeric_targets(y)


class IntervalPredictions(KnowsLeftOut, RegressorPredictions):
    """Mixin: predictions with standard deviations and intervals.

    Attributes
    ----------
    log_marginal_likelihood_ : float or ndarray of shape (n_outputs,)
        Evidence: log N(y | b, s² (K + I/C)), the logarithm of the likelihood of the
        training targets under the Gaussian process of ``predict(return_std=True)``,
        whose intercept b and scale s² are those of the largest. On representatives K is
        K_nm K_mm⁻¹ K_mn. Computed when asked for; absent where there are no
        leave-one-out models, as with iterative solvers.
    """

    @overload
    def predict(self, X, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X, return_std: bool) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X, return_std=False):
        """Return f(x), and its standard deviation if asked.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).
        return_std : bool, default=False
            Whether to return the standard deviation of f(x) too.
            It is that of the Gaussian process with this kernel; its noise is 1/C of the
            kernel's scale, which is that of the largest likelihood. As in
            scikit-learn's ``GaussianProcessRegressor``, the noise of a new ``y`` is not
            in it.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            With ``return_std=True`` a pair of such arrays.
        """
        base.BOOLEAN.check("return_std", return_std)
        if not return_std:
            return super().predict(X)
        model = self._for_rows(X, "std")
        return super().predict(X), model._standard_deviations(X)

    @property
    def log_marginal_likelihood_(self):
        """Evidence of the training targets."""
        try:
            models = self._left_out_models()
            log_determinant = models.log_determinant()
        except ValueError as error:  # as of any attribute that is not there
            raise AttributeError(f"log_marginal_likelihood_: {error}") from error
        n, scale = models.left_out.residuals.shape[0], nx.to_numpy(models.scale)
        with np.errstate(divide="ignore"):  # of equal targets it is infinite
            logs = np.log(2 * np.pi * np.maximum(scale, 0.0))
        found = -0.5 * (n + n * logs + log_determinant)
        return float(found[0]) if self._single_output else found

    def sample_y(self, X, n_samples=1, random_state=0) -> np.ndarray:
        """Draw functions from the Gaussian process, at some rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
        n_samples : int, default=1
            How many functions.
        random_state : int, RandomState or Generator, default=0

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
            Values of f, not of y: without its noise, as in scikit-learn's
            ``GaussianProcessRegressor``. Their mean is ``predict(X)``, their standard
            deviation that of ``return_std=True``.

        Notes
        -----
        The covariances of all rows are held, and their root is found: n_rows³ products.
        """
        base.count().check("n_samples", n_samples)
        self._check_has_diagonal("sample_y")
        refuse_dask(X, "sample_y")
        X = self._validate(X, reset=False)
        rows = base.on_device(X, self.device)
        models = move_left_out(self._left_out_models(), rows)
        b, budget = X.shape[0], resolve_budget(self.memory_budget, rows)
        if 4 * 8 * b * b > budget:
            raise MemoryError(
                f"The covariances of {b} rows and their root take "
                f"{format_bytes(4 * 8 * b * b)}, memory_budget allows "
                f"{format_bytes(budget)}; pass fewer rows at a time."
            )
        f, models, rows, K = self._columns_of(rows, models)
        covariance = nx.to_numpy(models.covariance(rows, K))
        eigenvalues, V = np.linalg.eigh((covariance + covariance.T) / 2)
        root = V * np.sqrt(np.maximum(eigenvalues, 0))
        scale = np.sqrt(np.maximum(nx.to_numpy(models.scale), 0))
        rng = base.generator_from(random_state)
        draws = rng.standard_normal((len(scale), b, int(n_samples)))
        found = np.moveaxis(root @ draws * scale[:, None, None], 0, 1)
        found = nx.as_like(nx.to_numpy(f)[:, :, None] + found, X)
        return found[:, 0, :] if self._single_output else found

    def predict_interval(self, X, confidence_level=0.9, method="plus") -> np.ndarray:
        """Return intervals that hold the targets of new rows with a probability.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).
        confidence_level : float or sequence of float, default=0.9
            1 − α: the share of targets that the intervals shall hold.
        method : {"plus", "naive", "minmax", "split"}, default="plus"
            ``"plus"``: jackknife+, by the exact leave-one-out model of every training
            row. ``"naive"``: f(x) plus and minus a quantile of the leave-one-out
            residuals, the same width everywhere. ``"minmax"``: that quantile beyond the
            smallest and largest prediction of the leave-one-out models, the widest.
            ``"split"``: f(x) plus and minus a quantile of the residuals of rows that
            :meth:`conformalize` was given; of quantiles, the outer two, moved apart or
            together.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper ends. Of a sequence of levels,
            (n_samples, 2, n_levels) or (n_samples, 2, n_levels, n_outputs).
            Each output has its own level.

        Notes
        -----
        For rows drawn as the training rows were, ``"plus"`` holds at least 1 − 2α of
        the targets, in practice about 1 − α, if kernel, C, metric and representatives
        were chosen without looking at these rows; ``"minmax"`` holds 1 − α then;
        ``"naive"`` promises nothing; ``"split"`` holds 1 − α in any case.

        The first call solves the system of ``fit`` once more, where the leave-one-out
        models are needed, and keeps its factor; every row of X then costs n² products
        for n training rows, or n m with m representatives.
        """
        levels = levels_of(confidence_level)
        base.one_of(*INTERVAL_METHODS).check("method", method)
        model = self._for_rows(X, method)
        found = model._intervals(X, levels=levels, method=method)
        return of_levels(found, confidence_level)

    def conformalize(self, X, y, predictions=None) -> Self:
        """Take rows that were not fitted, for intervals with ``method="split"``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows held out. With ``kernel="precomputed"``: k(X, X_fit).
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        predictions : array-like of the shape of y, default=None
            Predictions f(x), of quantiles a column for each; None: those of this model.
            If this model was fitted to these rows, give those of models that were not:
            of ``sklearn.model_selection.cross_val_predict``, or of a model of fewer
            rows; what is promised then holds nearly.

        Returns
        -------
        self : object
            Only the residuals are kept; the next fit forgets them.
        """
        refuse_dask(X)
        if predictions is None:
            f = nx.to_numpy(base.check_results(self._decision_values(X, _RESULTS)))
        else:
            f = checked_predictions(predictions)
        _, Y = self._validate_outputs(X, y, reset=False)
        low, high = self._band(f)
        if Y.shape != low.shape:
            raise ValueError(
                f"y has {Y.shape[0]} rows and {Y.shape[1]} outputs, and the "
                f"predictions {f.shape[0]} and {low.shape[1]}; pass as many."
            )
        self._calibration = np.maximum(low - Y, Y - high)
        return self

    def _band(self, f):
        """Return the lower and upper values that intervals widen, (n, t) each."""
        return f, f

    @base.rowwise
    def _intervals(self, X, *, levels, method):
        """Return the intervals of a list of levels."""
        if method in ("plus", "minmax"):
            ends = self._jackknife(X, levels, method)
        else:
            f = base.check_results(self._decision_values(X, _RESULTS))
            scores = nx.as_like(self._unseen_scores(method), f)
            check_enough_rows(scores.shape[0], levels)
            ends = widened_intervals(*self._band(f), scores, levels)
        of_one = self._single_output or getattr(self, "loss", None) == "quantile"
        return ends[:, :, :, 0] if of_one else ends

    def _unseen_scores(self, method):
        """Return sizes of errors by models that have not seen the row."""
        if method == "split":
            check_calibrated(self._calibration)
            return self._calibration
        residuals = self._left_out_models().left_out.residuals
        return nx.array_namespace(residuals).abs(residuals)

    def _jackknife(self, X, levels, method):
        base.validated_new_rows(self, X)  # before the models are made
        check_enough_rows(self._left_out_models().left_out.residuals.shape[0], levels)

        def ends(f, models, x, K):
            base.check_results(f)
            influence, e = models.influence(K), models.left_out.residuals
            return left_out_intervals(f, influence, e, levels, method)

        return self._over_left_out(X, ends)

    def _check_has_diagonal(self, what: str) -> None:
        if self._precomputed:
            raise ValueError(
                f"{what} needs k(x, x) of each row, which kernel='precomputed' does "
                "not give; pass rows and a kernel."
            )

    @base.rowwise
    def _standard_deviations(self, X):
        """Return the standard deviation of f(x), (n,) or (n, t)."""
        self._check_has_diagonal("return_std=True")

        def deviations(f, models, x, K):
            xp = nx.array_namespace(K)
            factors = (models.variance(x, K)[:, None], models.scale[None, :])
            # Rounding may make a zero of either negative: of equal targets, the scale.
            root, scale = (xp.sqrt(xp.maximum(f, xp.zeros_like(f))) for f in factors)
            return root * scale

        found = self._over_left_out(X, deviations)
        return found[:, 0] if self._single_output else found


# ----------------------------------------------------------------------------------
# Predictions of classifiers: classes, probabilities, sets of classes.
# ----------------------------------------------------------------------------------


def _has_probabilities(estimator) -> bool:
    if estimator.probability is False:
        raise AttributeError(
            "predict_proba is off: probability=False. Use probability='softmax'."
        )
    return True


def labels_at(classes, numbers, X):
    """Return labels by their numbers, as an array of X's library if numeric."""
    labels = nx.label_array(classes, X)
    if labels is classes and not isinstance(numbers, np.ndarray):
        numbers = nx.to_numpy(numbers)  # texts are on the host
    return nx.take_rows(labels, numbers)


class ClassifierPredictions(ClassifierMixin):
    """From decision values to classes and probabilities.

    Parameters
    ----------
    class_weight : dict or "balanced"
        Weights of the classes; ``"balanced"``: inverse to their numbers of rows.
    probability : {"softmax", "sum_exp", False}
        How decision values become probabilities; False: there are none.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    temperature_ : float
        By which decision values are divided before the softmax.
    """

    score = base.score
    _parameters: ClassVar = {"probability": base.one_of("softmax", "sum_exp", False)}

    def _validate_labels(self, X, y):
        """Return ``X`` and the number of each row's class; store the classes."""
        base.check_one_label_type(y)
        X, y = self._validate(X, y, reset=True, ensure_min_samples=2)
        self.classes_, indices = base.encode_labels(y)
        return X, indices

    @base.rowwise
    def decision_function(self, X) -> np.ndarray:
        """Return the decision values.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one value, positive for ``classes_[1]``.
        """
        values = base.check_results(self._decision_values(X))
        return values[:, 0] if len(self.classes_) == 2 else values

    @base.rowwise
    def predict(self, X) -> np.ndarray:
        """Return the class of largest decision value.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        values = base.check_results(self._decision_values(X))
        return labels_at(self.classes_, largest(values), values)

    @base.available_if(_has_probabilities)
    @base.rowwise
    def predict_proba(self, X) -> np.ndarray:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``. With ``probability="softmax"`` the largest is
            that of the class that ``predict`` gives.
        """
        if self.probability == "sum_exp":
            return self._sum_of_exponentials(X)
        values = base.check_results(self._decision_values(X))
        return softmax(all_classes(values), self.temperature_)

    @base.available_if(_has_probabilities)
    @base.rowwise
    def predict_log_proba(self, X) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        p = self.predict_proba(X)
        with np.errstate(divide="ignore"):  # log 0 = -inf is what is meant
            return nx.array_namespace(p).log(p)

    def _sum_of_exponentials(self, X):
        check_is_fitted(self, "dual_coef_")
        X = self._validate(X, reset=False)
        # Targets of 0 and 1, as the paper has them, in place of ±1.
        A, b = nx.to_numpy(self.dual_coef_), nx.to_numpy(self.intercept_)
        signs = np.array([[-1.0, 1.0]]) if A.shape[1] == 1 else 1.0
        coef, intercept = A * signs / 2, (b * signs + 1) / 2
        support = None
        if not self._precomputed:
            support = nx.astype(nx.as_like(self._support_rows(), X), "float64")
        parts = []
        for rows in row_blocks(X.shape[0], 8 * coef.shape[0], 2**26):
            block = X[rows, :]
            # In float64: coefficients that cancel would show what float32 rounds.
            block = nx.astype(block, "float64")
            K = block if self._precomputed else self.kernel_(block, support)
            parts.append(sum_of_exponentials(nx.to_numpy(K), coef, np.ravel(intercept)))
        values = base.check_results(np.concatenate(parts))
        return nx.astype(nx.as_like(values, X), nx.dtype_name(X))

    def _calibrate(self, loo_decision, indices, weight) -> None:
        """Fit the temperature of the probabilities on leave-one-out values."""
        decision = all_classes(nx.to_numpy(loo_decision))
        self.temperature_ = fit_temperature(decision, indices, weight)


def largest(values):
    """Return the number of the class of largest decision value, for each row."""
    xp = nx.array_namespace(values)
    if values.shape[1] == 1:
        return nx.astype(values[:, 0] > 0, "int64")
    return xp.argmax(values, axis=1)


# ---- sets of classes -----------------------------------------------------------------


SET_SCORES = ("lac", "aps")
SET_METHODS = ("plus", "split")


class SetPredictions(KnowsLeftOut, ClassifierPredictions):
    """Classes and probabilities, and the classes that cannot be ruled out."""

    def predict_set(
        self, X, confidence_level=0.9, score="lac", method="plus"
    ) -> np.ndarray:
        """Return sets that hold the classes of new rows with a probability.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).
        confidence_level : float or sequence of float, default=0.9
            1 − α: the share of rows whose class shall be in the set.
        score : {"lac", "aps"}, default="lac"
            By what classes are compared. ``"lac"``: their probability; the smallest
            sets on average, which may be empty where no class is likely enough.
            ``"aps"``: the probability of all classes that are more probable; sets that
            are the larger the harder a row is, and never empty.
        method : {"plus", "split"}, default="plus"
            ``"plus"``: cross-conformal, by the exact leave-one-out model of every
            training row. ``"split"``: by the rows that :meth:`conformalize` was given.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_classes)
            (n_samples, n_classes, n_levels) of a sequence of levels.
            Which classes of ``classes_`` are in the set.

        Notes
        -----
        For rows drawn as the training rows were, ``"plus"`` holds at least 1 − 2α of
        the classes, in practice about 1 − α, if kernel, C, metric and representatives
        were chosen without looking at these rows; ``"split"`` holds 1 − α in any case.
        The representatives of :class:`KMeansKernelClassifier` are chosen class by class
        and know the labels: with fewer than 30 rows for each, ``"plus"`` was measured
        to hold up to a tenth less than the level.
        """
        levels = levels_of(confidence_level)
        base.one_of(*SET_SCORES).check("score", score)
        base.one_of(*SET_METHODS).check("method", method)
        model = self._for_rows(X, method)
        found = model._sets(X, levels=levels, score=score, method=method)
        return of_levels(found, confidence_level)

    def conformalize(self, X, y, predictions=None) -> Self:
        """Take rows that were not fitted, for sets with ``method="split"``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows held out. With ``kernel="precomputed"``: k(X, X_fit).
        y : array-like of shape (n_samples,)
            Their labels.
        predictions : array-like of shape (n_samples,) or (n_samples, n_classes), \
                default=None
            Values of ``decision_function``; None: those of this model.
            If this model was fitted to these rows, give values of models that were not:
            of ``cross_val_predict(..., method="decision_function")``, or of a model of
            fewer rows.

        Returns
        -------
        self : object
            Only decision values are kept; the next fit forgets them.
        """
        refuse_dask(X)
        if predictions is None:
            values = nx.to_numpy(base.check_results(self._decision_values(X)))
        else:
            values = checked_predictions(predictions)
        decision = all_classes(values).astype(np.float64)
        _, y = self._validate(X, y, reset=False)
        _, labels = base.check_known_labels(y, None, self.classes_)
        wanted = len(labels), len(self.classes_)
        if decision.shape != wanted:
            raise ValueError(
                f"predictions are those of {decision.shape[0]} rows and "
                f"{decision.shape[1]} classes, and y has {wanted[0]} and the model "
                f"{wanted[1]}; pass decision_function of the same rows and classes."
            )
        self._calibration = decision, labels
        return self

    @property
    def _temperature(self) -> float:
        return getattr(self, "temperature_", 1.0)

    def _target_columns(self, values: np.ndarray) -> np.ndarray:
        return one_vs_rest_targets(values, len(self.classes_))

    @base.rowwise
    def _sets(self, X, *, levels, score, method):
        if method == "plus":
            return self._cross_conformal(X, levels, score)
        decision = all_classes(base.check_results(self._decision_values(X)))
        check_calibrated(self._calibration)
        seen, labels = self._calibration
        own = class_scores(seen, self._temperature, score)
        own = nx.as_like(own[np.arange(len(labels)), labels], decision)
        scores = class_scores(nx.astype(decision, "float64"), self._temperature, score)
        return split_sets(scores, own, levels)

    def _cross_conformal(self, X, levels, score):
        base.validated_new_rows(self, X)  # for its warnings
        values = nx.to_numpy(self._left_out_models().left_out.values)
        numbers = self._left_out.left_out.numbers
        labels = self._training.values
        labels = labels if numbers is None else labels[numbers]

        def score_of(decision):
            return class_scores(all_classes(decision), self._temperature, score)

        own = nx.to_numpy(score_of(values))[np.arange(len(labels)), labels]

        def sets(f, models, x, K):
            return left_out_sets(
                base.check_results(f),
                models.influence(K),
                models.left_out.residuals,
                nx.as_like(own, f),
                levels,
                score_of,
            )

        return self._over_left_out(X, sets)
