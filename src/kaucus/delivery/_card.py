"""A model card, as those who publish models write it: skops's, filled in."""

from kaucus.contract import require
from kaucus.delivery._report import Report


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
    last = model.steps[-1][1] if hasattr(model, "steps") else model
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
