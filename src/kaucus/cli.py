"""The ``kaucus`` command: its arguments and options.

What a command needs is imported when it runs: the help answers at once.
"""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kaucus import __version__

__all__ = ["main"]

app = typer.Typer(
    name="kaucus",
    help="Kernel machines in which a few representatives speak for all the data.",
    epilog="Exit codes: 0 all is well, 1 something failed, 2 wrong usage or a file "
    "that cannot be used, 3 a file or an optional package is missing, 130 Ctrl-C.",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments; None takes those of the process.

    Returns
    -------
    int
        Exit code: 0 all is well; 1 something failed; 2 wrong usage, or a file that
        cannot be used; 3 a file or an optional package is missing; 130 Ctrl-C.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    kaucus ...
    0
    """
    args = sys.argv[1:] if argv is None else list(argv)
    with _warnings_as_lines():
        try:
            result = app(args or ["--help"], prog_name="kaucus", standalone_mode=False)
            # A call without a command shows the help, and is no success.
            return (int(result) if isinstance(result, int) else 0) if args else 2
        except typer.Exit as stop:
            return stop.exit_code
        except (KeyboardInterrupt, typer.Abort):
            return _complain("interrupted", 130)
        except typer.BadParameter.__bases__[0] as error:  # any wrong usage
            where = getattr(error, "ctx", None)
            command = where.command_path if where else "kaucus"
            return _complain(f"{error.format_message()} Try '{command} --help'.", 2)
        except BrokenPipeError:  # `| head` has enough; no second error at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except Exception as error:
            code = _exit_code_of(error)
            if code is None:
                raise
            return _complain(error, code)


def _exit_code_of(error: Exception) -> int | None:
    """Return the exit code of an error that needs no traceback, None of any other."""
    from kaucus._base import MissingPackageError
    from kaucus.export.files import ModelFileError
    from kaucus.export.onnx_kernels import NotExportableError
    from kaucus.export.tables import TableError

    if isinstance(error, (FileNotFoundError, MissingPackageError)):
        return 3
    usage = (ModelFileError, NotExportableError, TableError, FileExistsError)
    usage += (IsADirectoryError, NotADirectoryError, PermissionError)
    if isinstance(error, usage):
        return 2
    # Whatever a library refuses with a message: a full disk, too little memory.
    return 1 if isinstance(error, (ValueError, OSError, MemoryError)) else None


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Context manager: print each warning as one line, once in a run."""
    seen = set()

    def show(message, *_, **__) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            _complain(f"warning: {message}", 0)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning):
            warnings.simplefilter("ignore", category)
        # scikit-learn's names no column; ours does.
        warnings.filterwarnings("ignore", "Found unknown categories")
        warnings.showwarning = show
        yield


def _complain(problem: object, code: int) -> int:
    """Print one line about a problem, and return the exit code."""
    print(f"kaucus: {' '.join(str(problem).split())}", file=sys.stderr)
    return code


Model = Annotated[Path, typer.Argument(help="A file that `kaucus fit` has written.")]
Table = Annotated[
    Path,
    typer.Argument(
        help="Rows: .csv, .tsv or .txt (also .gz, .bz2, .xz, .zst), .parquet, .feather."
    ),
]
Device = Annotated[
    str | None, typer.Option(help="Where to compute: cpu, cuda, cuda:1, ...")
]
Memory = Annotated[
    str | None, typer.Option(help="Bound on memory, such as 4GiB.", metavar="SIZE")
]
Truth = Annotated[
    str | None,
    typer.Option(help="Column of the truth; else that of fit.", metavar="COLUMN"),
]
Weights = Annotated[
    str | None,
    typer.Option(help="Column of the weights; else all are 1.", metavar="COLUMN"),
]
Trusted = Annotated[
    list[str] | None,
    typer.Option(help="A type of your own that the model file may hold."),
]


def _show_version(asked: bool) -> None:
    if asked:
        print(f"kaucus {__version__}")
        raise typer.Exit


