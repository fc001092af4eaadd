"""Tunability of a model: P_f(α), the share of a grid of parameters that scores α.

For a model whose score f depends on parameters out of a grid G (Czarnecki & Tabor,
Sec. 5),

    P_f(α) = #{g ∈ G : f(g) ≥ α} / #G,

the share of the grid that is at least as good as α. As a ROC curve shows a
classifier over all thresholds, it shows a model over all demands; its area is one
number for comparing models.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaucus.evaluation._drawing import new_axes


class TunabilityCurve(NamedTuple):
    """P_f(α) at some α.

    Examples
    --------
    >>> curve = tunability_curve([0.5, 0.9, 0.9, 0.7])
    >>> curve.probabilities.tolist()
    [1.0, 0.75, 0.5]
    """

    alphas: np.ndarray
    """Scores that are asked for, ascending, (m,)."""
    probabilities: np.ndarray
    """Share of the grid that reaches them, (m,)."""


def tunability_curve(scores, alphas=None) -> TunabilityCurve:
    """Return the share of a grid whose score is at least α, for each α.

    Parameters
    ----------
    scores : array-like, fitted search or dict
        One score for each point of the grid, in any shape; or a fitted
        ``GridSearchCV``, its ``cv_results_``, or the result of
        :func:`grid_search_gamma_C`, of which the mean test scores are taken.
    alphas : array-like of shape (m,), default=None
        None takes the scores themselves, where the curve steps.

    Returns
    -------
    TunabilityCurve
        ``alphas`` and ``probabilities``.

    Examples
    --------
    >>> curve = tunability_curve([0.5, 0.9, 0.9, 0.7])
    >>> curve.alphas.tolist(), curve.probabilities.tolist()
    ([0.5, 0.7, 0.9], [1.0, 0.75, 0.5])
    """
    values = np.sort(grid_scores(scores))
    alphas = np.unique(values) if alphas is None else _numbers(alphas, "alphas")
    below = np.searchsorted(values, alphas, side="left")
    return TunabilityCurve(alphas, 1 - below / len(values))


def tunability_auc(scores, *, lower=None, upper=1.0) -> float:
    """Return the area under P_f(α) for α from ``lower`` to ``upper``, exactly.

    That is the mean over the grid of how far a score lies above ``lower``. To compare
    models give all of them the same ``lower``; the paper takes the worst score of any
    model, below which every curve is 1.

    Parameters
    ----------
    scores : array-like, fitted search or dict
        As in :func:`tunability_curve`.
    lower : float, default=None
        None is the worst of these scores.
    upper : float, default=1.0
        The best score there can be; 1 for an accuracy.

    Returns
    -------
    float
        Between 0 and ``upper - lower``.

    Examples
    --------
    >>> round(tunability_auc([0.5, 0.9, 0.9, 0.7], lower=0.5), 3)
    0.25
    """
    values = grid_scores(scores)
    lower = float(values.min()) if lower is None else float(lower)
    if not lower <= upper:
        raise ValueError(
            f"lower={lower:g} exceeds upper={upper:g}; pass the worst score of all "
            "models as lower, and the best possible score as upper."
        )
    return float(np.mean(np.clip(values, lower, upper)) - lower)


def grid_scores(scores: Any) -> np.ndarray:
    """Return the mean score of each point of a grid, (n,)."""
    results = getattr(scores, "cv_results_", scores)
    if isinstance(results, Mapping):
        if "mean_test_score" not in results:
            raise ValueError(
                "scores has no 'mean_test_score'; pass the cv_results_ of a search "
                f"with one metric, or an array of scores. It has {sorted(results)}."
            )
        results = results["mean_test_score"]
    return _numbers(results, "scores")


def _numbers(values: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={values!r} must be numbers.") from error
    if array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name} has {array.size} values, {np.isnan(array).sum()} of them NaN; "
            "expected finite numbers, at least one. Leave out what failed."
        )
    return array


class TunabilityDisplay:
    """Curves of P_f(α), in the manner of scikit-learn's displays.

    Make one with :meth:`from_scores` or :meth:`from_cv_results`, or from a curve.

    Parameters
    ----------
    alphas : ndarray of shape (m,)
        Scores that are asked for.
    probabilities : ndarray of shape (m,)
        Share of the grid that reaches them.
    auc : float, default=None
        Area under the curve, for the legend.
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
    tunability_curve : The numbers alone.

    Examples
    --------
    >>> display = TunabilityDisplay.from_scores([0.5, 0.9, 0.7], name="RBF", plot=False)
    >>> round(display.auc, 3)
    0.2
    """

    def __init__(self, alphas, probabilities, *, auc=None, name=None):
        self.alphas = alphas
        self.probabilities = probabilities
        self.auc = auc
        self.name = name

    @classmethod
    def from_scores(
        cls, scores, *, lower=None, upper=1.0, name=None, ax=None, plot=True, **style
    ):
        """Make the display of one grid of scores, and draw it.

        Parameters
        ----------
        scores : array-like, fitted search or dict
            As in :func:`tunability_curve`.
        lower, upper : float, default=None, 1.0
            As in :func:`tunability_auc`.
        name : str, default=None
            Name of the model.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        plot : bool, default=True
            Whether to draw at once.
        **style : dict
            Passed on to matplotlib's ``step``.

        Returns
        -------
        TunabilityDisplay
        """
        curve = tunability_curve(scores)
        auc = tunability_auc(scores, lower=lower, upper=upper)
        start = curve.alphas[0] if lower is None else lower
        # P is 1 up to the worst score and 0 beyond the best.
        alphas = np.r_[min(start, curve.alphas[0]), curve.alphas, upper]
        shares = np.r_[1.0, curve.probabilities, 0.0]
        display = cls(alphas, shares, auc=auc, name=name)
        return display.plot(ax=ax, **style) if plot else display

    @classmethod
    def from_cv_results(cls, search, **options):
        """Make the display of a fitted search, and draw it.

        Parameters
        ----------
        search : GridSearchCV, RandomizedSearchCV or dict
            A fitted search, or its ``cv_results_``.
        **options : dict
            As in :meth:`from_scores`.

        Returns
        -------
        TunabilityDisplay
        """
        if not isinstance(getattr(search, "cv_results_", search), Mapping):
            raise ValueError(
                f"{type(search).__name__} has no cv_results_; fit the search first, or "
                "pass an array of scores to from_scores."
            )
        return cls.from_scores(search, **options)

    def plot(self, ax=None, *, name=None, **style):
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        name : str, default=None
            Name in the legend; None takes the display's own.
        **style : dict
            Passed on to matplotlib's ``step``.

        Returns
        -------
        TunabilityDisplay
            Itself, with ``line_``, ``ax_`` and ``figure_``.
        """
        ax = new_axes(ax)
        style = {"where": "pre", "label": self._label(name), **style}
        [self.line_] = ax.step(self.alphas, self.probabilities, **style)
        ax.set_xlabel("score α")
        ax.set_ylabel("share of the grid with at least α")
        ax.set_ylim(0, 1.02)
        if style["label"] is not None:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _label(self, name: str | None) -> str | None:
        name = self.name if name is None else name
        area = None if self.auc is None else f"AUC {self.auc:.3f}"
        parts = [part for part in (name, area) if part]
        return ", ".join(parts) or None
