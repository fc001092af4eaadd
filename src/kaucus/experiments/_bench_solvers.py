"""How long each solver of the LS-SVM takes to be as good as the exact solution.

MNIST with unit-norm rows and the kernel ⟨x, x'⟩⁴, C = 1e4. The exact solution is found
first; each other solver then runs in a process of its own, its test error is watched,
and the clock, which stands still meanwhile, is read when the error has come within 0.05
points of the exact one, and has stayed there for three steps.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from kaucus.evaluation import (
    describe_machine,
    format_bytes,
    format_seconds,
    markdown_table,
    peak_memory,
    run_isolated,
    timed,
)
from kaucus.experiments._bench_lssvm import KERNEL, load_mnist_split
from kaucus.experiments._progress import make_progress
from kaucus.experiments._store import replace_file

ROWS, QUICK_ROWS = 20_000, 3000
POINTS = 0.05
# Steps in a row that must be as good, because the error goes up and down.
IN_A_ROW = 3
# Seconds of solving after which a solver has had its chance.
PATIENCE = 240.0
C = 1e4
BUDGET = "5GiB"
HEADERS = (
    "solver",
    "time to within 0.05 points",
    "steps",
    "per step",
    "test error %",
    "at the end %",
    "peak memory",
    "× fastest",
)


MEMORY_HEADERS = ("solver", "rows", "budget", "steps", "rise of memory")
MEMORY_SOLVERS = ("block_descent", "matching_pursuit")


class Contender(NamedTuple):
    """A solver and its options."""

    solver: str
    options: dict[str, Any]


CONTENDERS: dict[str, Contender] = {
    "block_descent, J = 2000": Contender("block_descent", {"block_size": 2000}),
    "block_descent, J = 1000": Contender("block_descent", {"block_size": 1000}),
    "cg, preconditioned": Contender("cg", {}),
    "matching_pursuit, J = 2000": Contender("matching_pursuit", {"block_size": 2000}),
    "kaczmarz_mp, J = 2000": Contender("kaczmarz_mp", {"block_size": 2000}),
    "kaczmarz, J = 2000": Contender("kaczmarz", {"block_size": 2000}),
    "nystrom, J = 4000": Contender("nystrom", {"block_size": 4000}),
}


def about(n: int, exact: dict) -> str:
    """Say what was measured."""
    return (
        f"MNIST, the first {n:,} rows minus their mean and divided by their norm, "
        f"float32, kernel ⟨x, x'⟩⁴, C = {C:g}, probability=False, memory_budget "
        f"{BUDGET}. Exact solution (cholesky): test error "
        f"{exact['error_percent']:.2f} %, {format_seconds(exact['seconds'])}, "
        f"{format_bytes(exact['memory'])}. Time: from the beginning of the fit, kernel "
        f"and preconditioner included, to the first of {IN_A_ROW} steps in a row with "
        f"an error of at most {POINTS} points more, without the time that watching "
        "took. Each solver in its own process; peak memory is the rise of resident "
        "bytes, the kernel of the 10,000 watched rows included."
    )


def bench_solvers(
    output: str | Path,
    *,
    rows: int = ROWS,
    memory: bool = False,
    data_home: str | Path | None = None,
    stream: TextIO | None = None,
    contenders: Sequence[str] = tuple(CONTENDERS),
) -> dict[str, Any]:
    """Run the race; write ``bench.json`` and ``bench.md``.

    Parameters
    ----------
    output : path
        Folder for the two files.
    rows : int, default=20000
        Number of training rows.
    memory : bool, default=False
        Whether to measure the memory of a few steps on 60,000 rows under 2 GiB, too.
    data_home : path, default=None
        Folder with the data; None takes the environment's ``KAUCUS_DATA``.
    stream : text stream, default=None
        Where progress goes; None is the standard error.
    contenders : sequence of str, default=tuple(CONTENDERS)
        Names in ``CONTENDERS``.

    Returns
    -------
    dict
        ``about``, ``machine``, ``exact``, ``contenders`` (a record for each) and, if
        asked for, ``memory``.
    """
    load_mnist_split(rows, "float32", data_home)  # missing data: say so at once
    content: dict[str, Any] = {"machine": describe_machine(), "contenders": []}
    budgeted = MEMORY_SOLVERS if memory else ()
    n_tasks = len(contenders) + len(budgeted) + 1
    with make_progress(n_tasks, stream) as progress:
        progress.begin("the exact solution")
        exact = run_isolated(measure_exact, rows, data_home).result
        content |= {"exact": exact, "about": about(rows, exact)}
        progress.advance(f"exact: {exact['error_percent']:.2f} %")
        for name in contenders:
            progress.begin(name)
            args = (name, rows, exact["error_percent"], data_home)
            record = run_isolated(measure_solver, *args).result
            content["contenders"].append(record)
            progress.advance(f"{name}: {_time(record)}")
        for solver in budgeted:
            progress.begin(f"{solver} under 2 GiB")
            record = run_isolated(measure_memory, solver, data_home).result
            content.setdefault("memory", []).append(record)
            progress.advance(f"{solver}: {format_bytes(record['memory'])}")
    _write(Path(output), content)
    return content


def measure_exact(n: int, data_home: Any) -> dict[str, Any]:
    """Factor the matrix; meant for a process of its own."""
    from kaucus import LSSVMClassifier

    split = load_mnist_split(n, "float32", data_home)
    model = LSSVMClassifier(C=C, solver="cholesky", probability=False, **KERNEL)
    with peak_memory() as memory:
        _, seconds = timed(model.fit, split.X_train, split.y_train)
    wrong = np.mean(model.predict(split.X_test) != split.y_test)
    return {
        "rows": n,
        "seconds": seconds,
        "error_percent": float(100 * wrong),
        "memory": memory.rise,
    }


def measure_solver(name: str, n: int, exact_error: float, data_home: Any) -> dict:
    """Fit until the error is that of the exact solution; for a process of its own."""
    from kaucus import LSSVMClassifier

    split = load_mnist_split(n, "float32", data_home)
    solver, options = CONTENDERS[name]
    errors: list[float] = []

    def enough(step: int, state: Any) -> bool:
        errors.append(100 * state.validation_error)
        return (
            first_good_step(errors, exact_error) is not None or state.seconds > PATIENCE
        )

    model = LSSVMClassifier(
        C=C,
        solver=solver,
        tol=1e-6,
        max_iter=5000,
        callback=enough,
        probability=False,
        memory_budget=BUDGET,
        random_state=0,
        **options,
        **KERNEL,
    )
    with peak_memory() as memory:
        watched = {"X_val": split.X_test, "y_val": split.y_test}
        model.fit(split.X_train, split.y_train, **watched)
    seconds = model.history_["seconds"]
    # A solver that has converged stays where it is.
    stays = [errors[-1]] * (IN_A_ROW - 1) if model.solve_info_.converged else []
    step = first_good_step([*errors, *stays], exact_error)
    return {
        "contender": name,
        "seconds": None if step is None else seconds[step - 1],
        "steps": step,
        "seconds_per_step": seconds[-1] / len(seconds),
        "error_percent": None if step is None else errors[step - 1],
        "last_error_percent": errors[-1],
        "last_step": len(errors),
        "memory": memory.rise,
        "seconds_by_step": seconds,
        "errors": errors,
    }


def measure_memory(
    solver: str, data_home: Any, n: int = 60_000, steps: int = 8
) -> dict[str, Any]:
    """Take some steps under a budget, with probabilities; for a process of its own.

    Enough steps to fill the room for rows of the kernel matrix that are kept.
    """
    from kaucus import LSSVMClassifier

    split = load_mnist_split(n, "float32", data_home)
    model = LSSVMClassifier(
        C=C,
        solver=solver,
        callback=lambda step, state: step >= steps,
        memory_budget="2GiB",
        random_state=0,
        **KERNEL,
    )
    with peak_memory() as memory:
        model.fit(split.X_train, split.y_train)
    return {
        "solver": solver,
        "rows": n,
        "budget": "2GiB",
        "steps": int(model.n_iter_),
        "memory": memory.rise,
    }


def memory_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the fits under a budget for :data:`MEMORY_HEADERS`."""
    return [
        [
            r["solver"],
            f"{r['rows']:,}",
            r["budget"],
            str(r["steps"]),
            format_bytes(r["memory"]),
        ]
        for r in records
    ]


