"""Displays: figures of fitted models."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kaucus._array.namespace import is_sparse, to_numpy
from kaucus._base import on_host, require, stored

# ----------------------------------------------------------------------------------
# Helpers of displays: axes, files, attributes of fitted models, last steps.
# ----------------------------------------------------------------------------------

# Dark enough on white, and apart for colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
# Settings of figures that are files.
STYLE = {
    "font.size": 12,
    "axes.titlesize": 13,
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
}


@contextmanager
def figure_file(
    path: str | Path, width: float = 7.0, height: float = 4.5, **style: Any
) -> Iterator[Any]:
    """Context manager: an empty matplotlib figure, written to a PNG file at the end.

    Width and height are in inches; the style are settings that differ from ``STYLE``.
    """
    require("matplotlib", "plot")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with rc_context({**STYLE, **style}):
        figure = Canvas(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)  # draws without a screen
        yield figure
        figure.savefig(path)


def new_axes(ax: Any = None) -> Any:
    """Return the given axes, or the axes of a new figure."""
    return require("matplotlib.pyplot", "plot").subplots()[1] if ax is None else ax


def last_step(model: Any) -> Any:
    """Return the estimator at the end of a pipeline, or the model itself."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


def needed(model: Any, name: str, remedy: str) -> Any:
    """Return an attribute of a fitted estimator, or raise with the remedy."""
    check_is_fitted(model)
    model = last_step(model)
    if not hasattr(model, name):
        raise ValueError(f"{type(model).__name__} has no {name}; {remedy}")
    return getattr(model, name)


def dense_rows(rows: Any) -> np.ndarray:
    """Return fitted rows as a NumPy array."""
    return rows.toarray() if is_sparse(rows) else to_numpy(rows)


# ----------------------------------------------------------------------------------
# Displays of a fitted model, in the manner of scikit-learn's.
#
# ``Display.from_estimator(model)`` takes what it needs from the model and draws it;
# ``plot(ax=...)`` draws it again elsewhere. matplotlib is imported when it is needed.
# ----------------------------------------------------------------------------------


class Display:
    """Figure of fitted models, in the manner of scikit-learn's displays."""

    def _finish(self, ax, **labels):
        """Label the axes, add a legend; return the display."""
        ax.set(**labels)
        if ax.get_legend_handles_labels()[1]:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


class SearchDisplay(Display):
    """Losses of a search over C, gamma or the steps of a metric.

    Parameters
    ----------
    results : dict of ndarrays
        ``search_results_`` of an estimator.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVMClassifier(C="auto", gamma="tune").fit(X, y)
    >>> display = SearchDisplay.from_estimator(model, x="C")
    >>> display.ax_.get_xlabel()
    'C'
    """

    def __init__(self, results):
        self.results = {name: np.asarray(values) for name, values in results.items()}

    @classmethod
    def from_estimator(cls, estimator, *, x="C", ax=None, **style) -> Self:
        """Make the display of a fitted estimator or pipeline, and draw it.

        Parameters
        ----------
        estimator : estimator or pipeline
            With ``search_results_``.
        x : {"C", "gamma", "n_steps"}, default="C"
        ax : matplotlib Axes, default=None
        **style : dict
            Passed on to matplotlib's ``plot``.

        Returns
        -------
        SearchDisplay
        """
        remedy = "leave C, kernel or gamma to be chosen."
        results = needed(estimator, "search_results_", remedy)
        if not len(results["score"]):
            raise ValueError(f"Nothing was searched; {remedy}")
        return cls(results).plot(x=x, ax=ax, **style)

    def plot(self, *, x="C", ax=None, **style) -> Self:
        """Draw the least loss at each value of ``x``, a line for each kernel.

        Parameters
        ----------
        x : {"C", "gamma", "n_steps"}, default="C"
            ``"n_steps"`` where a metric was learned.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **style : dict
            Passed on to matplotlib's ``plot``.

        Returns
        -------
        SearchDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        if x not in self.results:
            known = [n for n in ("C", "gamma", "n_steps") if n in self.results]
            raise ValueError(f"x={x!r} was not searched; use one of {known}.")
        ax = new_axes(ax)
        for kernel in dict.fromkeys(self.results["kernel"]):
            places, losses = self._least(kernel, x)
            # Widths in one metric say little about those in another: no line.
            line = {"linestyle": "none" if x == "gamma" else "-", "marker": "."}
            ax.plot(places, losses, **{"label": str(kernel), **line, **style})
        chosen = self.results.get("chosen", self.results["score"])
        best = int(np.nanargmax(chosen))
        loss = -self.results["score"][best]
        ax.plot(self.results[x][best], loss, "o", mfc="none", ms=11, color="C3")
        if x == "n_steps":
            ax.xaxis.get_major_locator().set_params(integer=True)
        else:
            ax.set_xscale("log")
        words = {"C": "C", "gamma": "gamma", "n_steps": "steps of the metric"}
        return self._finish(ax, xlabel=words[x], ylabel="loss of rows held out")

    def _least(self, kernel, x: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the values of ``x`` tried with a kernel, and their least losses."""
        own = (self.results["kernel"] == kernel) & np.isfinite(self.results["score"])
        places, numbers = np.unique(self.results[x][own], return_inverse=True)
        losses = np.full(len(places), np.inf)
        np.minimum.at(losses, numbers, -self.results["score"][own])
        return places, losses


