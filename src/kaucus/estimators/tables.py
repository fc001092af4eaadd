"""Tables as they come: a committee of a kernel machine and boosted trees."""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from kaucus._array.blocks import map_blocks, n_workers, one_openmp_thread
from kaucus._array.namespace import to_numpy
from kaucus._base import (
    MEMORY_BUDGET,
    NONE,
    POSITIVE,
    RANDOM_STATE,
    Constraint,
    FollowsX,
    Seed,
    as_float,
    check_one_label_type,
    check_weights,
    encode_labels,
    generator_from,
    is_dask,
    numeric_targets,
    on_host,
    one_of,
    refusal,
    relative_weights,
    score,
    stored,
    tell_stage,
    to_onnx,
    weights_with_classes,
)
from kaucus.estimators._committee import (
    CLASS_LOSSES,
    N_VOTES,
    NUMBER_LOSSES,
    ErrorSize,
    Folds,
    choose_votes,
    fit_trees,
    held_out_predictions,
    make_folds,
)
from kaucus.estimators._predict import SET_SCORES, levels_of, of_levels
from kaucus.estimators.kmeans_kernel import (
    KMeansKernelClassifier,
    KMeansKernelRegressor,
)
from kaucus.fitting._problem import all_classes
from kaucus.preprocessing.frames import FrameEncoder, is_frame
from kaucus.solvers._left_out import (
    check_enough_rows,
    class_scores,
    conformal_quantiles,
    split_sets,
)
from kaucus.solvers._system import softmax

# ----------------------------------------------------------------------------------
# What classifier and regressor share: members, votes, and what is told of them.
# ----------------------------------------------------------------------------------

MEMBERS = ("kernel", "trees")
EFFORTS: dict[str, dict] = {
    "fast": {"learning_rate": 0.15, "max_iter": 150},
    "balanced": {"learning_rate": 0.1, "max_iter": 400},
    "best": {"learning_rate": 0.03, "max_iter": 1500},
}
# Rows whose leave-one-out predictions choose votes: n of them cost n³ / 3.
_JUDGES = 3000
N_FOLDS = {"fast": 3, "balanced": 5, "best": 10}
# With so many rows a balanced fit has more folds: each model learns from 7/8 of them,
# where boosting by itself learns from all.
_MANY_ROWS, _MANY_FOLDS = 10_000, 8


def _are_members(value: Any) -> bool:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return False
    names = list(value)
    return 0 < len(names) == len(set(map(str, names))) and set(names) <= set(MEMBERS)


