"""Ctrl-C in every estimator's fit, and kills of every solver that has checkpoints.

    python -m benchmarks.interrupts [N] [--only NAME ...] [--write]

Each estimator is fitted in a process of its own, to which this one sends SIGINT at a
random moment, N times (100 by default); every second fit is of a model that was fitted
before. The rule is that of ``kaucus.contract``: a model is kept and a warning says
so, or the estimator is not fitted and KeyboardInterrupt is raised. All else is WRONG.

Fits with a checkpoint, by each solver that has them, are killed (SIGKILL) N times: each
fit twice, at random moments. Then it goes on to its end, and is compared with one that
nobody disturbed.

BLAS has one thread. ``--write`` puts each row, when it is ready, into
benchmarks/results/interrupts.json and interrupts.md; ``--only`` takes those estimators
whose name has one of the texts, and solvers by "kill SOLVER".
"""

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import numpy as np  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "interrupts.json"
RUNS = (1, 3)
# A fit that answers later than this is taken for one that does not answer.
PATIENCE = 120.0


def blobs(n, d, n_classes=3):
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    return 2 * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d)), y


def cases():
    """Return name -> (estimator, rows, columns): fits of about a second."""
    import kaucus
    from kaucus.solvers import RANDOMIZED

    seed = {"random_state": 0}
    steps = {"block_size": 200, "C": 1e4, "tol": 1e-12, **seed}
    found = {
        "LSSVMClassifier, cholesky": (kaucus.LSSVMClassifier(**seed), 4200, 20),
        "LSSVMClassifier, cg": (
            kaucus.LSSVMClassifier(solver="cg", C=1e2, tol=1e-4, **seed), 2800, 20,
        ),
        **{
            f"LSSVMClassifier, {solver}": (
                kaucus.LSSVMClassifier(
                    solver=solver, max_iter=20 if solver == "kaczmarz_mp" else 60,
                    **steps,
                ),
                3500, 20,
            )
            for solver in RANDOMIZED
        },
        "LSSVMClassifier, 3 runs": (
            kaucus.LSSVMClassifier(solver="kaczmarz", n_runs=3, max_iter=20, **steps),
            2500, 20,
        ),
        "LSSVMRegressor": (kaucus.LSSVMRegressor(**seed), 4800, 20),
        "LSSVMClassifierCV": (kaucus.LSSVMClassifierCV(), 1800, 20),
        "LSSVMRegressorCV, gammas": (
            kaucus.LSSVMRegressorCV(gammas=[0.01, 0.02, 0.05]), 1100, 20,
        ),
        "KMeansKernelClassifier": (kaucus.KMeansKernelClassifier(**seed), 2200, 20),
        "KMeansKernelClassifier, n_init=4": (
            kaucus.KMeansKernelClassifier(
                150, n_init=4, C=10.0, gamma="scale", kernel="rbf", **seed
            ),
            14_000, 20,
        ),
        "KMeansKernelRegressor, n_init=4": (
            kaucus.KMeansKernelRegressor(
                450, n_init=4, C=10.0, gamma="scale", kernel="rbf", **seed
            ),
            14_000, 20,
        ),
        "SphericalKMeans, n_init=5": (
            kaucus.SphericalKMeans(50, n_init=5, tol=1e-12, **seed), 9000, 20,
        ),
        "KernelKMeans": (kaucus.KernelKMeans(20, n_init=10, **seed), 2800, 20),
        "KernelKMeans, nystrom": (
            kaucus.KernelKMeans(
                20, approximation="nystrom", n_landmarks=300, n_init=4, **seed
            ),
            3000, 20,
        ),
        "ClusterRBFSVC": (kaucus.ClusterRBFSVC(C=1e3, **seed), 5000, 10),
        "LocalSVC": (kaucus.LocalSVC(C=1e3, **seed), 8000, 10),
        "PatchVotingClassifier": (
            kaucus.PatchVotingClassifier(
                kaucus.KMeansKernelClassifier(
                    200, C=10.0, gamma="scale", kernel="rbf", **seed
                ),
                patch_size=5, image_shape=(6, 6),
            ),
            5000, 36,
        ),
    }  # fmt: skip
    return found


# ---- the process that is interrupted -------------------------------------------------


