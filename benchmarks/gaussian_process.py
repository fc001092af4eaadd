"""A Gaussian process's mean, deviation, evidence and draws over the number of rows."""

import warnings
from time import process_time
from typing import Any

import numpy as np

from benchmarks._runner import Content, Settings, Step, Table

TITLE = "Gaussian processes"
ABOUT = (
    "Friedman's first function of 8 columns, noise of standard deviation 1; 10,000 new "
    "rows. Error: RMSE of the mean against the function without noise; within: "
    "percent of new values of it within 1.64 standard deviations of the mean, 90 when "
    "right. Processor seconds, one thread: the fit, with its search for width and "
    "noise; mean and deviation of 10,000 rows; evidence; 3 functions at 500 rows. "
    "GaussianProcessRegressor has ConstantKernel * RBF of one width + WhiteKernel, "
    "normalize_y, its widths by the evidence from one start. kaucus has kernel='rbf' "
    "without a learned metric."
)
SIZES, MOST_ROWS = (1000, 2000, 10_000, 100_000), 2000
CONTENDERS = ("GaussianProcessRegressor", "LSSVMRegressor", "KMeansKernelRegressor")


def make_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and values of the function without noise."""
    X = np.random.default_rng(seed).uniform(size=(n, 8))
    wave = 10 * np.sin(np.pi * X[:, 0] * X[:, 1])
    return X, wave + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def _make(name: str):
    if name == "GaussianProcessRegressor":
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        kernel = ConstantKernel() * RBF() + WhiteKernel()
        return GaussianProcessRegressor(kernel, normalize_y=True)
    import kaucus

    options = {"kernel": "rbf", "learn_metric": False}
    if name == "LSSVMRegressor":
        return kaucus.LSSVMRegressor(C="auto", gamma="tune", **options)
    return kaucus.KMeansKernelRegressor(1000, random_state=0, **options)


def steps(settings: Settings) -> list[Step]:
    """List every contender at every number of rows that it can have."""
    sizes = settings.sizes or (SIZES[:1] if settings.quick else SIZES)
    return [
        Step("records", f"{name}, {n} rows", measure, (name, n), {"name": name, "n": n})
        for n in sizes
        for name in CONTENDERS
        if n <= (10**7 if name == "KMeansKernelRegressor" else MOST_ROWS)
    ]


def measure(name: str, n: int) -> dict[str, Any]:
    """Fit, predict, draw; return errors and seconds."""
    X, f = make_rows(n, 0)
    y = f + np.random.default_rng(1).normal(size=n)
    new, truth = make_rows(10_000, 2)
    model, found = _make(name), {}

    def timed(key: str, function):
        start = process_time()
        result = function()
        found[key] = process_time() - start
        return result

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        timed("fit_seconds", lambda: model.fit(X, y))
        mean, std = timed("predict", lambda: model.predict(new, return_std=True))
        evidence = "log_marginal_likelihood_"
        if name == "GaussianProcessRegressor":
            evidence = "log_marginal_likelihood_value_"
        found["value"] = float(timed("evidence", lambda: getattr(model, evidence)))
        timed("draws", lambda: model.sample_y(new[:500], 3, random_state=0))
    found["error"] = float(np.sqrt(np.mean((mean - truth) ** 2)))
    found["within"] = float(100 * np.mean(np.abs(mean - truth) <= 1.64 * std))
    return found


def tables(content: Content) -> list[Table]:
    """Return a row for each contender and number of rows."""
    keys = ("error", "within", "fit_seconds", "predict", "evidence", "draws")
    rows = [
        [r["name"], r["n"], *(f"{r[k]:.3g}" for k in keys), f"{r['value']:.0f}"]
        for r in content["records"]
        if "error" in r
    ]
    headers = ["", "rows", "error", "within", "fit", "10,000 rows", "evidence", "draws"]
    return [Table(TITLE, [*headers, "value of the evidence"], rows)]