def first_good_step(errors: Sequence[float], exact_error: float) -> int | None:
    """Return the first of :data:`IN_A_ROW` steps that are good enough, from 1.

    >>> first_good_step([2.0, 1.0, 1.3, 1.04, 1.05, 1.0], 1.0)
    4
    """
    good = np.asarray(errors) <= exact_error + POINTS + 1e-9
    for k in range(len(good) - IN_A_ROW + 1):
        if good[k : k + IN_A_ROW].all():
            return k + 1
    return None


def solver_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the records for :data:`HEADERS`, the fastest first."""
    times = [r["seconds"] for r in records if r["seconds"] is not None]
    order = sorted(records, key=lambda r: (r["seconds"] is None, r["seconds"] or 0))
    rows = []
    for r in order:
        reached = r["seconds"] is not None
        rows.append(
            [
                r["contender"],
                _time(r),
                str(r["steps"] if reached else f"{r['last_step']}, not reached"),
                format_seconds(r["seconds_per_step"]),
                f"{r['error_percent']:.2f}" if reached else "–",
                f"{r['last_error_percent']:.2f}",
                format_bytes(r["memory"]),
                f"{r['seconds'] / min(times):.1f}" if reached else "–",
            ]
        )
    return rows


def bench_tables(content: dict[str, Any]) -> list[tuple[str, tuple, list]]:
    """List each table of the benchmark as title, headers and rows."""
    rows = solver_rows(content["contenders"])
    tables = [("Time to the exact solution's error", HEADERS, rows)]
    if "memory" in content:
        kept = memory_rows(content["memory"])
        tables.append(("Under a memory budget", MEMORY_HEADERS, kept))
    return tables


def _time(record: dict) -> str:
    if record["seconds"] is None:
        return "not reached"
    return format_seconds(record["seconds"])


def _write(output: Path, content: dict[str, Any]) -> None:
    """Write the two files."""
    replace_file(output / "bench.json", json.dumps(content, indent=1))
    parts = ["# Solvers of the LS-SVM", content["about"]]
    for title, headers, rows in bench_tables(content):
        parts += [f"## {title}", markdown_table(headers, rows)]
    machine = content["machine"]
    parts += ["## Machine", "\n".join(f"- {k}: {v}" for k, v in machine.items())]
    replace_file(output / "bench.md", "\n\n".join(parts) + "\n")
