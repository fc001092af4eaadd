"""Are we faster than every SVM, at the same error? Digits, cover types and a9a.

Each contender runs in a process of its own, one after the other, once.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kaucus.evaluation import (
    describe_machine,
    format_bytes,
    format_seconds,
    peak_memory,
    timed,
)
from kaucus.experiments import _fast_contenders as who
from kaucus.experiments._bench_files import write_bench
from kaucus.experiments._bench_kmeans_kernel import isolated
from kaucus.experiments._fast_contenders import PARTS, Contender, contenders, load_part
from kaucus.experiments._figures import COLOURS, STYLE, new_figure
from kaucus.experiments._optional import MissingPackageError, require
from kaucus.experiments._progress import make_progress

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


def bench_fast(
    output: str | Path,
    *,
    parts: Sequence[str] = PARTS,
    quick: bool = False,
    data_home: str | Path | None = None,
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Run the comparisons; write ``bench.json``, ``bench.md`` and a figure.

    Parameters
    ----------
    output : path
        Folder for the files.
    parts : sequence of str, default=("mnist", "covtype", "a9a")
        Which comparisons.
    quick : bool, default=False
        Whether a few thousand rows will do (a minute or two).
    data_home : path, default=None
        Folder with the data; None takes the environment's ``KAUCUS_DATA``.
    stream : text stream, default=None
        Where progress goes; None is the standard error.

    Returns
    -------
    dict
        ``machine`` and, for each part, a list of records; a contender whose library
        is missing or that crashed has ``skipped`` and the reason.
    """
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        raise ValueError(f"parts={unknown} are not known; use some of {PARTS}.")
    for part in parts:  # missing data: say so before the work
        load_part(part, True, "float32", data_home)
    jobs = [(part, c) for part in parts for c in contenders(part, quick)]
    content: dict[str, Any] = {"about": ABOUT, "machine": describe_machine()}
    content |= {part: [] for part in parts}
    with make_progress(len(jobs), stream) as progress:
        for part, contender in jobs:
            label = _label(contender)
            progress.begin(f"{part}: {label}")
            record = isolated(
                measure, part, label, quick, data_home, imports=contender.imports
            )
            content[part].append(
                {"contender": contender.name, "points": contender.points, **record}
            )
            progress.advance(f"{part}: {label}")
    _write(Path(output), content)
    return content


def _label(contender: Contender) -> str:
    """Return what tells a contender from the others of its part."""
    points = contender.points
    return contender.name if points is None else f"{contender.name} ({points:,})"


def measure(part: str, label: str, quick: bool, data_home: Any) -> dict[str, Any]:
    """Fit and predict once; meant for a process of its own."""
    (contender,) = (c for c in contenders(part, quick) if _label(c) == label)
    split = load_part(part, quick, contender.dtype, data_home)
    model, fits = contender.make(split.y_train), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ten steps of k-means are meant
        with peak_memory() as memory:
            for seed in contender.seeds or (None,):
                if seed is not None:
                    model.set_params(random_state=seed)
                fits.append(_fit_once(model, split))
    means = {key: float(np.mean([fit[key] for fit in fits])) for key in fits[0]}
    return {
        "rows": split.X_train.shape[0],
        **means,
        "fits": fits,
        "memory": memory.rise,
        "solver": getattr(model, "solver_", None),
    }


def _fit_once(model: Any, split: Any) -> dict[str, float]:
    _, fit_seconds = timed(model.fit, split.X_train, split.y_train)
    predicted, predict_seconds = timed(model.predict, split.X_test)
    return {
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "error_percent": float(100 * np.mean(predicted != split.y_test)),
    }


# ---- tables and the figure -----------------------------------------------------------


def bench_tables(content: dict[str, Any]) -> list[tuple[str, tuple, list]]:
    """List the table of each part that ran as title, headers and rows."""
    return [
        (_title(part, content[part]), HEADERS, table_rows(content[part]))
        for part in PARTS
        if part in content
    ]


def _title(part: str, records: Sequence[dict]) -> str:
    rows = next((r["rows"] for r in records if "rows" in r), None)
    return TITLES[part] if rows is None else f"{TITLES[part]}, {rows:,} training rows"


def table_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the records for :data:`HEADERS`, times over those of the first."""
    first = records[0] if "skipped" not in records[0] else None
    return [_table_row(record, first) for record in records]


def _table_row(record: dict, first: dict | None) -> list[str]:
    points = "" if record["points"] is None else f"{record['points']:,}"
    if "skipped" in record:
        text = f"skipped: {record['skipped']}"
        return [record["contender"], points, text, *[""] * 5]
    times = ("fit_seconds", "predict_seconds")
    return [
        record["contender"],
        points,
        *(format_seconds(record[key]) for key in times),
        _error(record),
        format_bytes(record["memory"]),
        *("–" if first is None else f"{record[key] / first[key]:.2f}" for key in times),
    ]


def _error(record: dict) -> str:
    """Write the error; of several fits the mean, the least and the largest."""
    errors = [fit["error_percent"] for fit in record.get("fits", ())]
    mean = f"{record['error_percent']:.2f}"
    if len(errors) < 2:
        return mean
    return f"{mean} ({min(errors):.2f}–{max(errors):.2f})"


def draw_errors(records: Sequence[dict], path: Path) -> Path:
    """Draw the error over the number of representatives, and over the time."""
    require("matplotlib", extra="plot")
    from matplotlib import rc_context

    done = [r for r in records if "skipped" not in r]
    with rc_context(STYLE):
        canvas = new_figure(10.0, 4.5)
        left, right = canvas.subplots(1, 2, sharey=True)
        _draw_panel(left, done, "points", "representatives")
        _draw_panel(right, done, "fit_seconds", "fit time (s)")
        left.set_ylabel("test error (%)")
        right.legend()
        canvas.savefig(path)
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


def _write(output: Path, content: dict[str, Any]) -> None:
    """Write the files; the figure where matplotlib is there."""
    title = "Representatives against SVMs: time, error and memory"
    write_bench(output, title, content, bench_tables(content))
    if "covtype" not in content:
        return
    try:
        draw_errors(content["covtype"], output / "covtype.png")
    except MissingPackageError as error:
        print(f"no figure: {error}")