class TableModel(FollowsX, BaseEstimator):
    """A committee of members that each see the columns in their way.

    Parameters
    ----------
    members : "auto" or list of {"kernel", "trees"}
        Who may vote. ``"kernel"``: a k-means kernel machine with a learned metric, of
        standard numbers and one-hot categories; better where the target is smooth.
        ``"trees"``: scikit-learn's histogram gradient boosting, a model for each fold,
        of the columns as they are; better where it jumps. ``"auto"``: both.
    scoring : str
        Metric by which votes are chosen, on out-of-fold and leave-one-out predictions.
    effort : {"fast", "balanced", "best"}
        How much to spend: ``n_representatives`` of the kernel machine, which learns no
        metric with ``"fast"``, and 3, 5 or 10 folds of at most 150, 400 or 1,500 trees;
        8 folds with ``"balanced"`` and 10,000 rows or more.
    max_time : float
        Seconds after which no further step begins: a fold of trees, the kernel
        machine, its votes. A step that has begun is ended, so that a fit may take
        longer by one step. ``explain`` tells what was left out.
    cv : int, splitter or iterable
        How rows are held out, where not five random folds will do: any of
        scikit-learn's, such as ``GroupKFold()`` with ``groups`` in ``fit``, or
        ``TimeSeriesSplit()``. The kernel machine is then fitted once for each fold
        too, in place of leave-one-out in closed form.
    random_state : int, RandomState or Generator
        Draws folds, trees, and what the kernel machine draws.

    Attributes
    ----------
    weights_ : dict of {str: float}
        Share of the votes of each member.
    scores_ : dict of {str: float}
        Loss of each member alone, and of the ``"committee"``, on held-out rows.
    kernel_ : KMeansKernelClassifier, KMeansKernelRegressor or None
        The kernel machine; None where it has no vote.
    trees_ : list of Trees
        Boosted trees for each fold; empty where they have no vote.
    """

    to_onnx = to_onnx
    _parameters: ClassVar = {
        "members": one_of("auto")
        | Constraint(_are_members, f"a list of some of {list(MEMBERS)}"),
        "effort": one_of(*EFFORTS),
        "max_time": NONE | POSITIVE.advise("Try 60, for a minute."),
        "memory_budget": MEMORY_BUDGET,
        "random_state": RANDOM_STATE,
    }
    _losses: ClassVar[dict[str, Callable]]
    _n_classes: int | None = None

    # ---- fit -------------------------------------------------------------------------

    def _rows(self, X: Any, reset: bool) -> Any:
        """Return X checked but for its values: a frame or a matrix."""
        if is_dask(X):
            raise refusal(self, "fit" if reset else "this method")
        if not is_frame(X):
            given = on_host(X)
            X = check_array(given, dtype=None, ensure_all_finite=False, estimator=self)
            if X.dtype.kind in "US":  # numbers of a list stay what they are
                X = np.array(given, dtype=object)
        elif 0 in X.shape:
            what = "sample(s)" if not X.shape[0] else "feature(s)"
            raise ValueError(f"X has shape {X.shape}: 0 {what}; at least 1 is needed.")
        if is_frame(X) and len(set(map(str, X.columns))) < X.shape[1]:
            names = [str(name) for name in X.columns]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(
                f"X has {names.count(twice)} columns of the name {twice!r}; rename the "
                "others."
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X

    def _learn(self, X, y, weight, groups):
        """Fit the members to validated rows, and choose the votes."""
        end = np.inf if self.max_time is None else time.monotonic() + self.max_time
        if weight is not None and not weight.all():  # such rows are none at all
            kept = np.flatnonzero(weight)
            X = X.iloc[kept] if hasattr(X, "iloc") else X[kept]
            y, weight = y[kept], weight[kept]
            groups = None if groups is None else np.asarray(groups)[kept]
        rng = generator_from(self.random_state)
        self._seed = int(rng.integers(2**31))
        self._left_out_steps: list[str] = []
        weight, k = relative_weights(weight), self._n_classes
        many = self.effort == "balanced" and len(y) >= _MANY_ROWS
        folds = make_folds(
            y,
            classes=k is not None,
            n_folds=_MANY_FOLDS if many else N_FOLDS[self.effort],
            cv=self.cv,
            groups=groups,
            seed=self._seed,
        )
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        Y = y[:, None] if k is None else np.eye(k)[y][:, k == 2 :]
        self._encoder = FrameEncoder()
        dense, gappy = self._encoder.fit(X, list(map(str, names)), Y, folds)
        wanted = MEMBERS if self.members == "auto" else list(self.members)
        self.kernel_, self.trees_, held_out = None, [], {}
        if "trees" in wanted:
            held_out["trees"] = self._fit_trees(gappy, y, weight, folds, end)
        if "kernel" in wanted and not (held_out and time.monotonic() > end):
            honest = folds if self.cv is not None or groups is not None else None
            held_out["kernel"] = self._fit_kernel(dense, y, weight, honest, end)
        elif "kernel" in wanted:
            self._left_out_steps.append("the kernel machine")
        return self._choose_weights(held_out, y, weight), gappy, folds

    def _fit_trees(self, X, y, weight, folds: Folds, end: float) -> np.ndarray:
        """Fit trees of each fold; return predictions of the rows of each fold."""
        k, n_categories = self._n_classes, self._encoder.n_categories

        def of_fold(number: int) -> tuple | None:
            if number and time.monotonic() > end:
                return None
            tell_stage(self.verbose, f"trees of fold {number + 1} of {len(folds)}")
            _, judge = folds[number]
            with one_openmp_thread():  # a fold in each thread is faster
                found = [
                    fit_trees(
                        X,
                        y,
                        weight,
                        folds[number],
                        n_classes=k,
                        n_categories=n_categories,
                        ordered=ordered,
                        **EFFORTS[self.effort],
                        seed=self._seed + number,  # other columns at each split
                    )
                    for ordered in ((False, True) if n_categories else (False,))
                ]
                return found, np.mean([t.predict(X[judge]) for t in found], axis=0)

        jobs = range(len(folds))
        every = list(map_blocks(of_fold, jobs, workers=n_workers(), abandon=True))
        done = [fold for fold in every if fold is not None]
        if n_left := len(folds) - len(done):
            self._left_out_steps.append(f"trees of {n_left} of {len(folds)} folds")
        self.trees_ = [trees for found, _ in done for trees in found]
        predictions = [prediction for _, prediction in done]
        return held_out_predictions(len(y), k or 1, folds, predictions)

    def _fit_kernel(self, X, y, weight, folds: Folds | None, end: float) -> np.ndarray:
        """Fit the kernel machine; return leave-one-out or out-of-fold predictions."""
        self.kernel_ = self._kernel_machine(X, y, weight)
        self.kernel_.feature_names_in_ = np.array(self._encoder.labels, dtype=object)
        kept, self.kernel_._unseen = self.kernel_._unseen, None
        if folds is None and kept is not None:
            return self._unseen_predictions(kept.values, kept.numbers, len(y))
        if folds is None and self.kernel_._training is not None:
            tell_stage(self.verbose, "leave-one-out of the kernel machine")
            rows = self.kernel_._left_out_models().left_out
            self.kernel_._left_out = None  # n m numbers
            numbers = slice(None) if rows.numbers is None else to_numpy(rows.numbers)
            return self._unseen_predictions(to_numpy(rows.values), numbers, len(y))
        # Of a model whose representatives were chosen among the rows leave-one-out says
        # too much: on all of houses 8 % less error than trees, which have 1 % less.
        predictions, k = [], self._n_classes
        folds = folds or make_folds(
            y, classes=self._n_classes is not None, n_folds=4, cv=None, groups=None,
            seed=self._seed,
        )[:1]  # fmt: skip
        for number, (learn, judge) in enumerate(folds):
            if predictions and time.monotonic() > end:
                n_left = len(folds) - number
                told = f"votes by {n_left} of {len(folds)} folds of the kernel machine"
                self._left_out_steps.append(told)
                break
            if k and len(np.unique(y[learn])) == 1:
                predictions.append(np.eye(k)[np.full(len(judge), y[learn][0])])
                continue
            some = None if weight is None else weight[learn]
            model = self._kernel_machine(X[learn], y[learn], some)
            predictions.append(self._kernel_predictions(model, X[judge]))
        return held_out_predictions(len(y), k or 1, folds, predictions)

    def _kernel_machine(self, X, y, weight):
        """Return a kernel machine of some rows."""
        model = self._kernel_class(
            self.effort,
            learn_metric="auto" if self.effort != "fast" else False,
            device=self.device,
            memory_budget=self.memory_budget,
            random_state=self._seed,
            verbose=self.verbose,
        )
        model._keeps_unseen, model._n_unseen = True, self._n_judges(len(y))
        with warnings.catch_warnings():  # the columns are on the scale that we chose
            warnings.filterwarnings("ignore", ".* of the variance of X, so distances")
            return model.fit(X, y, sample_weight=weight)

    def _n_judges(self, n: int) -> int:
        """Return of how many rows the kernel machine shall tell held-out values."""
        return _JUDGES

    def _unseen_predictions(self, values, numbers, n: int) -> np.ndarray:
        """Return predictions by decision values of some rows, NaN of others, (n, k)."""
        found = np.full((n, self._n_classes or 1), np.nan)
        if self._n_classes is not None:
            values = softmax(all_classes(values), self.kernel_.temperature_)
        found[numbers] = values
        return found

    def _kernel_predictions(self, kernel, X: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():  # its columns have names, for what it tells
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            if self._n_classes is None:
                return kernel.predict(X)[:, None]
            found = np.zeros((len(X), self._n_classes))
            found[:, kernel.classes_] = kernel.predict_proba(X)
            return found

    def _choose_weights(self, held_out, y, weight) -> np.ndarray:
        """Choose the votes; return the committee's predictions of held-out rows."""
        known = ~np.any([np.isnan(P[:, 0]) for P in held_out.values()], axis=0)
        if not known.any():
            known = ~np.isnan(held_out["trees"][:, 0])
            held_out = {"trees": held_out["trees"]}
        loss, y = self._losses[self.scoring], y[known]
        weight = None if weight is None else weight[known]

        def loss_of(P: np.ndarray) -> float:
            return loss(P, y, weight)

        members = {name: P[known] for name, P in held_out.items()}
        self._most_apart = np.inf
        if self._n_classes is None and len(members) > 1:
            self._most_apart = np.abs(members["kernel"] - members["trees"]).max()
        self._votes = choose_votes(members, loss_of)
        self.weights_ = {name: n / N_VOTES for name, n in self._votes.items()}
        both = sum(w * held_out[name] for name, w in self.weights_.items())
        members["committee"] = both[known]
        self.scores_ = {name: loss_of(P) for name, P in members.items()}
        if not self.weights_.get("kernel"):
            self.kernel_ = None
        if not self.weights_.get("trees"):
            self.trees_ = []
        return both

    # ---- prediction ------------------------------------------------------------------

    def _matrices(self, X: Any):
        check_is_fitted(self, "weights_")
        return self._encoder.transform(self._rows(X, reset=False))

    def _predictions(self, dense: np.ndarray, gappy: np.ndarray) -> np.ndarray:
        """Return the committee's probabilities, (n, k), or numbers, (n, 1)."""
        members = {}
        if self.trees_:
            members["trees"] = np.mean([t.predict(gappy) for t in self.trees_], axis=0)
        if self.kernel_ is not None:
            members["kernel"] = P = self._kernel_predictions(self.kernel_, dense)
            if self.trees_:  # far from all rows of fit a kernel machine may be far off
                near, most = members["trees"], self._most_apart
                members["kernel"] = np.clip(P, near - most, near + most)
        return sum(self.weights_[name] * P for name, P in members.items())

    # ---- what is told ----------------------------------------------------------------

    @property
    def categories_(self) -> dict[str, np.ndarray]:
        """Levels of the columns of categories that have at most 30 of them, by name."""
        check_is_fitted(self, "weights_")
        columns = filter(None, self._encoder.columns)
        return {c.name: c.levels for c in columns if c.is_category}

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each column of X: in the learned metric, and in the splits of trees.

        The mean over the members by their votes; it sums to 1.
        """
        check_is_fitted(self, "weights_")
        total = np.zeros(self.n_features_in_)
        dense, gappy = self._encoder.sources
        if self.kernel_ is not None and len(dense):
            equal = np.ones(len(dense))  # where no metric was asked for
            shares = to_numpy(getattr(self.kernel_, "feature_importances_", equal))
            total += self.weights_["kernel"] * _by_source(shares, dense, total)
        if self.trees_ and len(gappy):
            shares = sum(trees.gains() for trees in self.trees_)
            total += self.weights_["trees"] * _by_source(shares, gappy, total)
        return total / (total.sum() or 1.0)

    def explain(self) -> str:
        """Say in words who votes, how good each is alone, and what was left out.

        Returns
        -------
        str
        """
        check_is_fitted(self, "weights_")
        loss = f"{_LOSS_NAMES[self.scoring]} {self.scores_['committee']:.4g}"
        votes = {
            name: f"{n} of {N_VOTES} votes (alone {self.scores_[name]:.4g})"
            for name, n in self._votes.items()
        }
        shown = ", ".join(f"{name} {part}" for name, part in votes.items())
        more = {}
        if self.trees_:
            sizes = [trees.n_rounds for trees in self.trees_]
            of_each = f"{len(sizes)} models of {min(sizes)} to {max(sizes)} rounds"
            more["Trees"] = f"{of_each}."
        if self.kernel_ is not None:
            more["Kernel machine"] = self.kernel_.explain()
        if self._left_out_steps:
            steps = ", ".join(self._left_out_steps)
            more[f"Left out after max_time={self.max_time:g} s"] = f"{steps}."
        rest = "".join(f" {name}: {part}" for name, part in more.items())
        parts = {"held-out rows": loss, **votes, **more}
        return self._told(parts, f"{loss} on held-out rows: {shown}.{rest}")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = False
        return tags


_LOSS_NAMES = {
    "log_loss": "log-loss",
    "roc_auc": "1 - AUC",
    "accuracy": "share of wrong rows",
    "neg_root_mean_squared_error": "RMSE",
}


def _by_source(shares: np.ndarray, sources: np.ndarray, total: np.ndarray):
    found = np.bincount(sources, shares, minlength=len(total))
    return found / (found.sum() or 1.0)


# ----------------------------------------------------------------------------------
# The classifier.
# ----------------------------------------------------------------------------------


class TableClassifier(ClassifierMixin, TableModel):
    """Classifier of tables with categories, gaps and dates.

    A kernel machine with a learned metric and boosted trees vote. How many votes each
    has is chosen on held-out predictions: leave-one-out in closed form for the kernel
    machine, out-of-fold for the trees.

    Columns of numbers may have gaps. Texts, categories and booleans may too: up to 30
    levels are one-hot for the kernel machine and split as categories by trees, more
    levels are told by statistics of the targets of rows in other folds and by how
    frequent they are. Dates, also texts such as ``2024-01-31 12:00``, become time,
    year, month, day, weekday and hour, in UTC where they have a zone.

    Parameters
    ----------
    scoring : {"log_loss", "roc_auc", "accuracy"}, default="log_loss"
        Metric by which votes are chosen, on out-of-fold and leave-one-out predictions.
    threshold : float, str or callable, default=None
        Of two classes, the probability of ``classes_[1]`` from which it is predicted.
        The name of a metric such as ``"f1"`` or ``"balanced_accuracy"``, or a function
        ``metric(y_true, y_pred)`` on 0 and 1: where that is largest on held-out
        rows.
        None: the likelier class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    threshold_ : float or None
        The threshold that is used.

    See Also
    --------
    KMeansKernelClassifier : The kernel machine alone, for columns of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import TableClassifier
    >>> rng = np.random.default_rng(0)
    >>> size, colour = rng.normal(size=200), rng.choice(["red", "blue"], 200)
    >>> X = np.column_stack([size.astype(object), colour])
    >>> y = np.where((size > 0) == (colour == "red"), "yes", "no")
    >>> model = TableClassifier(effort="fast", random_state=0).fit(X[:150], y[:150])
    >>> bool(model.score(X[150:], y[150:]) > 0.9)
    True
    """

    score = score
    _parameters: ClassVar = {"scoring": one_of(*CLASS_LOSSES)}
    _losses, _kernel_class = CLASS_LOSSES, KMeansKernelClassifier

    @stored
    def __init__(
        self,
        *,
        members: Literal["auto"] | Sequence[Any] = "auto",
        scoring: Literal["log_loss", "roc_auc", "accuracy"] = "log_loss",
        effort: Literal["fast", "balanced", "best"] = "balanced",
        threshold: float | str | Callable[..., float] | None = None,
        max_time: float | None = None,
        cv: Any = None,
        device: str | None = None,
        memory_budget: int | str | None = None,
        random_state: Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None, groups=None) -> Self:
        """Fit the members, and choose their votes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Of pandas, polars or NumPy.
        y : array-like of shape (n_samples,)
            Labels of any one type, without gaps.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, up to a factor; a row of weight 0 is left out.
        groups : array-like of shape (n_samples,), default=None
            Rows of a group are never in two folds.

        Returns
        -------
        self : TableClassifier
        """
        self._check_parameters()
        check_one_label_type(y)
        X = self._rows(X, reset=True)
        y = _target(y, X)
        weight = check_weights(sample_weight, X)
        self.classes_, indices = encode_labels(y)
        self._n_classes = len(self.classes_)
        weight = weights_with_classes(weight, None, self.classes_, indices)
        held_out, *_ = self._learn(X, indices, weight, groups)
        if weight is not None:
            indices = indices[weight > 0]
        known = ~np.isnan(held_out[:, 0])
        self._own = held_out[known], indices[known]
        self.threshold_ = self._chosen_threshold()
        return self

    def _n_judges(self, n: int) -> int:
        wanted = self.threshold  # of a rare class, few rows are too few to place it
        return n if isinstance(wanted, str) or callable(wanted) else _JUDGES

    def _chosen_threshold(self) -> float | None:
        """Return the threshold that is given, or the best one on held-out rows."""
        wanted = self.threshold
        if wanted is None or self._n_classes != 2:
            return None
        if not (callable(wanted) or isinstance(wanted, str)):
            return float(wanted)
        P, y = self._own
        return best_threshold(P[:, 1], y, _metric(wanted))

    def _check_combinations(self) -> None:
        super()._check_combinations()
        wanted = self.threshold
        if isinstance(wanted, str):
            _metric(wanted)
        elif wanted is not None and not callable(wanted):
            THRESHOLD.check("threshold", wanted)

    def predict_proba(self, X) -> np.ndarray:
        """Return the probabilities of the classes, the mean by votes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        P = self._predictions(*self._matrices(X))
        return P / P.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):  # log 0 = -inf is what is meant
            return np.log(self.predict_proba(X))

    def predict(self, X) -> np.ndarray:
        """Return the likeliest class, or by ``threshold_`` where there is one.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        P = self.predict_proba(X)
        if self.threshold_ is None:
            return self.classes_[P.argmax(axis=1)]
        return self.classes_[(P[:, 1] >= self.threshold_) * 1]

    def predict_set(self, X, confidence_level=0.9, score="lac") -> np.ndarray:
        """Return sets that hold the classes of new rows with a probability.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
        confidence_level : float or sequence of float, default=0.9
            1 − α: the share of rows whose class shall be in the set.
        score : {"lac", "aps"}, default="lac"
            By what classes are compared.
            :meth:`KMeansKernelClassifier.predict_set` describes both.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_classes)
            (n_samples, n_classes, n_levels) of a sequence of levels.

        Notes
        -----
        Calibrated by out-of-fold and leave-one-out predictions of the training rows,
        which are a little worse than those of the committee of all rows.
        """
        levels = levels_of(confidence_level)
        one_of(*SET_SCORES).check("score", score)
        seen, labels = self._own

        def scores(P: np.ndarray) -> np.ndarray:
            return class_scores(np.log(np.maximum(P, 1e-300)), 1.0, score)

        own = scores(seen)[np.arange(len(labels)), labels]
        found = split_sets(scores(self.predict_proba(X)), own, levels)
        return of_levels(found, confidence_level)


THRESHOLD = Constraint(
    lambda value: 0 < as_float(value) < 1,
    "a number between 0 and 1, the name of a metric or a function",
    "Try 'f1'.",
)


def _metric(name: Any) -> Callable:
    """Return a function of true and predicted classes, 0 or 1."""
    if callable(name):
        return name
    import sklearn.metrics  # not before: it imports rich

    try:
        scorer = sklearn.metrics.get_scorer(name)
    except ValueError:
        scorer = None
    if scorer is None or scorer._response_method != "predict":
        raise ValueError(
            f"threshold={name!r} is no metric of predicted classes; expected one of "
            "scikit-learn's, such as 'f1', 'balanced_accuracy' or "
            "'matthews_corrcoef', a function, or a number between 0 and 1."
        )
    return lambda y, said: scorer._sign * scorer._score_func(y, said, **scorer._kwargs)


def best_threshold(p: np.ndarray, y: np.ndarray, metric: Callable) -> float:
    """Return where a metric of classes is largest, of 200 quantiles of p.

    Midpoints: probabilities of new rows are others.
    """
    edges = np.unique(np.quantile(p, np.linspace(0, 1, 201)))
    tried = (edges[1:] + edges[:-1]) / 2 if len(edges) > 1 else np.array([0.5])
    values = [metric(y, (p >= t).astype(int)) for t in tried]
    return float(tried[int(np.argmax(values))])


def _target(y: Any, X: Any) -> np.ndarray:
    """Return the target as an array, (n,), without gaps."""
    if y is None:
        raise ValueError(
            "fit requires y to be passed, but the target y is None; pass the targets."
        )
    y = np.asarray(on_host(y))
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(
            f"y should be a 1d array, got {y.shape[1]} columns; fit a model for each, "
            "for example with sklearn.multioutput.MultiOutputRegressor."
        )
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    gaps = np.zeros(len(y), dtype=bool)
    if y.dtype.kind == "O":
        gaps = np.array([v is None or bool(np.any(v != v)) for v in y], dtype=bool)
    elif y.dtype.kind == "f":
        gaps = ~np.isfinite(y)
    if gaps.any():
        raise ValueError(
            f"Input y contains NaN, None or infinity: {int(gaps.sum()):,} times, first "
            f"in row {int(np.argmax(gaps))}, counted from 0; take such rows out."
        )
    return y


# ----------------------------------------------------------------------------------
# The regressor.
# ----------------------------------------------------------------------------------


class TableRegressor(RegressorMixin, TableModel):
    """Regressor of tables with categories, gaps and dates.

    As :class:`TableClassifier`, for numbers; the width of intervals
    follows the expected size of the error.

    Parameters
    ----------
    scoring : {"neg_root_mean_squared_error"}, default="neg_root_mean_squared_error"
        Metric by which votes are chosen, on out-of-fold and leave-one-out predictions.

    See Also
    --------
    KMeansKernelRegressor : The kernel machine alone, for columns of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import TableRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(300, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    >>> model = TableRegressor(effort="fast", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.predict_interval(X[:5]).shape
    (5, 2)
    """

    score = score
    _parameters: ClassVar = {"scoring": one_of(*NUMBER_LOSSES)}
    _losses, _kernel_class = NUMBER_LOSSES, KMeansKernelRegressor
    _single_output = True

    @stored
    def __init__(
        self,
        *,
        members: Literal["auto"] | Sequence[Any] = "auto",
        scoring: Literal["neg_root_mean_squared_error"] = "neg_root_mean_squared_error",
        effort: Literal["fast", "balanced", "best"] = "balanced",
        max_time: float | None = None,
        cv: Any = None,
        device: str | None = None,
        memory_budget: int | str | None = None,
        random_state: Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None, groups=None) -> Self:
        """Fit the members, choose their votes, and model the size of their errors.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Of pandas, polars or NumPy.
        y : array-like of shape (n_samples,)
            Numbers, without gaps.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, up to a factor; a row of weight 0 is left out.
        groups : array-like of shape (n_samples,), default=None
            Rows of a group are never in two folds.

        Returns
        -------
        self : TableRegressor
        """
        self._check_parameters()
        X = self._rows(X, reset=True)
        y = _target(y, X)
        weight = check_weights(sample_weight, X)
        if y.dtype.kind == "O" and not any(isinstance(v, str) for v in y):
            y = y.astype(np.float64)
        y = numeric_targets(y)[:, 0]
        if len(y) < 2:
            raise ValueError(f"X has {len(y)} sample; at least 2 are needed.")
        held_out, gappy, folds = self._learn(X, y, weight, groups)
        y = y if weight is None else y[weight > 0]
        errors = np.abs(y - held_out[:, 0])
        rows = np.column_stack([gappy, held_out])
        self._error_size = ErrorSize(rows, errors, folds, self._seed)
        return self

    def predict(self, X) -> np.ndarray:
        """Return the mean of the members by their votes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._predictions(*self._matrices(X))[:, 0]

    def predict_interval(self, X, confidence_level=0.9) -> np.ndarray:
        """Return intervals that hold the targets of new rows with a probability.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
        confidence_level : float or sequence of float, default=0.9
            1 − α: the share of targets that the intervals shall hold.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper ends: the prediction plus and minus a quantile of the
            held-out errors, in units of the error that is expected there.
            (n_samples, 2, n_levels) of a sequence of levels.

        Notes
        -----
        Errors of out-of-fold and leave-one-out predictions are a little larger than
        those of the committee of all rows, so that intervals err on the safe side.
        """
        levels = levels_of(confidence_level)
        dense, gappy = self._matrices(X)
        relative = self._error_size.relative
        check_enough_rows(len(relative), levels)
        f = self._predictions(dense, gappy)
        size = self._error_size(np.column_stack([gappy, f]))[:, None]
        half = size * np.concatenate(conformal_quantiles(relative[None, :], levels))
        return of_levels(np.stack([f - half, f + half], axis=1), confidence_level)