def worker(name):
    """Fit whenever a line comes in, and answer what Ctrl-C has left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from sklearn.base import clone, is_regressor

    estimator, n, d = cases()[name]
    X, y = blobs(n, d)
    target = y + 0.1 * X[:, 0] if is_regressor(estimator) else y
    start = time.monotonic()
    whole = quietly(clone(estimator).fit, X, target)
    answer(seconds=time.monotonic() - start)
    expected = predictions(whole, X)
    for number, _ in enumerate(sys.stdin):
        model = clone(estimator)
        if number % 2:  # of other rows: a mix of two models would not go unnoticed
            quietly(model.fit, X[:200], target[:200])
        answer(**interrupted_fit(model, X, target, expected))


def answer(**content):
    print(json.dumps(content), flush=True)


def quietly(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def predictions(model, X):
    return np.asarray(model.predict(X[:100]))


def interrupted_fit(model, X, y, expected):
    """Fit, with Ctrl-C as the user's program has it, and look at what is left."""
    from sklearn.exceptions import ConvergenceWarning

    raised, ended = False, None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            answer(began=time.monotonic())
            model.fit(X, y)
            ended = time.monotonic()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            raised, ended = ended is None, ended or time.monotonic()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    messages = [str(t.message) for t in told if t.category is ConvergenceWarning]
    warned = any("nterrupted" in message for message in messages)
    return {"ended": ended, "outcome": judged(model, X, raised, warned, expected)}


def judged(model, X, raised, warned, expected):
    """Return "kept", "not fitted", "whole", or what is wrong."""
    from sklearn.exceptions import NotFittedError

    try:
        found = predictions(model, X)
    except NotFittedError:
        return "not fitted" if raised else "WRONG: returned, not fitted"
    except Exception as error:
        return f"WRONG: {type(error).__name__}"
    if warned and not raised and np.all(np.isfinite(found)):
        return "kept"
    return "whole" if np.array_equal(found, expected) else "WRONG: silent"


# ---- the process that interrupts -----------------------------------------------------


class Worker:
    """A process that fits one estimator again and again."""

    def __init__(self, name):
        command = [sys.executable, __file__, "--worker", name]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, bufsize=1, **pipes)
        self.seconds = self._read()["seconds"]

    def _read(self):
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        if not ready:
            raise TimeoutError("no answer")
        return json.loads(self._process.stdout.readline())

    def interrupt(self, delay):
        """Return the outcome of one fit, and the seconds until it answered."""
        self._process.stdin.write("\n")
        began = self._read()["began"]
        time.sleep(delay)
        sent = time.monotonic()
        self._process.send_signal(signal.SIGINT)
        told = self._read()
        if told["outcome"] == "whole":  # by then it had ended, or it has not listened
            if told["ended"] > sent:
                return "WRONG: silent", told["ended"] - sent
            self.seconds = told["ended"] - began  # on a busy machine times change
            return "ended before", 0.0
        return told["outcome"], told["ended"] - sent

    def close(self):
        """Let the process end."""
        self._process.stdin.close()
        self._process.wait(PATIENCE)


def interrupt_estimator(name, n, rng):
    """Return a row of the first table."""
    process, outcomes, reactions = Worker(name), [], []
    while len(outcomes) < n:
        outcome, reaction = process.interrupt(process.seconds * rng.uniform(0, 0.95))
        if outcome != "ended before":
            outcomes.append(outcome)
            reactions.append(reaction)
    process.close()
    wrong = [outcome for outcome in outcomes if outcome.startswith("WRONG")]
    return {
        "estimator": name,
        "fit": f"{process.seconds:.1f} s",
        "interrupts": n,
        "kept, with a warning": outcomes.count("kept"),
        "not fitted": outcomes.count("not fitted"),
        "WRONG": f"{len(wrong)} ({', '.join(sorted(set(wrong)))})" if wrong else 0,
        "answered after (median)": f"{np.median(reactions):.2f} s",
        "(longest)": f"{max(reactions):.2f} s",
    }


# ---- kills ---------------------------------------------------------------------------


def checkpoint_fit(solver, n_runs, path, result):
    """Fit, in a process that may be killed, and write what came out."""
    from kaucus import LSSVMClassifier

    X, y = blobs(2000, 10)
    model = LSSVMClassifier(
        C=1e3,
        solver=solver,
        n_runs=n_runs,
        block_size=60 if solver == "nystrom" else 150,
        max_iter=15 if solver == "kaczmarz_mp" else 40,
        tol=1e-12,
        checkpoint=path,
        random_state=0,
    )
    quietly(model.fit, X, y)
    np.savez(result, coef=model.dual_coef_, n=model.n_iter_, T=model.temperature_)


