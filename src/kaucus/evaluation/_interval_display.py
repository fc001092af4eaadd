"""A display of prediction intervals over one feature, or over the predictions."""

import numpy as np

from kaucus.backend import to_numpy
from kaucus.evaluation._drawing import last_step, needed, new_axes


class IntervalDisplay:
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

    def __init__(
        self, x, predicted, intervals, confidence_levels, *, y=None, feature_name=None
    ):
        self.x = x
        self.predicted = predicted
        self.intervals = intervals
        self.confidence_levels = confidence_levels
        self.y = y
        self.feature_name = feature_name

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
    ):
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
        intervals = to_numpy(interval(rows, confidence_level, method=method))
        if intervals.ndim > 3:
            raise ValueError(
                f"The model has {intervals.shape[3]} outputs; IntervalDisplay draws "
                "one. Pass one of its intervals to IntervalDisplay itself."
            )
        display = cls(
            column[order],
            predicted[order],
            intervals[order],
            np.atleast_1d(confidence_level).tolist(),
            y=None if y is None else np.asarray(y)[order],
            feature_name=name,
        )
        return display.plot(ax=ax, **style) if plot else display

    def plot(self, ax=None, **style):
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
        ax.set_xlabel(self.feature_name or "feature")
        ax.set_ylabel("y")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _label(self, k: int) -> str:
        """Return the level of a band, and the share of targets within it."""
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