@app.callback()
def _kaucus(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Describe the options before a command."""


def _examples(*lines: str) -> str:
    """Return lines of a shell for the end of a help page."""
    return "Examples:\n\n" + "\n\n".join(f"$ {line}" for line in lines)


@app.command(
    epilog=_examples(
        "kaucus fit train.csv --target price",
        "kaucus fit train.parquet --target label --test test.parquet -o model.skops",
        "kaucus fit train.csv.gz --target y --time fast --memory-budget 2GiB",
    )
)
def fit(
    train: Table,
    target: Annotated[str, typer.Option(help="Column to predict.", metavar="COLUMN")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the model goes.")
    ] = Path("model.skops"),
    task: Annotated[
        str | None,
        typer.Option(help="classification or regression; else as the target looks."),
    ] = None,
    time: Annotated[
        str, typer.Option(help="How much to spend: fast, balanced or best.")
    ] = "balanced",
    test: Annotated[
        Path | None, typer.Option(help="Rows that measure the error of the model.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Column of the weights of the rows.", metavar="COLUMN"),
    ] = None,
    holdout: Annotated[
        bool,
        typer.Option(
            help="Without --test: measure the error by a fit on four fifths of the "
            "rows first, which takes as long again."
        ),
    ] = True,
    device: Device = None,
    memory_budget: Memory = None,
    seed: Annotated[
        int, typer.Option(help="Draws what is random.", min=0, max=2**32 - 1)
    ] = 0,
) -> int:
    """Fit a table: text, dates and gaps are taken as they are."""
    from kaucus.estimators.tables import EFFORTS
    from kaucus.evaluation.clustering import peak_memory, timed
    from kaucus.export import tables
    from kaucus.export.files import save

    tables.check_word("--task", task, (None, *tables.MODELS))
    tables.check_word("--time", time, tuple(EFFORTS))
    tables.check_machine(device, memory_budget)
    tables.check_files([output], [train, test])
    data = tables.TrainingTable(train, target, weights, task)
    options = {
        "effort": time,
        "device": device,
        "memory_budget": memory_budget,
        "random_state": seed,
        "verbose": int(sys.stderr.isatty()),  # in a pipe the answer alone
    }
    test_rows = None if test is None else data.others(test)
    score = None
    if test is None and holdout:
        score = tables.judge_held_out(data, options, seed)
    model = tables.MODELS[data.task](**options)
    with peak_memory() as memory:
        _, seconds = timed(model.fit, data.X, data.y, data.weight)
    rise = memory.rise
    if test_rows is not None:
        X, y, weight = test_rows
        score = tables.score_predictions(model, y, model.predict(X), weight)
    model.verbose = 0
    about = data.about() | {"time": time, "fit_seconds": seconds, "memory": rise}
    save(model, output, about=about | {"score": score and list(score)})
    _print_fit(data, model, score, test, seconds, rise)
    print(f"wrote {output}")
    return 0


@app.command(
    epilog=_examples(
        "kaucus predict model.skops new.csv -o out.csv",
        "kaucus predict model.skops new.parquet --proba | head",
    )
)
def predict(
    model: Model,
    rows: Table,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=".csv, .tsv, .parquet; else the terminal."),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of every class.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(help="Also bounds, of this confidence level.", metavar="LEVEL"),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column to copy, such as a name.", metavar="COLUMN"),
    ] = None,
    chunk: Annotated[int, typer.Option(help="Rows in memory at a time.", min=1)] = (
        20_000
    ),
    trust: Trusted = None,
) -> int:
    """Predict the rows of a table, a chunk at a time, however long it is."""
    from kaucus.export import tables
    from kaucus.export.files import describe, load

    if output is not None:
        tables.check_files([output], [model, rows])
    about, kept = describe(model).about, keep or []
    loaded = load(model, trusted=trust or ())
    tables.check_outputs(loaded, proba=proba, interval=interval)
    name, remarks = f"predicted_{about.get('target')}", tables.Remarks(rows)

    def predictions():
        for X, frame in tables.model_chunks(model, loaded, remarks, chunk):
            found = tables.prediction_frame(
                loaded, X, name=name, proba=proba, interval=interval,
                label_type=about.get("label_type"),
            )  # fmt: skip
            tables.check_kept(kept, found.columns)
            for place, column in enumerate(kept):
                values = tables.column_of(frame, column, rows)
                found.insert(place, column, values.array)
            yield found

    to = sys.stdout if output is None else output
    n_rows = tables.write_frames(to, predictions())
    print(f"{n_rows:,} rows" + (f", wrote {output}" if output else ""), file=sys.stderr)
    return 0


@app.command(epilog=_examples("kaucus evaluate model.skops test.csv"))
def evaluate(
    model: Model,
    rows: Table,
    target: Truth = None,
    weights: Weights = None,
    trust: Trusted = None,
) -> int:
    """Measure the error of a model on rows that it has not seen."""
    from kaucus.evaluation.clustering import print_table
    from kaucus.export.files import load
    from kaucus.export.tables import class_rows, labelled_predictions, score_predictions

    loaded = load(model, trusted=trust or ())
    y, predicted, weight = labelled_predictions(model, loaded, rows, target, weights)
    score = score_predictions(loaded, y, predicted, weight)
    _print_lines([("rows", f"{len(y):,}"), (score.name, str(score))])
    if hasattr(loaded, "classes_"):
        lines = class_rows(loaded.classes_, y, predicted)
        print()
        print_table(("class", "rows", "recall", "precision"), lines)
    return 0


@app.command(
    epilog=_examples(
        "kaucus report model.skops test.csv",
        "kaucus report model.skops test.csv -o report.html --card README.md",
    )
)
def report(
    model: Model,
    rows: Table,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the page goes.")
    ] = Path("report.html"),
    card: Annotated[
        Path | None, typer.Option(help="Also a model card, as Markdown.")
    ] = None,
    target: Truth = None,
    weights: Weights = None,
    trust: Trusted = None,
) -> int:
    """Write a page that shows what a model is and how good it is."""
    from kaucus._array.blocks import format_bytes
    from kaucus.export.files import describe, load, write_whole
    from kaucus.export.report import model_card, report
    from kaucus.export.tables import check_files, labelled_rows

    check_files([output, card], [model, rows])
    loaded = load(model, trusted=trust or ())
    about = describe(model).about
    X, y, weight = labelled_rows(model, loaded, rows, target, weights)
    found = report(loaded, X, y, sample_weight=weight, about=about)
    found.write_html(output)
    print(f"wrote {output}, {format_bytes(output.stat().st_size)}")
    if card is not None:
        write_whole(card, model_card(loaded, found).encode())
        print(f"wrote {card}")
    return 0


@app.command(epilog=_examples("kaucus export model.skops -o model.onnx"))
def export(
    model: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the graph goes.")
    ] = Path("model.onnx"),
    dtype: Annotated[
        str, typer.Option(help="Of the numbers: float32 or float64.")
    ] = "float32",
    trust: Trusted = None,
) -> int:
    """Write a model as an ONNX graph, for programs without Python."""
    from kaucus._array.blocks import format_bytes
    from kaucus.export.files import load, write_whole
    from kaucus.export.onnx import to_onnx
    from kaucus.export.tables import check_files, check_word

    check_word("--dtype", dtype, ("float32", "float64"))
    check_files([output], [model])
    loaded = load(model, trusted=trust or ())
    graph = to_onnx(loaded, dtype=dtype)
    data = graph.SerializeToString()
    write_whole(output, data)
    columns = [value.name for value in graph.graph.input]
    inputs = ", ".join(columns) if len(columns) < 8 else f"{len(columns)} columns"
    outputs = ", ".join(value.name for value in graph.graph.output)
    print(f"wrote {output}, {format_bytes(len(data))}: {inputs} to {outputs}")
    return 0


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option(help="Folder for kaucus-demo.png.", metavar="DIR")
    ] = Path(),
) -> int:
    """Compare our classifiers with SVC and draw a picture (under 30 s)."""
    from kaucus import _demo

    return _demo.demo(output)


# ---- parts of the commands for tables ------------------------------------------------


def _print_lines(lines) -> None:
    for name, text in lines:
        print(f"{name:8s} {text}")


def _print_fit(data, model, score, test, seconds: float, rise: int | None) -> None:
    from kaucus._array.blocks import format_bytes
    from kaucus.evaluation.clustering import format_seconds

    kinds = [kind.split(",")[0] for kind in data.kinds.values()]
    counted = [(kinds.count(k), k) for k in ("number", "text", "date")]
    columns = ", ".join(f"{n} {k}{'s' * (n > 1)}" for n, k in counted if n)
    where = "rows held out" if test is None else str(test)
    error = "not measured" if score is None else f"{score}, {where}"
    rows = [
        ["task", f"{data.task} of {data.target}"],
        ["rows", f"{len(data.y):,}"],
        ["columns", columns],
        ["chosen", model.explain()],
        ["error" if score is None else score.name, error],
        ["time", format_seconds(seconds)],
        ["memory", format_bytes(rise)],
    ]
    _print_lines(rows)
