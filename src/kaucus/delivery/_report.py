"""Report on a fitted model as one HTML page, and as a model card in Markdown."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import kaucus
from kaucus.backend import is_sparse, to_numpy
from kaucus.contract import require
from kaucus.delivery._files import last_step, write_whole
from kaucus.delivery._report_page import Section, page
from kaucus.delivery._table_models import Score, score_predictions


class Subject:
    """A fitted model, test rows with their targets, and the model's predictions.

    Parameters
    ----------
    model : estimator or pipeline
    X, y
        Test rows and their targets.
    sample_weight : array-like of shape (n,) or None
    image_shape : tuple of int or None
    about : mapping
        Metadata of the model file.
    """

    def __init__(self, model, X, y, sample_weight, image_shape, about):
        self.model, self.X, self.image_shape, self.about = model, X, image_shape, about
        self.last = last_step(model)
        self.y = np.asarray(to_numpy(y))
        self.weight = None if sample_weight is None else np.asarray(sample_weight)
        self.classes = getattr(model, "classes_", None)
        self.predicted = to_numpy(model.predict(X))
        self.score: Score = score_predictions(
            model, self.y, self.predicted, self.weight
        )
        self.probabilities = None
        if hasattr(model, "predict_proba"):
            self.probabilities = to_numpy(model.predict_proba(X))
        self.representatives = None
        if hasattr(self.last, "representatives_"):
            from kaucus.evaluation import RepresentativesDisplay

            self.representatives = RepresentativesDisplay.of(
                self.last, n_shown=20, image_shape=image_shape
            )

    @property
    def n_rows(self) -> int:
        """Number of the rows that were looked at."""
        return len(self.y)

    def row(self, i: int) -> dict[str, Any]:
        """Return one row as it was given, by the names of its columns."""
        if hasattr(self.X, "iloc"):
            return dict(self.X.iloc[i])
        rows = self.X[[i]].toarray() if is_sparse(self.X) else to_numpy(self.X[[i]])
        names = getattr(self.model, "feature_names_in_", None)
        names = [f"x{c}" for c in range(rows.shape[1])] if names is None else names
        return dict(zip(names, rows[0], strict=True))


class Report:
    """Report on a model; ``write_html`` writes it as one page.

    Parameters
    ----------
    title : str
        Heading of the page.
    subtitle : str
        The line below it.
    sections : list of Section
        Parts of the page, as HTML.
    score : Score
        Error on the rows, with its interval.
    """

    def __init__(self, title, subtitle, sections, score):
        self.title, self.subtitle = title, subtitle
        self.sections: list[Section] = sections
        self.score = score

    def to_html(self) -> str:
        """Return the page: one file, without scripts, that needs no network."""
        date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        foot = f"kaucus {kaucus.__version__}, {date}"
        return page(self.title, self.subtitle, self.sections, foot)

    def write_html(self, path="report.html") -> Path:
        """Write the page.

        Parameters
        ----------
        path : str or path, default="report.html"
            A folder, a device, a FIFO or a read-only file is an error.

        Returns
        -------
        Path
        """
        path = Path(path)
        write_whole(path, self.to_html().encode())
        return path

    def __repr__(self) -> str:
        names = ", ".join(section.name for section in self.sections)
        return f"Report({self.title!r}: {names})"


def report(
    model,
    X,
    y,
    *,
    sample_weight=None,
    title=None,
    image_shape=None,
    about: Mapping | None = None,
) -> Report:
    """Report on a fitted model, judged by rows that were not in the fit.

    Parameters
    ----------
    model : classifier, regressor or pipeline
        Fitted.
    X : array-like or DataFrame of shape (n_samples, n_features)
        Rows that were not in the fit.
    y : array-like of shape (n_samples,)
        Their targets.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, for the error.
    title : str, default=None
        Heading of the page; None: the name of the estimator.
    image_shape : tuple of int, default=None
        Shape of a picture, if rows are pictures: (28, 28), or (3, 32, 32).
    about : mapping, default=None
        More to tell, as :func:`kaucus.persistence.describe` returns it: ``rows``,
        ``target``, ``fit_seconds``, ``memory``.

    Returns
    -------
    Report
        ``report.write_html("report.html")`` writes one page that needs no network.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kaucus
    >>> X, y = load_iris(return_X_y=True)
    >>> model = kaucus.LSSVMClassifier().fit(X[::2], y[::2])
    >>> found = kaucus.report(model, X[1::2], y[1::2])
    >>> found.write_html("iris.html").name
    'iris.html'
    """
    require("matplotlib", "plot")
    # Not before: evaluation imports rich where there is one, by scikit-learn's metrics.
    from kaucus.delivery._report_sections import SECTIONS

    check_is_fitted(model)
    if not hasattr(model, "predict"):
        raise ValueError(
            f"{type(model).__name__} does not predict; pass a classifier or regressor."
        )
    subject = Subject(model, X, y, sample_weight, image_shape, dict(about or {}))
    sections = [section for make in SECTIONS if (section := make(subject))]
    target = subject.about.get("target")
    name = type(subject.last).__name__
    title = title or (f"{name} of {target}" if target else name)
    subtitle = f"Looked at on {subject.n_rows:,} rows that were not in the fit."
    return Report(title, subtitle, sections, subject.score)


def model_card(model, report: Report) -> str:
    """Return a model card in Markdown.

    Parameters
    ----------
    model : estimator or pipeline
        Fitted.
    report : Report
        Of rows that it has not seen.

    Returns
    -------
    str
        With the model's parameters; "More information needed" where only its author
        knows.
    """
    cards = require("skops.card", "tables")
    last = last_step(model)
    card = cards.Card(last, model_diagram=False)
    told = last.explain() if hasattr(last, "explain") else type(last).__name__
    score = report.score
    card.add(
        **{
            "Model description": f"{report.title}. {told}",
            "Evaluation Results": f"{score.name} {score}, on {score.n_rows:,} rows "
            "that were not in the fit.",
        }
    )
    return card.render()
