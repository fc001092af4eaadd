"""``kaucus fit``, ``predict``, ``evaluate`` and ``export``: call the library, print."""

import sys
from pathlib import Path

from kaucus import delivery
from kaucus._array.blocks import format_bytes
from kaucus.cli._errors import check_machine
from kaucus.evaluation.clustering import format_seconds, peak_memory, print_table, timed
from kaucus.export.tables import TASKS, TIMES, TableError


def fit(
    train: Path,
    target: str,
    output: Path,
    task: str | None,
    time: str,
    test: Path | None,
    weights: str | None,
    holdout: bool,
    device: str | None,
    memory_budget: str | None,
    seed: int,
) -> int:
    """Fit a table, print what came of it, save the model."""
    _check_word("--task", task, (None, *TASKS))
    _check_word("--time", time, TIMES)
    check_machine(device, memory_budget)
    _check_folder(output)
    data = delivery.TrainingTable(train, target, weights, task)
    options = {
        "time": time,
        "device": device,
        "memory_budget": memory_budget,
        "random_state": seed,
        "verbose": 1,
    }
    test_rows = None if test is None else data.others(test)
    score = held_out = None
    if test is None and holdout:
        held_out = delivery.judge_held_out(data, options, seed)
        score = held_out.score
    model = delivery.make_table_pipeline(data.task, **options)
    with peak_memory() as memory:
        _, seconds = timed(delivery.fit_table, model, data.X, data.y, data.weight)
    if held_out is not None:
        delivery.calibrate_intervals(model, *held_out[1:])
    if test_rows is not None:
        score = delivery.score_of(model, *test_rows)
        delivery.calibrate_intervals(model, *test_rows[:2])
    model[-1].verbose = 0
    about = data.about() | {"time": time, "fit_seconds": seconds}
    about |= {"memory": memory.rise, "score": score and list(score)}
    delivery.save(model, output, about=about)
    _print_fit(data, model, score, test, seconds, memory.rise)
    print(f"wrote {output}")
    return 0


def predict(
    model: Path,
    rows: Path,
    output: Path | None,
    proba: bool,
    interval: float | None,
    keep: list[str] | None,
    chunk: int,
    trust: list[str] | None,
) -> int:
    """Predict chunk by chunk, and write each before the next is read."""
    about = delivery.describe(model).about
    loaded = delivery.load(model, trusted=trust or ())
    delivery.check_outputs(loaded, proba=proba, interval=interval)
    if output is not None:
        _check_folder(output)
    kinds, kept = delivery.column_kinds(model, about), keep or []
    asked = kinds | {name: "text" for name in kept if name not in kinds}
    name = f"predicted_{about['target']}"
    n_rows = 0
    with delivery.TableWriter(sys.stdout if output is None else output) as writer:
        for frame in filter(len, delivery.read_chunks(rows, asked, n_rows=chunk)):
            found = delivery.prediction_frame(
                loaded, frame[list(kinds)], name=name, proba=proba, interval=interval
            )
            for place, column in enumerate(kept):
                found.insert(place, column, frame[column].to_numpy())
            writer.add(found)
            n_rows += len(frame)
    if not n_rows:
        raise TableError(f"{rows} has no rows.")
    print(f"{n_rows:,} rows" + (f", wrote {output}" if output else ""), file=sys.stderr)
    return 0


def evaluate(
    model: Path,
    rows: Path,
    target: str | None,
    weights: str | None,
    trust: list[str] | None,
) -> int:
    """Print the error on a table; rows are read in chunks."""
    loaded = delivery.load(model, trusted=trust or ())
    y, predicted, weight = delivery.labelled_predictions(
        model, loaded, rows, target, weights
    )
    score = delivery.score_predictions(loaded, y, predicted, weight)
    _print_lines([("rows", f"{len(y):,}"), (score.name, str(score))])
    if hasattr(loaded, "classes_"):
        rows = delivery.class_rows(loaded.classes_, y, predicted)
        print()
        print_table(("class", "rows", "found", "right where said"), rows)
    return 0


def report(
    model: Path,
    rows: Path,
    output: Path,
    card: Path | None,
    target: str | None,
    weights: str | None,
    trust: list[str] | None,
) -> int:
    """Write the page, and the model card if it is asked for."""
    for file in (output, card):
        if file is not None:
            _check_folder(file)
    loaded = delivery.load(model, trusted=trust or ())
    about = delivery.describe(model).about
    X, y, weight = delivery.labelled_rows(model, loaded, rows, target, weights)
    found = delivery.report(loaded, X, y, sample_weight=weight, about=about)
    found.write_html(output)
    print(f"wrote {output}, {format_bytes(output.stat().st_size)}")
    if card is not None:
        delivery.write_whole(card, delivery.model_card(loaded, found).encode())
        print(f"wrote {card}")
    return 0


def export(model: Path, output: Path, dtype: str, trust: list[str] | None) -> int:
    """Write an ONNX graph."""
    _check_word("--dtype", dtype, ("float32", "float64"))
    _check_folder(output)
    loaded = delivery.load(model, trusted=trust or ())
    graph = delivery.to_onnx(loaded, dtype=dtype)
    data = graph.SerializeToString()
    delivery.write_whole(output, data)
    columns = [value.name for value in graph.graph.input]
    inputs = ", ".join(columns) if len(columns) < 8 else f"{len(columns)} columns"
    outputs = ", ".join(value.name for value in graph.graph.output)
    print(f"wrote {output}, {format_bytes(len(data))}: {inputs} to {outputs}")
    return 0


# ---- parts ---------------------------------------------------------------------------


def _check_word(option: str, word: str | None, known: tuple) -> None:
    if word not in known:
        words = ", ".join(str(w) for w in known if w is not None)
        raise TableError(f"{option}={word!r} must be one of {words}.")


def _check_folder(output: Path) -> None:
    """Raise an error if the folder of an output file does not exist."""
    if not output.parent.is_dir():
        raise TableError(f"There is no folder {output.parent}; make it first.")


def _print_lines(lines) -> None:
    for name, text in lines:
        print(f"{name:8s} {text}")


def _print_fit(data, model, score, test, seconds: float, rise: int) -> None:
    kinds = list(data.kinds.values())
    counted = [(kinds.count(k), k) for k in ("number", "text", "date")]
    columns = ", ".join(f"{n} {k}{'s' * (n > 1)}" for n, k in counted if n)
    where = "rows held out" if test is None else str(test)
    error = "not measured" if score is None else f"{score}, {where}"
    rows = [
        ["task", f"{data.task} of {data.target}"],
        ["rows", f"{len(data.y):,}"],
        ["columns", columns],
        ["chosen", model[-1].explain()],
        ["error" if score is None else score.name, error],
        ["time", format_seconds(seconds)],
        ["memory", format_bytes(rise)],
    ]
    _print_lines(rows)
