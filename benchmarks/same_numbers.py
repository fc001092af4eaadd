"""Compare the errors of default fits in two checkouts.

    python -m benchmarks.same_numbers OLD NEW [--write]

OLD and NEW are folders that hold `src/kaucus`. Each fits the defaults of the k-means
kernel machines and of LS-SVMs to the same rows, in a process of its own: the tables to
develop on, digits, and 5,000 digits of MNIST, which are looked for below `KAUCUS_DATA`.
`--write` puts the table into benchmarks/results/same_numbers.md.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "same_numbers.md"
HEADERS = ["rows", "model", "before", "after"]
N_TRAIN, N_TEST = 2000, 3000
NAMES = ("KMeansKernel", "LSSVM")


def numbers(frame):
    """Return columns as numbers: categories as indicators, medians in gaps."""
    import pandas

    frame = pandas.get_dummies(frame, dtype=float)
    return frame.fillna(frame.median()).to_numpy(dtype=float)


def sets(home: Path):
    """Yield (name, X, y, number of training rows) of every set."""
    import pandas
    from sklearn.datasets import load_digits

    for path in sorted((home / "tables/develop").glob("*.csv.gz")):
        frame = pandas.read_csv(path)
        order = np.random.default_rng(0).permutation(len(frame))[: N_TRAIN + N_TEST]
        X = numbers(frame.drop(columns="target"))[order]
        n_train = min(N_TRAIN, len(order) * 2 // 3)
        yield path.name.partition(".")[0], X, frame["target"].to_numpy()[order], n_train
    yield "digits", *load_digits(return_X_y=True), 900
    X, y = mnist(home / "mnist")
    yield "MNIST", X, y, 5000


def mnist(folder: Path):
    """Return the first 5,000 training rows, then the 10,000 test rows."""
    import gzip

    def read(name, skipped):
        return np.frombuffer(
            gzip.decompress((folder / name).read_bytes())[skipped:], "u1"
        )

    parts = "train", "t10k"
    X = [read(f"{p}-images-idx3-ubyte.gz", 16).reshape(-1, 784) for p in parts]
    y = [read(f"{p}-labels-idx1-ubyte.gz", 8) for p in parts]
    X, y = (np.concatenate([a[0][:5000], a[1]]) for a in (X, y))
    return X.astype(np.float32) / 255, y


def measure(home: Path) -> dict[str, float]:
    """Return the error of each model on each set, of the checkout that is imported."""
    import kaucus

    found = {}
    for name, X, y, n in sets(home):
        is_number = y.dtype.kind in "if" and len(np.unique(y)) > 20
        for family in NAMES:
            kind = getattr(
                kaucus, family + ("Regressor" if is_number else "Classifier")
            )
            model = kind(random_state=0).fit(X[:n], y[:n])
            score = model.score(X[n:], y[n:])
            # In spreads of the target, and in per cent.
            found[f"{name}|{kind.__name__}"] = (
                float(np.sqrt(max(1 - score, 0))) if is_number else 100 * (1 - score)
            )
            print(f"{name} {kind.__name__} {score:.6f}", file=sys.stderr)
    return found


def measured(checkout: Path, home: Path) -> dict[str, float]:
    """Return what a checkout measures, in a process of its own with one thread."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--measure", str(home)],
        env={**os.environ, **threads, "PYTHONPATH": str(checkout.resolve() / "src")},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    """Measure both checkouts, print the table, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("new", type=Path, nargs="?")
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure)))
        return
    home = Path(os.environ["KAUCUS_DATA"])
    text = table(measured(options.old, home), measured(options.new, home))
    print(text)
    if options.write:
        write(text)


def table(before: dict[str, float], after: dict[str, float]) -> str:
    """Return the errors of both checkouts as Markdown."""
    from papers._markdown import markdown_table

    rows = [[*key.split("|"), old, after[key]] for key, old in before.items()]
    return markdown_table(HEADERS, rows)


def write(text: str) -> None:
    """Write the table and the machine into the file of results."""
    from papers import describe_machine

    machine = json.dumps(describe_machine(), default=str, indent=1)
    RESULTS.write_text(
        "# Same numbers\n\n`python -m benchmarks.same_numbers OLD NEW --write`: test "
        "errors of default fits of two checkouts, in per cent or, of regressors, in "
        f"spreads of the target.\n\n{text}\n\n```json\n{machine}\n```\n",
        "utf-8",
    )


if __name__ == "__main__":
    main()
