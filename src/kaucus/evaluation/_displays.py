"""Displays of a fitted model, in the manner of scikit-learn's.

``Display.from_estimator(model)`` takes what it needs from the model and draws it;
``plot(ax=...)`` draws it again elsewhere. matplotlib is imported when it is needed.
"""

import numpy as np

from kaucus.evaluation._drawing import needed, new_axes


class SearchDisplay:
    """Losses of a search over C, gamma or the steps of a metric.

    Parameters
    ----------
    results : dict of ndarrays
        ``search_results_`` of an estimator.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVMClassifierCV(kernel="rbf").fit(X, y)
    >>> display = SearchDisplay.from_estimator(model, x="C")
    >>> display.ax_.get_xlabel()
    'C'
    """

    def __init__(self, results):
        self.results = {name: np.asarray(values) for name, values in results.items()}

    @classmethod
    def from_estimator(cls, estimator, *, x="C", ax=None, **style):
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

    def plot(self, *, x="C", ax=None, **style):
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
            line = {"linestyle": "none" if x == "gamma" else "-"}
            kept = {"marker": ".", "label": str(kernel), **line, **style}
            ax.plot(places, losses, **kept)
        best = int(np.nanargmax(self.results["score"]))
        place = self.results[x][best]
        ax.plot(place, -self.results["score"][best], "o", mfc="none", ms=11, color="C3")
        if x == "n_steps":
            ax.xaxis.get_major_locator().set_params(integer=True)
        else:
            ax.set_xscale("log")
        words = {"C": "C", "gamma": "gamma", "n_steps": "steps of the metric"}
        ax.set(xlabel=words[x], ylabel="loss of rows held out")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _least(self, kernel, x: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the values of ``x`` tried with a kernel, and their least losses."""
        own = (self.results["kernel"] == kernel) & np.isfinite(self.results["score"])
        places, numbers = np.unique(self.results[x][own], return_inverse=True)
        losses = np.full(len(places), np.inf)
        np.minimum.at(losses, numbers, -self.results["score"][own])
        return places, losses


class HistoryDisplay:
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
    def from_estimator(cls, estimator, *, y="residual", ax=None, **style):
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

    def plot(self, *, y="residual", ax=None, **style):
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
        ax = new_axes(ax)
        for run in np.unique(runs):
            own = runs == run
            label = None if len(np.unique(runs)) == 1 else f"run {run}"
            ax.plot(steps[own], values[own], **{"label": label, **style})
        if y != "validation_error":
            ax.set_yscale("log")
        ax.set(xlabel="step", ylabel=y.replace("_", " "))
        if len(np.unique(runs)) > 1:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self
