"""Displays of the coverage of prediction intervals and sets, and of sizes of sets."""

import numpy as np

from kaucus.backend import to_numpy
from kaucus.evaluation._drawing import new_axes

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class CoverageDisplay:
    """Share of targets that intervals or sets hold, against the level they are for.

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

    def __init__(self, confidence_levels, coverages, *, sizes=None, name=None):
        self.confidence_levels = confidence_levels
        self.coverages = coverages
        self.sizes = sizes
        self.name = name

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
    ):
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
            sets = estimator.predict_set(X, levels, score=score, method=method)
            coverages, sizes = _of_sets(to_numpy(sets), y, estimator.classes_)
        else:
            ends = estimator.predict_interval(X, levels, method=method)
            coverages, sizes = _of_intervals(to_numpy(ends), y)
        name = type(estimator).__name__ if name is None else name
        display = cls(levels, coverages, sizes=sizes, name=name)
        return display.plot(ax=ax, **style) if plot else display

    def plot(self, ax=None, *, name=None, **style):
        """Draw the coverage, and the line on which it is as promised.

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
        ax.set_xlabel("confidence level")
        ax.set_ylabel("share of targets held")
        if style["label"] is not None:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


class SetSizeDisplay:
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

    def __init__(self, sizes, shares, *, confidence_level=None):
        self.sizes = sizes
        self.shares = shares
        self.confidence_level = confidence_level

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
    ):
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
        sets = to_numpy(estimator.predict_set(X, level, score=score, method=method))
        n_classes = sets.shape[1]
        counts = np.bincount(sets[:, :, 0].sum(axis=1), minlength=n_classes + 1)
        shares = counts / max(len(sets), 1)
        display = cls(np.arange(n_classes + 1), shares, confidence_level=level)
        return display.plot(ax=ax, **style) if plot else display

    def plot(self, ax=None, **style):
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
        ax.set_xlabel("classes in the set")
        ax.set_ylabel("share of rows")
        ax.set_xticks(self.sizes)
        if label is not None:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


# ---- measuring -----------------------------------------------------------------------


def _of_intervals(ends: np.ndarray, y) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of targets held, and the mean width, of each level."""
    y = to_numpy(y) if hasattr(y, "shape") else np.asarray(y)
    y, ends = y.reshape(len(y), -1), ends.reshape(*ends.shape[:3], -1)
    held = (ends[:, 0] <= y[:, None, :]) & (y[:, None, :] <= ends[:, 1])
    return held.mean(axis=(0, 2)), (ends[:, 1] - ends[:, 0]).mean(axis=(0, 2))


def _of_sets(sets: np.ndarray, y, classes) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of classes held, and the mean size, of each level."""
    right = np.asarray(y)[:, None] == classes[None, :]
    held = (sets & right[:, :, None]).any(axis=1)
    return held.mean(axis=0), sets.sum(axis=1).mean(axis=0)
