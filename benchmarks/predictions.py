"""What it costs that float32 rows are predicted in the precision that is needed.

MNIST, 10,000 rows to predict: a model whose coefficients float32 suffices for, and one
whose coefficients cancel. Beside each other: float32 whatever comes of it, the check of
32 rows that decides, and float64; best of five, in turns.

    KAUCUS_DATA=... python -m benchmarks.predictions
"""

import numpy as np

from benchmarks._runner import load_digits
from kaucus import KMeansKernelClassifier, LSSVMClassifier
from kaucus.evaluation.clustering import format_seconds, print_table
from kaucus.kernels import _matrix
from papers import describe_machine, timed

REPEATS = 5
POLY = {"kernel": "poly", "degree": 4, "gamma": 1.0, "coef0": 0.0}
HEADERS = ("model", "float32 alone", "", "as needed", "", "ratio", "float64 rows", "")


def models():
    """Return name -> (unfitted model, training rows)."""
    few = {
        "clustering": "spherical",
        "fit_on": "representatives",
        "C": 1e4,
        "random_state": 0,
    }
    return {
        "10,000 representatives, x⁴, C = 1e4": (
            KMeansKernelClassifier(1000, **few, **POLY),
            60_000,
        ),
        "every row of 3,000, linear, C = 1e4": (
            LSSVMClassifier(C=1e4, kernel="linear"),
            3_000,
        ),
    }


def main():
    split = load_digits(60_000, "float32", None)
    X, y = split.X_test, split.y_test
    decide, rows = _matrix._float32_suffices, []
    for name, (model, n) in models().items():
        model.fit(split.X_train[:n], split.y_train[:n])
        ways = {
            "float32 alone": (X, lambda *args: True),
            "as needed": (X, decide),
            "float64 rows": (X.astype(np.float64), decide),
        }
        best, error = dict.fromkeys(ways, np.inf), {}
        for _ in range(REPEATS):
            for way, (Z, choose) in ways.items():
                _matrix._float32_suffices = choose
                predicted, seconds = timed(model.predict, Z)
                best[way] = min(best[way], seconds)
                error[way] = f"{100 * np.mean(predicted != y):.2f} % wrong"
        _matrix._float32_suffices = decide
        cells = {way: [format_seconds(best[way]), error[way]] for way in ways}
        ratio = f"{best['as needed'] / best['float32 alone']:.2f}"
        rows.append(
            [
                name,
                *cells["float32 alone"],
                *cells["as needed"],
                ratio,
                *cells["float64 rows"],
            ]
        )
    print_table(HEADERS, rows)
    print(describe_machine())


if __name__ == "__main__":
    main()
