"""Arguments and options of every command; the work is done elsewhere.

What a command needs is imported when it runs: the help answers at once.
"""

from pathlib import Path
from typing import Annotated

import typer

from kaucus import __version__

app = typer.Typer(
    name="kaucus",
    help="Kernel machines in which a few representatives speak for all the data.",
    epilog="Exit codes: 0 all is well, 1 something failed, 2 wrong usage or a file "
    "that cannot be used, 3 a file or an optional package is missing, 130 Ctrl-C.",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

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
    seed: Annotated[int, typer.Option(help="Draws what is random.")] = 0,
) -> int:
    """Fit a table: text, dates and gaps are taken as they are."""
    from kaucus.cli import _table_commands as commands

    return commands.fit(
        train, target, output, task, time, test, weights, holdout, device,
        memory_budget, seed,
    )  # fmt: skip


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
    from kaucus.cli import _table_commands as commands

    return commands.predict(model, rows, output, proba, interval, keep, chunk, trust)


@app.command(epilog=_examples("kaucus evaluate model.skops test.csv"))
def evaluate(
    model: Model,
    rows: Table,
    target: Truth = None,
    weights: Weights = None,
    trust: Trusted = None,
) -> int:
    """Measure the error of a model on rows that it has not seen."""
    from kaucus.cli import _table_commands as commands

    return commands.evaluate(model, rows, target, weights, trust)


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
    from kaucus.cli import _table_commands as commands

    return commands.report(model, rows, output, card, target, weights, trust)


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
    from kaucus.cli import _table_commands as commands

    return commands.export(model, output, dtype, trust)


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option(help="Folder for kaucus-demo.png.", metavar="DIR")
    ] = Path(),
) -> int:
    """Compare our classifiers with SVC and draw a picture (under 30 s)."""
    from kaucus.cli import _demo

    return _demo.demo(output)
