"""Are we faster than every SVM, at the same error? Digits, cover types and a9a."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _fast_contenders as who
from benchmarks._fast_contenders import PARTS, FastContender, contenders, load_part
from benchmarks._runner import (
    Content,
    Settings,
    Step,
    Table,
    fit_and_predict,
    ratio,
    result_cells,
    skipped_row,
)
from papers._figures import COLOURS, figure_file

TITLE = "Representatives against SVMs: time, error and memory"
TITLES = {"mnist": "Digits", "covtype": "Cover types", "a9a": "a9a"}
ABOUT = (
    "Digits: rows minus their mean and divided by their norm, kernel ⟨x, x'⟩⁴, SVC "
    f"with C = {who.SVC_C:g}, ours with C = {who.DIGITS_C:g}, "
    f"{10 * who.DIGITS_FIRST:,} centres and then the hardest rows, in one round or, "
    f"fitted to all rows, in two; the means of {len(who.SEEDS)} fits with as many "
    "random states. Cover types: 80/20 at random, standardised, ours with "
    f"exp(−{who.COVER['gamma']:g} ‖x − x'‖), C = {who.COVER['C']:g}, representatives "
    "in proportion to the classes; Nystroem with the Gaussian kernel of "
    f"γ = {who.NYSTROEM_GAMMA:g}. a9a: CSR, ours with the Gaussian kernel of "
    f"γ = {who.ADULT['gamma']:g}, C = {who.ADULT['C']:g}; the grid is of three folds. "
    "Each in its own process, once but for that; memory is the rise of resident bytes "
    f"during fit and predict, memory_budget={who.BUDGET!r}. Ratios: theirs / the first "
    "row's."
)
HEADERS = (
    "contender",
    "points",
    "fit",
    "predict",
    "error %",
    "memory",
    "fit ×",
    "predict ×",
)


def prepare(settings: Settings) -> None:
    """Check the parts and load their data: where it is missing, say so at once."""
    unknown = sorted(set(settings.parts or ()) - set(PARTS))
    if unknown:
        raise ValueError(f"parts={unknown} are not known; use some of {PARTS}.")
    for part in settings.parts or PARTS:
        load_part(part, True, "float32", settings.data_home)


def steps(settings: Settings) -> list[Step]:
    """List every contender of every part."""
    return [
        Step(
            part,
            f"{part}: {_label(contender)}",
            measure,
            (part, _label(contender), settings.quick, settings.data_home),
            {"contender": contender.name, "points": contender.points},
            contender.imports,
        )
        for part in settings.parts or PARTS
        for contender in contenders(part, settings.quick)
    ]


def _label(contender: FastContender) -> str:
    """Return what tells a contender from the others of its part."""
    points = contender.points
    return contender.name if points is None else f"{contender.name} ({points:,})"


def measure(part: str, label: str, quick: bool, data_home: Any) -> dict[str, Any]:
    """Fit and predict once, or with every seed of a model that draws rows."""
    (contender,) = (c for c in contenders(part, quick) if _label(c) == label)
    split = load_part(part, quick, contender.dtype, data_home)
    model, fits = contender.make(split.y_train), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ten steps of k-means are meant
        for seed in contender.seeds or (None,):
            if seed is not None:
                model.set_params(random_state=seed)
            fits.append(fit_and_predict(model, split))
    means = {key: float(np.mean([fit[key] for fit in fits])) for key in fits[0]}
    return {
        "rows": split.X_train.shape[0],
        **means,
        "memory": max(fit["memory"] for fit in fits),
        "fits": fits,
        "solver": getattr(model, "solver_", None),
    }


# ---- tables and the figure -----------------------------------------------------------


def tables(content: Content) -> list[Table]:
    """Return the table of each part that ran."""
    return [
        Table(_title(part, content[part]), HEADERS, table_rows(content[part]))
        for part in PARTS
        if part in content
    ]


def _title(part: str, records: Sequence[dict]) -> str:
    rows = next((r["rows"] for r in records if "rows" in r), None)
    return TITLES[part] if rows is None else f"{TITLES[part]}, {rows:,} training rows"


def table_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the records for :data:`HEADERS`, times over those of the first."""
    first = records[0] if records and "skipped" not in records[0] else {}
    return [_table_row(record, first) for record in records]


def _table_row(record: dict, first: dict) -> list[str]:
    points = "" if record["points"] is None else f"{record['points']:,}"
    head = [record["contender"], points]
    if "skipped" in record:
        return skipped_row(head, record, len(HEADERS))
    fit, predict, _, memory = result_cells(record)
    times = ("fit_seconds", "predict_seconds")
    ratios = [ratio(record[key], first.get(key)) for key in times]
    return [*head, fit, predict, _error(record), memory, *ratios]


def _error(record: dict) -> str:
    """Write the error; of several fits the mean, the least and the largest."""
    errors = [fit["error_percent"] for fit in record.get("fits", ())]
    mean = f"{record['error_percent']:.2f}"
    if len(errors) < 2:
        return mean
    return f"{mean} ({min(errors):.2f}–{max(errors):.2f})"


def draw_errors(records: Sequence[dict], path: Path) -> Path:
    """Draw the error over the number of representatives, and over the time."""
    done = [r for r in records if "skipped" not in r]
    with figure_file(path, 10.0, 4.5) as canvas:
        left, right = canvas.subplots(1, 2, sharey=True)
        _draw_panel(left, done, "points", "representatives")
        _draw_panel(right, done, "fit_seconds", "fit time (s)")
        left.set_ylabel("test error (%)")
        right.legend()
        canvas.suptitle("Forest cover types: error over representatives and time")
    return path


def _draw_panel(axes, records: Sequence[dict], key: str, label: str) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    names = list(dict.fromkeys(r["contender"] for r in records))
    for colour, marker, name in zip(COLOURS, "osD^v", names, strict=False):
        chosen = [r for r in records if r["contender"] == name]
        errors = [r["error_percent"] for r in chosen]
        if chosen[0][key] is None:  # no number of points: a line across
            axes.axhline(errors[0], color=colour, lw=1.5, ls="--")
            continue
        x = [r[key] for r in chosen]
        axes.plot(x, errors, marker=marker, lw=2, color=colour, label=name)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel(label)
    axes.grid(alpha=0.25)


def draw(content: Content, folder: Path) -> list[Path]:
    """Draw the errors on the cover types, where they ran."""
    if "covtype" not in content:
        return []
    return [draw_errors(content["covtype"], folder / "covtype.png")]