class HistoryDisplay(Display):
    """Residual and validation error of an iterative solver, step by step.

    Parameters
    ----------
    history : dict of lists
        ``history_`` of an estimator.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVMClassifier(solver="cg").fit(X, y)
    >>> display = HistoryDisplay.from_estimator(model)
    >>> display.ax_.get_ylabel()
    'residual'
    """

    def __init__(self, history):
        self.history = history

    @classmethod
    def from_estimator(cls, estimator, *, y="residual", ax=None, **style) -> Self:
        """Make the display of a fitted estimator or pipeline, and draw it.

        Parameters
        ----------
        estimator : estimator or pipeline
            With ``history_``.
        y : {"residual", "change", "validation_error"}, default="residual"
        ax : matplotlib Axes, default=None
        **style : dict
            Passed on to matplotlib's ``plot``.

        Returns
        -------
        HistoryDisplay
        """
        remedy = "fit LSSVMClassifier or LSSVMRegressor with an iterative solver."
        history = needed(estimator, "history_", remedy)
        if not history.get("step"):
            raise ValueError(f"history_ is empty, there were no steps; {remedy}")
        return cls(history).plot(y=y, ax=ax, **style)

    def plot(self, *, y="residual", ax=None, **style) -> Self:
        """Draw a value of each step, a line for each run.

        Parameters
        ----------
        y : {"residual", "change", "validation_error"}, default="residual"
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **style : dict
            Passed on to matplotlib's ``plot``.

        Returns
        -------
        HistoryDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        values = np.array(self.history[y], dtype=float)
        runs, steps = (np.asarray(self.history[name]) for name in ("run", "step"))
        ax, several = new_axes(ax), len(np.unique(runs)) > 1
        for run in np.unique(runs):
            own = runs == run
            label = f"run {run}" if several else None
            ax.plot(steps[own], values[own], **{"label": label, **style})
        if y != "validation_error":
            ax.set_yscale("log")
        return self._finish(ax, xlabel="step", ylabel=y.replace("_", " "))


# ----------------------------------------------------------------------------------
# Displays of the coverage of prediction intervals and sets, and of sizes of sets.
# ----------------------------------------------------------------------------------

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class CoverageDisplay(Display):
    """Coverage of intervals or sets against their confidence level.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    confidence_levels : ndarray of shape (n_levels,)
        Levels that were asked for.
    coverages : ndarray of shape (n_levels,)
        Share of the targets held.
    sizes : ndarray of shape (n_levels,), default=None
        Mean width of the intervals, or mean number of classes in a set.
    name : str, default=None
        Name of the model, for the legend.

    Attributes
    ----------
    line_ : matplotlib Artist
        The curve, after :meth:`plot`.
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    See Also
    --------
    SetSizeDisplay : How many classes are in a set?

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(0, 6, size=(400, 1)), rng.normal(size=400)
    >>> model = LSSVMRegressor(C=0.1, gamma=1.0).fit(X[:200], y[:200])
    >>> display = CoverageDisplay.from_estimator(model, X[200:], y[200:], plot=False)
    >>> float(display.coverages[-2].round(1))  # of 90 %
    0.9
    """

    @stored
    def __init__(self, confidence_levels, coverages, *, sizes=None, name=None): ...

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        confidence_levels=LEVELS,
        method="plus",
        score="lac",
        name=None,
        ax=None,
        plot=True,
        **style,
    ) -> Self:
        """Make the display of a fitted regressor or classifier, and draw it.

        Parameters
        ----------
        estimator : fitted regressor or classifier
            With ``predict_interval`` or ``predict_set``.
        X : array-like of shape (n_samples, n_features)
            Rows that were not fitted.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets; the mean over the outputs is drawn.
        confidence_levels : sequence of float, default=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
            Levels to ask for.
        method : str, default="plus"
            As in ``predict_interval`` and ``predict_set``.
        score : str, default="lac"
            As in ``predict_set``; regressors have no use for it.
        name : str, default=None
            Name in the legend; None is that of the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        plot : bool, default=True
            Whether to draw at once.
        **style : dict
            Passed on to matplotlib's ``plot``.

        Returns
        -------
        CoverageDisplay
        """
        levels = np.asarray(confidence_levels, dtype=np.float64)
        if hasattr(estimator, "predict_set"):
            options = _method_of(estimator.predict_set, method)
            sets = to_numpy(estimator.predict_set(X, levels, score=score, **options))
            right = np.asarray(y)[:, None] == estimator.classes_[None, :]
            coverages = (sets & right[:, :, None]).any(axis=1).mean(axis=0)
            sizes = sets.sum(axis=1).mean(axis=0)
        else:
            options = _method_of(estimator.predict_interval, method)
            ends = to_numpy(estimator.predict_interval(X, levels, **options))
            ends = ends.reshape(*ends.shape[:3], -1)
            truth = np.asarray(on_host(y)).reshape(len(ends), 1, -1)
            held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
            coverages = held.mean(axis=(0, 2))
            sizes = (ends[:, 1] - ends[:, 0]).mean(axis=(0, 2))
        name = type(estimator).__name__ if name is None else name
        display = cls(levels, coverages, sizes=sizes, name=name)
        return display.plot(ax=ax, **style) if plot else display

    def plot(self, ax=None, *, name=None, **style) -> Self:
        """Draw the coverage and the line of nominal coverage.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        name : str, default=None
            Name in the legend; None takes the display's own.
        **style : dict
            Passed on to matplotlib's ``plot``.

        Returns
        -------
        CoverageDisplay
            Itself, with ``line_``, ``ax_`` and ``figure_``.
        """
        ax = new_axes(ax)
        style = {"marker": "o", "label": name or self.name, **style}
        [self.line_] = ax.plot(self.confidence_levels, self.coverages, **style)
        ends = [min(self.confidence_levels), max(self.confidence_levels)]
        ax.plot(ends, ends, color="0.6", linestyle="--")
        labels = {"xlabel": "confidence level", "ylabel": "share of targets held"}
        return self._finish(ax, **labels)


class SetSizeDisplay(Display):
    """How many rows have a prediction set of 0, 1, 2, ... classes.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    sizes : ndarray of shape (n_classes + 1,)
        0, 1, ..., n_classes.
    shares : ndarray of shape (n_classes + 1,)
        Share of the rows whose set has so many classes.
    confidence_level : float, default=None
        Of the sets, for the legend.

    Attributes
    ----------
    bars_ : matplotlib container
        The bars, after :meth:`plot`.
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    See Also
    --------
    CoverageDisplay : Do the sets hold what they promise?

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVMClassifier().fit(X[::2], y[::2])
    >>> display = SetSizeDisplay.from_estimator(model, X[1::2], plot=False)
    >>> display.sizes.tolist(), float(display.shares.sum())
    ([0, 1, 2, 3], 1.0)
    """

    @stored
    def __init__(self, sizes, shares, *, confidence_level=None): ...

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        confidence_level=0.9,
        method="plus",
        score="lac",
        ax=None,
        plot=True,
        **style,
    ) -> Self:
        """Make the display of a fitted classifier, and draw it.

        Parameters
        ----------
        estimator : fitted classifier
            With ``predict_set``.
        X : array-like of shape (n_samples, n_features)
            Rows that were not fitted.
        confidence_level : float, default=0.9
            As in ``predict_set``.
        method : str, default="plus"
            As in ``predict_set``.
        score : str, default="lac"
            As in ``predict_set``.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        plot : bool, default=True
            Whether to draw at once.
        **style : dict
            Passed on to matplotlib's ``bar``.

        Returns
        -------
        SetSizeDisplay
        """
        level = float(confidence_level)
        options = _method_of(estimator.predict_set, method)
        sets = to_numpy(estimator.predict_set(X, level, score=score, **options))
        n_classes = sets.shape[1]
        counts = np.bincount(sets.sum(axis=1), minlength=n_classes + 1)
        shares = counts / max(len(sets), 1)
        display = cls(np.arange(n_classes + 1), shares, confidence_level=level)
        return display.plot(ax=ax, **style) if plot else display

    def plot(self, ax=None, **style) -> Self:
        """Draw a bar for each size.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **style : dict
            Passed on to matplotlib's ``bar``.

        Returns
        -------
        SetSizeDisplay
            Itself, with ``bars_``, ``ax_`` and ``figure_``.
        """
        ax = new_axes(ax)
        level = self.confidence_level
        label = None if level is None else f"{100 * level:g} %"
        self.bars_ = ax.bar(self.sizes, self.shares, **{"label": label, **style})
        ax.set_xticks(self.sizes)
        return self._finish(ax, xlabel="classes in the set", ylabel="share of rows")


def _method_of(predict, method: str) -> dict[str, str]:
    """Return the method as an option; committees of tables have one method alone."""
    return {"method": method} if "method" in signature(predict).parameters else {}


# ----------------------------------------------------------------------------------
# A display of prediction intervals over one feature, or over the predictions.
# ----------------------------------------------------------------------------------


class IntervalDisplay(Display):
    """Prediction intervals over one feature, or over the predictions.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The feature, ascending.
    predicted : ndarray of shape (n,)
        Predictions.
    intervals : ndarray of shape (n, 2, n_levels)
        Lower and upper ends.
    confidence_levels : sequence of float
        Their levels.
    y : ndarray of shape (n,), default=None
        True targets, drawn as points.
    feature_name : str, default=None
        Label of the horizontal axis.

    Attributes
    ----------
    line_ : matplotlib Artist
        The predictions, after :meth:`plot`.
    bands_ : list of matplotlib Artists
        The intervals, one band for each level.
    points_ : matplotlib Artist or None
        The targets.
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    See Also
    --------
    CoverageDisplay : Do the intervals hold what they promise?

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMRegressor
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = LSSVMRegressor(C=10, gamma=1.0).fit(X, np.sin(X[:, 0]))
    >>> display = IntervalDisplay.from_estimator(model, X, plot=False)
    >>> display.intervals.shape
    (50, 2, 1)
    """

    @stored
    def __init__(
        self, x, predicted, intervals, confidence_levels, *, y=None, feature_name=None
    ): ...

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        feature=0,
        confidence_level=0.9,
        method="plus",
        ax=None,
        plot=True,
        **style,
    ) -> Self:
        """Make the display of a fitted regressor with one output, and draw it.

        Parameters
        ----------
        estimator : fitted regressor or pipeline
            With ``predict_interval``.
        X : array-like of shape (n_samples, n_features)
            Rows that were not fitted.
        y : array-like of shape (n_samples,), default=None
            Their targets, drawn as points.
        feature : int or str, default=0
            Number or name of the column on the horizontal axis; ``"prediction"``, if
            there is no column of that name: the predictions.
        confidence_level : float or sequence of float, default=0.9
            As in ``predict_interval``.
        method : str, default="plus"
            As in ``predict_interval``.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        plot : bool, default=True
            Whether to draw at once.
        **style : dict
            Passed on to matplotlib's ``fill_between``.

        Returns
        -------
        IntervalDisplay
        """
        interval = needed(estimator, "predict_interval", "use a regressor that has it.")
        rows = estimator[:-1].transform(X) if hasattr(estimator, "steps") else X
        predicted = to_numpy(last_step(estimator).predict(rows))
        column, name = _column(X, feature, predicted)
        order = np.argsort(column, kind="stable")
        levels = np.atleast_1d(confidence_level).tolist()
        intervals = to_numpy(interval(rows, levels, **_method_of(interval, method)))
        if intervals.ndim > 3:
            raise ValueError(
                f"The model has {intervals.shape[3]} outputs; IntervalDisplay draws "
                "one. Pass one of its intervals to IntervalDisplay itself."
            )
        display = cls(
            column[order],
            predicted[order],
            intervals[order],
            levels,
            y=None if y is None else np.asarray(y)[order],
            feature_name=name,
        )
        return display.plot(ax=ax, **style) if plot else display

    def plot(self, ax=None, **style) -> Self:
        """Draw predictions, intervals and targets.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **style : dict
            Passed on to matplotlib's ``fill_between``.

        Returns
        -------
        IntervalDisplay
            Itself, with the artists, ``ax_`` and ``figure_``.
        """
        ax = new_axes(ax)
        [self.line_] = ax.plot(self.x, self.predicted, label="prediction")
        style = {"color": self.line_.get_color(), "alpha": 0.2, **style}
        self.bands_ = [
            ax.fill_between(
                self.x, *self.intervals[:, :, k].T, label=self._label(k), **style
            )
            for k in range(len(self.confidence_levels))
        ]
        self.points_ = None
        if self.y is not None:
            self.points_ = ax.scatter(self.x, self.y, s=8, color="0.3", label="y")
        return self._finish(ax, xlabel=self.feature_name or "feature", ylabel="y")

    def _label(self, k: int) -> str:
        """Return the label of a band: its level and coverage."""
        label = f"{100 * self.confidence_levels[k]:g} %"
        if self.y is None:
            return label
        lower, upper = self.intervals[:, :, k].T
        held = np.mean((lower <= self.y) & (self.y <= upper))
        return f"{label}, holds {100 * held:.1f} %"


def _column(X, feature, predicted: np.ndarray) -> tuple[np.ndarray, str]:
    """Return a column of the rows, or the predictions, and its name."""
    names = [str(name) for name in getattr(X, "columns", [])]
    if feature == "prediction" and feature not in names:
        return predicted, feature
    if isinstance(feature, str) and feature not in names:
        raise ValueError(
            f"feature={feature!r} is no column of X; expected a number, or one of "
            f"{names}."
        )
    number = names.index(feature) if isinstance(feature, str) else feature
    values = to_numpy(X) if hasattr(X, "dtype") else np.asarray(X)
    return values[:, number], names[number] if names else f"feature {number}"


# ----------------------------------------------------------------------------------
# Display of the representatives of the largest weight, as pictures or as a table.
# ----------------------------------------------------------------------------------


class RepresentativesDisplay(Display):
    """The representatives of the largest weight.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        Largest weight first.
    weights : ndarray of shape (m,)
        How many rows each stands for.
    labels : list of str
        The class of each, or its prediction.
    columns : list of str
        Names of the columns.
    importances : ndarray of shape (d,)
        How much each column counts.
    image_shape : tuple of int or None, default=None
        Shape of a picture, if rows are pictures: (height, width), or with channels
        first.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kaucus import KMeansKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KMeansKernelClassifier(3, C=10, learn_metric=False, random_state=0)
    >>> shape = (8, 8)
    >>> display = RepresentativesDisplay.from_estimator(
    ...     model.fit(X, y), n_shown=10, image_shape=shape
    ... )
    >>> display.rows.shape
    (10, 64)
    """

    @stored
    def __init__(
        self, rows, weights, labels, columns, importances, image_shape=None
    ): ...

    @classmethod
    def of(cls, estimator, *, n_shown=20, image_shape=None) -> Self:
        """Make the display of a fitted estimator or pipeline, without drawing it.

        Parameters
        ----------
        estimator : KMeansKernelClassifier, KMeansKernelRegressor or pipeline
        n_shown : int, default=20
            Most representatives.
        image_shape : tuple of int, default=None

        Returns
        -------
        RepresentativesDisplay
        """
        remedy = "use KMeansKernelClassifier or KMeansKernelRegressor."
        points = needed(estimator, "representatives_", remedy)
        model: Any = last_step(estimator)
        weights, rows = to_numpy(model.representative_weights_), dense_rows(points)
        first = np.argsort(-weights, kind="stable")[:n_shown]
        with warnings.catch_warnings():  # the rows have no names here, and need none
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            spoken = to_numpy(model.predict(rows[first]))
        d = rows.shape[1]
        columns = getattr(model, "feature_names_in_", [f"x{c}" for c in range(d)])
        counts = getattr(model, "feature_importances_", rows.std(axis=0))
        names = [f"{v:.4g}" if spoken.dtype.kind == "f" else str(v) for v in spoken]
        return cls(
            rows[first],
            weights[first],
            names,
            [str(column) for column in columns],
            to_numpy(counts),
            image_shape,
        )

    @classmethod
    def from_estimator(
        cls, estimator, *, n_shown=20, image_shape=None, ax=None
    ) -> Self:
        """Make the display of a fitted estimator or pipeline, and draw it.

        Parameters
        ----------
        estimator : KMeansKernelClassifier, KMeansKernelRegressor or pipeline
        n_shown : int, default=20
            Most representatives, those of largest weight.
        image_shape : tuple of int, default=None
            Shape of a picture, if rows are pictures.
        ax : matplotlib Axes, default=None

        Returns
        -------
        RepresentativesDisplay
        """
        return cls.of(estimator, n_shown=n_shown, image_shape=image_shape).plot(ax=ax)

    def most_important(self, n_columns: int) -> np.ndarray:
        """Return the numbers of the columns that count most."""
        return np.argsort(-self.importances, kind="stable")[:n_columns]

    def plot(self, *, n_columns=10, ax=None) -> Self:
        """Draw pictures, or a table of the columns that count most.

        Parameters
        ----------
        n_columns : int, default=10
            Most columns of a table.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        RepresentativesDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        ax = new_axes(ax)
        if self.image_shape is None:
            self._plot_table(ax, self.most_important(n_columns))
        else:
            sheet = picture_sheet(self.rows, self.image_shape)
            ax.imshow(sheet, cmap="gray", vmin=0, vmax=1)
            ax.set_axis_off()
            ax.set_title(f"the {len(self.rows)} that represent most rows")
        return self._finish(ax)

    def _plot_table(self, ax: Any, columns: np.ndarray) -> None:
        values = self.rows[:, columns]
        spread = values.std(axis=0)
        scaled = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        ax.imshow(scaled, cmap="coolwarm", vmin=-2.5, vmax=2.5, aspect="auto")
        names = [self.columns[c] for c in columns]
        ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
        pairs = zip(self.weights, self.labels, strict=True)
        sizes = [f"{w:.0f} × {n}" for w, n in pairs]
        ax.set_yticks(range(len(sizes)), sizes)
        ax.set_title("rows represented × label; colour: above or below the mean")


def picture_sheet(rows: np.ndarray, image_shape: tuple[int, ...]) -> np.ndarray:
    """Return rows as pictures on one sheet, ten in a line, values from 0 to 1.

    Pictures with channels give a sheet of shape (height, width, 4). The lines between
    pictures are NaN, or of opacity 0.
    """
    low = rows.min(axis=1, keepdims=True)
    span = rows.max(axis=1, keepdims=True) - low
    scaled = (rows - low) / np.where(span > 0, span, 1.0)
    pictures = scaled.reshape(len(rows), *image_shape)
    if pictures.ndim == 4:
        colours = np.moveaxis(pictures, 1, -1)
        pictures = np.concatenate([colours, np.ones_like(colours[..., :1])], axis=-1)
    n, h, w = pictures.shape[:3]
    across = min(n, 10)
    shape = (-(-n // across) * (h + 1), across * (w + 1), *pictures.shape[3:])
    sheet = np.zeros(shape) if pictures.ndim == 4 else np.full(shape, np.nan)
    for i, picture in enumerate(pictures):
        top, left = (h + 1) * (i // across), (w + 1) * (i % across)
        sheet[top : top + h, left : left + w] = picture
    return sheet
