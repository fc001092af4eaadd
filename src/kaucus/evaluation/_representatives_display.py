"""Display of the representatives of the largest weight, as pictures or as a table."""

import warnings
from typing import Any

import numpy as np

from kaucus.backend import to_numpy
from kaucus.evaluation._drawing import dense_rows, last_step, needed, new_axes


class RepresentativesDisplay:
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

    def __init__(self, rows, weights, labels, columns, importances, image_shape=None):
        self.rows, self.weights, self.labels = rows, weights, labels
        self.columns, self.importances = columns, importances
        self.image_shape = image_shape

    @classmethod
    def of(cls, estimator, *, n_shown=20, image_shape=None):
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
        weights = to_numpy(model.representative_weights_)
        first = np.argsort(-weights, kind="stable")[:n_shown]
        rows = dense_rows(points)
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
    def from_estimator(cls, estimator, *, n_shown=20, image_shape=None, ax=None):
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

    def plot(self, *, n_columns=10, ax=None):
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
            self._plot_pictures(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _plot_table(self, ax: Any, columns: np.ndarray) -> None:
        values = self.rows[:, columns]
        spread = values.std(axis=0)
        scaled = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        ax.imshow(scaled, cmap="coolwarm", vmin=-2.5, vmax=2.5, aspect="auto")
        names = [self.columns[c] for c in columns]
        ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
        sizes = [
            f"{w:.0f} × {n}" for w, n in zip(self.weights, self.labels, strict=True)
        ]
        ax.set_yticks(range(len(sizes)), sizes)
        ax.set_title("rows spoken for × label; colour: above or below the mean")

    def _plot_pictures(self, ax: Any) -> None:
        sheet = picture_sheet(self.rows, self.image_shape)
        ax.imshow(sheet, cmap="gray", vmin=0, vmax=1)
        ax.set_axis_off()
        ax.set_title(f"the {len(self.rows)} that speak for most rows")


def picture_sheet(rows: np.ndarray, image_shape: tuple[int, ...]) -> np.ndarray:
    """Return rows as pictures on one sheet, ten in a line, values from 0 to 1.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    image_shape : tuple of int
        (height, width), or (channels, height, width).

    Returns
    -------
    ndarray of shape (height, width) or (height, width, 4)
        Nothing is drawn between the pictures: NaN, or the opacity 0.
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