def in_child(function, *args):
    """Call a function in a copy of this process; return its number."""
    child = os.fork()
    if child:
        return child
    try:
        function(*args)
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def kill_solver(solver, n_runs, n, rng):
    """Return a row of the second table."""
    from kaucus import LSSVMClassifier  # once, not in every child

    assert LSSVMClassifier
    with tempfile.TemporaryDirectory() as folder:
        whole, path = f"{folder}/whole.npz", f"{folder}/state.npz"
        start = time.monotonic()
        os.waitpid(in_child(checkpoint_fit, solver, n_runs, None, whole), 0)
        seconds = time.monotonic() - start
        kills, differences, errors = 0, [], 0
        while kills < n:
            result = f"{folder}/{len(differences)}.npz"
            for to_the_end in (False, False, True):  # killed twice, then let alone
                child = in_child(checkpoint_fit, solver, n_runs, path, result)
                if not to_the_end:
                    time.sleep(seconds * rng.uniform(0.05, 0.8))
                    os.kill(child, signal.SIGKILL)
                status = os.waitpid(child, 0)[1]
                kills += os.WIFSIGNALED(status)
                errors += status not in (0, signal.SIGKILL)
            differences.append(difference(result, whole))
            for left in Path(folder).glob("state.npz*"):
                left.unlink()
    return {
        "solver": solver,
        "n_runs": n_runs,
        "fit": f"{seconds:.1f} s",
        "kills": kills,
        "errors": errors,
        "fits": len(differences),
        "equal": sum(d <= 1e-8 for d in differences),
        "largest relative difference": f"{max(differences):.1e}",
    }


def difference(result, whole):
    """Return by how much two fits differ: coefficients, temperature, steps."""
    a, b = np.load(result), np.load(whole)
    if a["n"] != b["n"]:
        return np.inf
    parts = [(a[k], b[k]) for k in ("coef", "T")]
    return max(float(np.max(np.abs(x - y)) / np.max(np.abs(y))) for x, y in parts)


# ---- tables --------------------------------------------------------------------------


def report(content):
    """Return the Markdown page of all rows so far."""
    from kaucus.evaluation import markdown_table

    def table(name):
        rows = list(content[name].values())
        return markdown_table(list(rows[0]), [list(row.values()) for row in rows])

    machine = [f"- {name}: {value}" for name, value in content["machine"].items()]
    return f"""# Ctrl-C and kills

`python -m benchmarks.interrupts --write`, one BLAS thread, a busy machine.
Moments are drawn uniformly over the time of an undisturbed fit; every second
fit is of a model that was fitted before. The rule: docs/guide/interrupts.md.

## SIGINT in fit

{table("interrupts")}

Kept: `fit` returned a model that predicts, with a ConvergenceWarning. Not fitted:
KeyboardInterrupt was raised, and `predict` raises NotFittedError. WRONG: anything else.

## SIGKILL of fits with a checkpoint

{table("kills")}

Each fit was killed twice, at random moments, and then let go on to its end. Equal: as
many steps as an undisturbed fit, coefficients and temperature within 1e-8 of its.

## Machine

{chr(10).join(machine)}
"""


def keep(kind, name, row):
    """Put a row into the results, in the place of an earlier one of its name."""
    from papers import describe_machine

    content = {"interrupts": {}, "kills": {}}
    if RESULTS.exists():
        content = json.loads(RESULTS.read_text(encoding="utf-8"))
    content["machine"] = describe_machine()
    content[kind][name] = row
    RESULTS.write_text(json.dumps(content, indent=1), encoding="utf-8")
    if content["interrupts"] and content["kills"]:
        page = RESULTS.with_suffix(".md")
        page.write_text(report(content), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n", nargs="?", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--worker", default=None)
    options = parser.parse_args()
    if options.worker is not None:
        return worker(options.worker)
    from kaucus.estimators import StepProgress
    from kaucus.solvers import RANDOMIZED

    def wanted(name):
        return options.only is None or any(o in name for o in options.only)

    names = [name for name in cases() if wanted(name)]
    kills = [(s, n) for s in RANDOMIZED if wanted(f"kill {s}") for n in RUNS]
    rng = np.random.default_rng()
    with StepProgress(len(names) + len(kills)) as progress:

        def ready(kind, name, row):
            progress.advance(str(row))
            if options.write:
                keep(kind, name, row)

        for name in names:
            progress.begin(name)
            ready("interrupts", name, interrupt_estimator(name, options.n, rng))
        for solver, n_runs in kills:
            name = f"{solver}, {n_runs} runs"
            progress.begin(name)
            ready("kills", name, kill_solver(solver, n_runs, options.n, rng))
    return None


if __name__ == "__main__":
    main()
