"""Compare the times of the same fits in two checkouts.

    python -m benchmarks.before_after OLD NEW [--rounds N] [--only TEXT] [--gpu]
                                              [--write]

OLD and NEW are folders that hold `src/kaucus`. A process for each checkout runs a case,
in turns, so that both see the same machine; the first fit of each is not counted. What
is shown are the medians, their ratio, and how far the quartiles of the old times are
apart, relative to their median: the noise beside which a ratio is to be read.
`--write` puts the table into benchmarks/results/before_after.md.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "before_after.md"
HEADERS = ["fit", "before", "after", "after / before", "noise"]

# Calls that both checkouts understand; X, y: 10 classes of 64 features, float32. E is
# learn_metric=False where a checkout has it: metrics are no part of a fit before it.
# A is spherical k-means, by its name in a checkout.
CASES = {
    "fast: KMeansKernelClassifier(50), 20,000 rows": "C(50, **G).fit(X, y)",
    "kmeans-kernel: KMeansKernelClassifier(), 6,000 rows": (
        "C(**E).fit(X[:6000], y[:6000])"
    ),
    "kmeans-kernel: KMeansKernelClassifier(), 20,000 rows": "C(**E).fit(X, y)",
    "kmeans-kernel: cosine, representatives alone": (
        "C(100, **A, fit_on='representatives', **G).fit(X, y)"
    ),
    "kmeans-kernel: KMeansKernelRegressor(500)": "R(500, **G).fit(X, X[:, 0] ** 2)",
    "kmeans-kernel: predict 20,000 rows": (
        "C(50, **G).fit(X[:3000], y[:3000]).predict(X)"
    ),
    "kernel-kmeans: KernelKMeans(10), 4,000 rows": (
        "K(10, n_init=2, max_iter=30, gamma=0.01).fit(X[:4000])"
    ),
    "kernel-kmeans: nystrom, 20,000 rows": (
        "K(10, approximation='nystrom', max_iter=20, gamma=0.01).fit(X)"
    ),
    "kernel-kmeans: SphericalKMeans(200)": "S(200, max_iter=30).fit(X)",
    "lssvm: cholesky, 4,000 rows": "L(**G).fit(X[:4000], y[:4000])",
    "lssvm: C by leave-one-out, 2,000 rows": ("V().fit(X[:2000], y[:2000])"),
    "solvers: cg, 8,000 rows": "L(solver='cg', **G).fit(X[:8000], y[:8000])",
    "solvers: block_descent, 8,000 rows": (
        "L(solver='block_descent', max_iter=8, **G).fit(X[:8000], y[:8000])"
    ),
    "solvers: kaczmarz_mp, 8,000 rows": (
        "L(solver='kaczmarz_mp', max_iter=8, **G).fit(X[:8000], y[:8000])"
    ),
    "solvers: matching_pursuit, 8,000 rows": (
        "L(solver='matching_pursuit', max_iter=8, **G).fit(X[:8000], y[:8000])"
    ),
    "gpu: KMeansKernelClassifier(500), 20,000 rows": "C(500, **D, **G).fit(X, y)",
    "gpu: cholesky, 20,000 rows": "L(solver='cholesky', **D, **G).fit(X, y)",
    "gpu: KernelKMeans(10), 20,000 rows": (
        "K(10, n_init=2, max_iter=30, gamma=0.01, **D).fit(X)"
    ),
    "gpu: SphericalKMeans(200)": "S(200, max_iter=30, **D).fit(X)",
}

_WORKER = """
import functools, inspect, sys, time, warnings
import numpy as np
import kaucus as k

warnings.simplefilter("ignore")
C, R, K, S, L = (
    functools.partial(cls, random_state=0)
    for cls in (k.KMeansKernelClassifier, k.KMeansKernelRegressor, k.KernelKMeans,
                k.SphericalKMeans, k.LSSVMClassifier)
)
V = functools.partial(L, "auto")
if hasattr(k, "LSSVMClassifierCV"):  # before C="auto" took its place
    V = functools.partial(k.LSSVMClassifierCV, kernel="rbf", gammas=None,
                          learn_metric=False)
G = {"kernel": "rbf", "gamma": 0.01, "C": 10.0}
D = {"device": "cuda"}
known = inspect.signature(k.KMeansKernelClassifier).parameters
E = {"learn_metric": False} if "learn_metric" in known else {}
A = {"clustering": "spherical"} if "clustering" in known else {"metric": "cosine"}
rng = np.random.default_rng(0)
y = rng.integers(10, size=20_000)
X = (rng.normal(size=(10, 64))[y] + 1.5 * rng.normal(size=(20_000, 64)))
X = X.astype(np.float32)
case = compile(sys.argv[1], "case", "eval")
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    eval(case)
    print(time.perf_counter() - start, flush=True)
"""


def start(checkout: Path, call: str) -> subprocess.Popen:
    """Return a process of a checkout that runs the call for each line it is given."""
    source = str((checkout / "src").resolve())
    process = subprocess.Popen(
        [sys.executable, "-c", _WORKER, call],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, *sys.path[1:]])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def one(process: subprocess.Popen) -> float:
    """Run the call once; return its seconds."""
    assert process.stdin is not None
    assert process.stdout is not None
    print("go", file=process.stdin, flush=True)
    line = process.stdout.readline()
    return float(line) if line else float("nan")


def compare(old: Path, new: Path, call: str, rounds: int) -> tuple[np.ndarray, ...]:
    """Return the seconds of both checkouts, in turns."""
    both = [start(old, call), start(new, call)]
    for process in both:
        one(process)
    times = np.array([[one(process) for process in both] for _ in range(rounds)])
    for process in both:
        process.communicate()
    return times[:, 0], times[:, 1]


def row(name: str, before: np.ndarray, after: np.ndarray) -> list[str]:
    """Return the table's entries."""
    low, middle, high = np.quantile(before, [0.25, 0.5, 0.75])
    ratio = np.median(after) / middle
    times = [f"{t:.3g} s" for t in (middle, np.median(after))]
    return [name, *times, f"{ratio:.2f}", f"± {(high - low) / 2 / middle:.0%}"]


def main() -> None:
    """Run the cases, and print or write the table."""
    from papers import describe_machine
    from papers._markdown import markdown_table

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--gpu", action="store_true", help="the rows of a GPU too")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for name, call in CASES.items():
        if options.only in name and (options.gpu or not name.startswith("gpu")):
            times = compare(options.old, options.new, call, options.rounds)
            rows.append(row(name, *times))
            print("  ".join(rows[-1]), flush=True)
    if options.write:
        about = (
            "`python -m benchmarks.before_after OLD NEW --write`: medians of "
            f"{options.rounds} fits of each checkout, in turns; 64 features, float32."
        )
        machine = json.dumps(describe_machine(), default=str, indent=1)
        text = [
            "# Before and after",
            about,
            markdown_table(HEADERS, rows),
            f"```json\n{machine}\n```",
        ]
        RESULTS.write_text("\n\n".join(text) + "\n")


if __name__ == "__main__":
    main()
