"""How long each solver of the LS-SVM takes to the exact solution's test error.

MNIST with unit-norm rows and the kernel ⟨x, x'⟩⁴, C = 1e4. The exact solution is found
first; then the test error of each other solver is watched, and the clock stands still
meanwhile. Two times are read off:

- *there*: from here on the error stays within 0.05 points of the exact one for a whole
  pass over the rows: the solver has arrived at the exact solution's predictions;
- *as good*: three steps in a row are no more than 0.05 points above it. An iteration
  that is stopped early is regularised, and may be better than the exact solution.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import lssvm
from benchmarks._runner import Content, Settings, Step, Table, load_digits
from benchmarks.lssvm import KERNEL
from kaucus._array.blocks import format_bytes
from kaucus.evaluation.clustering import format_seconds
from papers import peak_memory, timed

TITLE = "Solvers of the LS-SVM"
prepare = lssvm.prepare
ROWS, QUICK_ROWS = 20_000, 3000
POINTS = 0.05
# Steps in a row that must be as good, because the error goes up and down; and that must
# be there, for a solver that has no blocks.
IN_A_ROW = 3
STEPS_OF_CG = 10
# Seconds of solving after which a solver has had its chance.
PATIENCE = 120.0
C = 1e4
BUDGET = "5GiB"
HEADERS = (
    "solver",
    "there (± 0.05)",
    "steps",
    "× fastest",
    "as good (≤ + 0.05)",
    "steps",
    "per step",
    "last error %",
    "peak memory",
)
MEMORY_HEADERS = ("solver", "rows", "budget", "steps", "rise of memory")
MEMORY_SOLVERS = ("block_descent", "matching_pursuit")


CONTENDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "block_descent, J = 2000": ("block_descent", {"block_size": 2000}),
    "cg, preconditioned": ("cg", {}),
    "matching_pursuit, J = 2000": ("matching_pursuit", {"block_size": 2000}),
    "kaczmarz, J = 2000": ("kaczmarz", {"block_size": 2000}),
    "kaczmarz_mp, J = 2000": ("kaczmarz_mp", {"block_size": 2000}),
    "nystrom, J = 4000": ("nystrom", {"block_size": 4000}),
}


def about(content: Content) -> str:
    """Say what was measured."""
    [exact] = content["exact"]
    return (
        f"MNIST, the first {exact['rows']:,} rows minus their mean and divided by "
        f"their norm, float32, kernel ⟨x, x'⟩⁴, C = {C:g}, probability=False, "
        f"memory_budget {BUDGET}. Exact solution (cholesky): test error "
        f"{exact['error_percent']:.2f} %, {format_seconds(exact['seconds'])}, "
        f"{format_bytes(exact['memory'])}. Times count from the beginning of the fit, "
        "kernel and preconditioner included, without what watching took. There: from "
        f"this step on the error is within {POINTS} points of the exact one for a "
        f"whole pass over the rows ({STEPS_OF_CG} steps of cg). As good: the first of "
        f"{IN_A_ROW} steps in a row at most {POINTS} points above it. Each solver in "
        f"its own process, given up after {PATIENCE:.0f} s; peak memory is the rise of "
        "resident bytes, the kernel of the 10,000 watched rows included."
    )


def steps(settings: Settings) -> list[Step]:
    """List the exact solution, every other solver, and the fits under a budget."""
    home = settings.data_home
    default = QUICK_ROWS if settings.quick else ROWS
    n = settings.sizes[0] if settings.sizes else default

    def args_of(name: str):
        return lambda content: (name, n, content["exact"][0]["error_percent"], home)

    found = [Step("exact", "the exact solution", measure_exact, (n, home))]
    found += [
        Step("contenders", name, measure_solver, args_of(name)) for name in CONTENDERS
    ]
    if settings.large:
        found += [
            Step("memory", f"{solver} under 2 GiB", measure_memory, (solver, home))
            for solver in MEMORY_SOLVERS
        ]
    return found


def measure_exact(n: int, data_home: Any) -> dict[str, Any]:
    """Factor the matrix."""
    from kaucus import LSSVMClassifier

    split = load_digits(n, "float32", data_home)
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
    """Fit until the error is that of the exact solution."""
    from kaucus import LSSVMClassifier

    split = load_digits(n, "float32", data_home)
    solver, options = CONTENDERS[name]
    in_a_pass = -(-n // options["block_size"]) if options else STEPS_OF_CG
    errors: list[float] = []

    def enough(step: int, state: Any) -> bool:
        errors.append(100 * state.validation_error)
        there = first_step(errors, exact_error, in_a_pass, both_sides=True)
        return there is not None or state.seconds > PATIENCE

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
    stays = [errors[-1]] * in_a_pass if model.solve_info_.converged else []
    there = first_step([*errors, *stays], exact_error, in_a_pass, both_sides=True)
    good = first_step([*errors, *stays], exact_error, IN_A_ROW, both_sides=False)
    return {
        "contender": name,
        "there_step": there,
        "there_seconds": None if there is None else seconds[there - 1],
        "good_step": good,
        "good_seconds": None if good is None else seconds[good - 1],
        "seconds_per_step": seconds[-1] / len(seconds),
        "last_error_percent": errors[-1],
        "last_step": len(errors),
        "memory": memory.rise,
        "seconds_by_step": seconds,
        "errors": errors,
    }


def measure_memory(
    solver: str, data_home: Any, n: int = 60_000, steps: int = 8
) -> dict[str, Any]:
    """Take some steps under a budget, with probabilities.

    Enough steps to fill the room for rows of the kernel matrix that are kept.
    """
    from kaucus import LSSVMClassifier

    split = load_digits(n, "float32", data_home)
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


def first_step(
    errors: Sequence[float], exact_error: float, in_a_row: int, *, both_sides: bool
) -> int | None:
    """Return the first of so many steps in a row that are near enough, from 1.

    >>> first_step([2.0, 1.0, 1.3, 1.04, 1.05, 0.8], 1.0, 3, both_sides=False)
    4
    >>> first_step([2.0, 1.0, 1.3, 1.04, 1.05, 0.8], 1.0, 3, both_sides=True)
    """
    excess = np.asarray(errors) - exact_error
    near = (np.abs(excess) if both_sides else excess) <= POINTS + 1e-9
    for k in range(len(near) - in_a_row + 1):
        if near[k : k + in_a_row].all():
            return k + 1
    return None


def solver_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the records for :data:`HEADERS`, the fastest first."""
    times = [r["there_seconds"] for r in records if r["there_seconds"] is not None]
    order = sorted(
        records, key=lambda r: (r["there_seconds"] is None, r["there_seconds"] or 0)
    )
    return [
        [
            r["contender"],
            _time(r["there_seconds"]),
            _steps(r["there_step"], r["last_step"]),
            f"{r['there_seconds'] / min(times):.1f}" if r["there_seconds"] else "–",
            _time(r["good_seconds"]),
            _steps(r["good_step"], r["last_step"]),
            format_seconds(r["seconds_per_step"]),
            f"{r['last_error_percent']:.2f}",
            format_bytes(r["memory"]),
        ]
        for r in order
    ]


def _steps(step: int | None, last: int) -> str:
    return f"none of {last}" if step is None else str(step)


def tables(content: Content) -> list[Table]:
    """Return the tables of the records so far."""
    rows = solver_rows(content["contenders"])
    found = [Table("Time to the exact solution's error", HEADERS, rows)]
    if "memory" in content:
        kept = memory_rows(content["memory"])
        found.append(Table("Under a memory budget", MEMORY_HEADERS, kept))
    return found


def _time(seconds: float | None) -> str:
    return "not reached" if seconds is None else format_seconds(seconds)
