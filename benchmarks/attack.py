"""What an attacker would try: equal inputs, odd units, weights, files, random words.

Each area is a list of cases with a law: what must be the same, finite, covered or
refused. A case that breaks its law is counted and named. Nothing here is a matter of
time; the tests hold the laws one by one, this counts them over many more set-ups.
"""

import contextlib
import copy
import functools
import io
import itertools
import logging
import os
import pickle
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor

from benchmarks._runner import Content, Settings, Step, Table

TITLE = "What an attacker tried"
ABOUT = (
    "`python -m benchmarks attack [--parts AREA ...] [--quick]`: cases whose law is "
    "broken, of all that were tried. A difference is the largest one over the standard "
    "deviation of the reference. `--quick` takes every seventh case."
)
SEED = {"random_state": 0}
RBF = {"kernel": "rbf", "gamma": 0.1, "C": 10.0}
OPEN = {"C": "auto", "kernel": "auto", "gamma": "tune"}
NAMED_FAILURES = 12
# MiB by which a process grows beside its arrays: modules, objects, malloc's own.
PYTHONS_OWN = 4
Case = tuple[str, Callable[[], Any]]
"""A name, and a function that raises where the law is broken."""


class Broken(AssertionError):
    """A law that does not hold, with what was seen."""


# ----------------------------------------------------------------------------------
# Rows, models, and how far results are apart.
# ----------------------------------------------------------------------------------


def smooth(n: int = 400, seed: int = 0, noise: float = 0.1) -> tuple:
    """Return rows of five columns with a smooth target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + noise * rng.normal(size=n)


def classes(n: int = 400, seed: int = 0) -> tuple:
    """Return rows of three classes."""
    X, y = smooth(n, seed, 0.4)
    return X, np.digitize(y, [-0.7, 0.7])


def data_for(model: Any, n: int = 400, seed: int = 0) -> tuple:
    """Return rows and the targets that the model takes."""
    return smooth(n, seed) if is_regressor(model) else classes(n, seed)


def models(*, search: bool = False) -> dict[str, Any]:
    """Return fitted kinds of models under their names, with the searches if asked."""
    import kaucus as k

    found = {
        "LSSVMClassifier": k.LSSVMClassifier(**RBF, **SEED),
        "LSSVMRegressor": k.LSSVMRegressor(**RBF, **SEED),
        "LSSVMRegressor cg": k.LSSVMRegressor(solver="cg", tol=1e-8, **RBF, **SEED),
        "LSSVMRegressor auto C": k.LSSVMRegressor("auto", gamma=0.1, **SEED),
        "KMeansKernelClassifier": k.KMeansKernelClassifier(30, **RBF, **SEED),
        "KMeansKernelRegressor": k.KMeansKernelRegressor(60, **RBF, **SEED),
        "ClusterRBFSVC": k.ClusterRBFSVC(2, **SEED),
        "LocalSVC": k.LocalSVC(2, **SEED),
        "SphericalKMeans": k.SphericalKMeans(4, **SEED),
        "KernelKMeans": k.KernelKMeans(3, gamma=0.1, n_init=2, **SEED),
        "KernelKMeans nystrom": k.KernelKMeans(
            3, gamma=0.1, approximation="nystrom", n_landmarks=60, **SEED
        ),
    }
    if search:
        found |= {
            "KMeansKernelClassifier()": k.KMeansKernelClassifier(**SEED),
            "KMeansKernelRegressor()": k.KMeansKernelRegressor(**SEED),
            "LSSVMRegressor open": k.LSSVMRegressor(**OPEN, **SEED),
            "LearnedMetric": k.LearnedMetric(**SEED),
        }
    return found


def output(model: Any, X: Any) -> np.ndarray:
    """Return decision values, predictions, labels or transformed rows as an array."""
    from kaucus._array.namespace import to_numpy

    for name in ("decision_function", "predict", "transform"):
        if hasattr(model, name):
            found = getattr(model, name)(X)
            found = found.toarray() if hasattr(found, "toarray") else found
            return np.asarray(to_numpy(found), dtype=float)
    raise TypeError(f"{model} has no output")


def far(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference over the spread of what was expected."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return np.inf
    spread = float(np.std(expected)) or 1.0
    return float(np.max(np.abs(found - expected), initial=0.0)) / spread


def require_near(found: np.ndarray, expected: np.ndarray, most: float) -> None:
    """Raise where results are further apart than allowed."""
    distance = far(np.asarray(found, float), np.asarray(expected, float))
    if not distance <= most:
        raise Broken(f"{distance:.2g} apart, at most {most:g}")


def require(holds: Any, told: str) -> None:
    """Raise where a law does not hold."""
    if not holds:
        raise Broken(told)


def require_refused(call: Callable[[], Any], *kinds: type[Exception]) -> None:
    """Raise unless the call raises one of these errors, with a text of some length."""
    try:
        call()
    except Exception as error:
        if not isinstance(error, kinds or (ValueError, TypeError)):
            raise
        require(len(str(error)) > 20, f"says no more than {str(error)!r}")
        return
    raise Broken("was not refused")


# ----------------------------------------------------------------------------------
# Areas of rows and targets.
# ----------------------------------------------------------------------------------


def precisions() -> Iterator[Case]:
    """Yield: float32 rows give the scores of float64 rows."""
    import kaucus as k

    kernels = ("rbf", "exponential", "laplacian", "cauchy", "poly", "linear")
    grid = itertools.product(kernels, (0.01, 0.1, 1.0), (1.0, 1e3, 1e6))
    for kernel, gamma, C in grid:
        for cls, first in (
            (k.LSSVMRegressor, ()),
            (k.KMeansKernelRegressor, (60,)),
            (k.LSSVMClassifier, ()),
            (k.KMeansKernelClassifier, (20,)),
        ):
            given = {"kernel": kernel, "gamma": gamma, "C": C, **SEED}

            def case(cls=cls, first=first, given=given):
                model = cls(*first, **given)
                X, y = data_for(model)
                new, right = data_for(model, seed=1)
                wide = clone(model).fit(X, y).score(new, right)
                narrow = clone(model).fit(X.astype("f4"), y).score(new, right)
                least = wide - 0.02 - 0.05 * abs(wide)
                require(narrow >= least, f"{narrow:.4f}, in float64 {wide:.4f}")

            yield f"{cls.__name__} {kernel} gamma={gamma} C={C:g}", case


def equal_inputs() -> Iterator[Case]:
    """Yield: the same rows in another form give the same model."""
    import pandas

    def strided(X):
        return np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]

    def mapped(X):
        path = Path(tempfile.mkdtemp()) / "rows.npy"
        np.save(path, X)
        return np.load(path, mmap_mode="r")

    forms: dict[str, Callable] = {
        "Fortran order": np.asfortranarray,
        "strides": strided,
        "big endian": lambda X: X.astype(">f8"),
        "list": lambda X: X.tolist(),
        "read-only": lambda X: _read_only(X),
        "frame": lambda X: pandas.DataFrame(X, columns=list("abcde")),
        "memory map": mapped,
    }
    try:
        import torch

        forms["tensor"] = torch.tensor
    except ModuleNotFoundError:
        pass
    for (name, model), (form, change) in itertools.product(
        models(search=True).items(), forms.items()
    ):

        def case(model=model, change=change):
            X, y = data_for(model)
            new, _ = data_for(model, seed=1)
            expected = output(clone(model).fit(X, y), new)
            fitted = clone(model).fit(change(X), y)
            require_near(output(fitted, change(new)), expected, 1e-6)

        yield f"{name}, {form}", case
    for name, model in models().items():
        if "KMeans" in name or "SVC" in name:
            continue

        def permuted(model=model):
            X, y = data_for(model)
            new, _ = data_for(model, seed=1)
            order = np.random.default_rng(0).permutation(len(X))
            expected = output(clone(model).fit(X, y), new)
            again = output(clone(model).fit(X[order], y[order]), new)
            require_near(again, expected, 1e-5)

        yield f"{name}, permuted rows", permuted
    for name, model in models(search=True).items():
        if not is_classifier(model):
            continue

        def labelled(model=model):
            X, y = data_for(model)
            new, _ = data_for(model, seed=1)
            words = np.array(["a", "b", "c"])
            expected = words[clone(model).fit(X, y).predict(new)]
            found = clone(model).fit(X, words[y]).predict(new)
            require((found == expected).all(), "other labels, other classes")

        yield f"{name}, words as labels", labelled
    yield from _owned()


def _read_only(X):
    X = X.copy()
    X.setflags(write=False)
    return X


def _owned() -> Iterator[Case]:
    for name, model in models().items():

        def case(model=model):
            X, y = data_for(model)
            new, _ = data_for(model, seed=1)
            X, y, weight = X.copy(), y.copy(), np.ones(len(X))
            before = X.copy()
            fitted = clone(model)
            fitted.fit(X, y)
            require((before == X).all(), "fit changed X")
            expected = output(fitted, new)
            X[:], y[:], weight[:] = 0, 0, 0
            require_near(output(fitted, new), expected, 0.0)

        yield f"{name}, X written into after fit", case


def target_units() -> Iterator[Case]:
    """Yield: fit(a y + b) = a fit(y) + b."""
    import kaucus as k
    from kaucus.solvers._blocks import RANDOMIZED

    found = {n: m for n, m in models(search=True).items() if is_regressor(m)}
    for solver in RANDOMIZED:
        steps = {"block_size": 50, "max_iter": 40, "tol": 1e-6}
        found[f"LSSVMRegressor {solver}"] = k.LSSVMRegressor(
            solver=solver, **steps, **RBF, **SEED
        )
    # What is searched by gradients in single precision rounds more.
    wide = {"KMeansKernelRegressor()", "LSSVMRegressor open"}
    units = itertools.product((1e-6, 1.0, 1e6), (0.0, 1.0, 1e4, 1e8), ("f8", "f4"))
    for (name, model), (a, b, dtype) in itertools.product(found.items(), units):

        def case(model=model, name=name, a=a, b=b, dtype=dtype):
            X, y = smooth()
            X = X.astype(dtype)
            new = smooth(seed=1)[0].astype(dtype)
            expected = output(clone(model).fit(X, y), new)
            offset = b * a * np.std(y)
            result = output(clone(model).fit(X, a * y + offset), new)
            rounding = np.finfo(float).eps * (1 + b) * 1e4
            given = {"f8": 1e-6 if name in wide else 1e-9, "f4": 2e-2}[dtype]
            require_near((result - offset) / a, expected, given + rounding)

        yield f"{name}, a={a:g} b={b:g} {dtype}", case


def columns() -> Iterator[Case]:
    """Yield: constant columns, common offsets and one wild value do no harm."""
    found = {n: m for n, m in models(search=True).items() if hasattr(m, "score")}
    for (name, model), (size, dtype) in itertools.product(
        found.items(), itertools.product((0.0, 1.0, 1e5, 1e9), ("f8", "f4"))
    ):
        if "SVC" in name or "KernelKMeans" in name or "Spherical" in name:
            continue

        def constant(model=model, size=size, dtype=dtype):
            X, y = data_for(model)
            new, right = data_for(model, seed=1)
            plain = clone(model).fit(X, y).score(new, right)
            more = [np.column_stack([Z, np.full(len(Z), size)]) for Z in (X, new)]
            more = [Z.astype(dtype) for Z in more]
            score = clone(model).fit(more[0], y).score(more[1], right)
            require(score > plain - 0.03, f"{score:.3f}, without it {plain:.3f}")

        yield f"{name}, a constant column of {size:g}, {dtype}", constant
    for name, model in found.items():
        if "Regressor" not in name:
            continue
        for offset in (1e2, 1e5, 1e9):

            def moved(model=model, offset=offset):
                X, y = data_for(model)
                new, right = data_for(model, seed=1)
                plain = clone(model).fit(X, y).score(new, right)
                score = clone(model).fit(X + offset, y).score(new + offset, right)
                require(score > plain - 0.03, f"{score:.3f}, in place {plain:.3f}")

            yield f"{name}, X + {offset:g}", moved
    for name in ("KMeansKernelRegressor()", "LSSVMRegressor open"):
        for wild in (1e2, 1e6, -1e12):

            def runs_away(model=found[name], wild=wild):
                X, y = smooth()
                new, _ = smooth(seed=1)
                fitted = clone(model).fit(X, y)
                new[0, 2] = wild
                value = float(fitted.predict(new)[0])
                most = np.abs(y - y.mean()).max() * 2 + abs(y.mean())
                require(abs(value) < most, f"predicts {value:.3g}")

            yield f"{name}, a new value of {wild:g}", runs_away


def weights() -> Iterator[Case]:
    """Yield: what a weight is."""
    import kaucus as k

    searched = {
        "LSSVMRegressor auto": k.LSSVMRegressor("auto", gamma="tune", **SEED),
        "LSSVMClassifier auto": k.LSSVMClassifier("auto", gamma="tune", **SEED),
        "KMeansKernelRegressor()": k.KMeansKernelRegressor(**SEED),
        "KMeansKernelClassifier()": k.KMeansKernelClassifier(**SEED),
        "LSSVMRegressor open": k.LSSVMRegressor(**OPEN, **SEED),
    }
    fixed = {n: m for n, m in models().items() if hasattr(m, "C") and "SVC" not in n}
    for (name, model), factor in itertools.product(
        searched.items(), (1e-3, 0.5, 1.5, 10.0, 1e4)
    ):

        def scaled(model=model, factor=factor):
            X, y = data_for(model)
            new, _ = data_for(model, seed=1)
            weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
            first = output(clone(model).fit(X, y, sample_weight=weight), new)
            second = output(clone(model).fit(X, y, sample_weight=factor * weight), new)
            require_near(second, first, 1e-5)

        yield f"{name}, all weights times {factor:g}", scaled
    for name, model in {**searched, **fixed}.items():

        def left_out(model=model):
            X, y = data_for(model)
            new, _ = data_for(model, seed=1)
            weight = np.ones(len(X))
            weight[::5] = 0
            garbage = X.copy()
            garbage[::5] = 77
            first = output(clone(model).fit(X, y, sample_weight=weight), new)
            second = output(clone(model).fit(garbage, y, sample_weight=weight), new)
            require_near(second, first, 1e-6)

        yield f"{name}, garbage in rows of weight 0", left_out
        for bad in (np.nan, -1.0, np.inf):

            def refused(model=model, bad=bad):
                X, y = data_for(model)
                weight = np.ones(len(X))
                weight[3] = bad
                require_refused(lambda: clone(model).fit(X, y, sample_weight=weight))

            yield f"{name}, a weight of {bad}", refused
    for cls, n in itertools.product((k.LSSVMRegressor, k.LSSVMClassifier), (80, 200)):

        def twice(cls=cls, n=n):
            model = cls(**RBF, **SEED)
            X, y = data_for(model, n)
            new, _ = data_for(model, seed=1)
            weight = np.where(np.arange(n) % 3 == 0, 2, 1)
            weighted = output(clone(model).fit(X, y, sample_weight=weight), new)
            some = np.repeat(np.arange(n), weight)
            require_near(
                output(clone(model).fit(X[some], y[some]), new), weighted, 1e-7
            )

        yield f"{cls.__name__}, a weight of 2 is two rows, n={n}", twice


def degenerate() -> Iterator[Case]:
    """Yield: pure noise, near copies of rows, constant targets, few rows."""
    found = {n: m for n, m in models(search=True).items() if "KMeansKernel" in n}
    found |= {n: m for n, m in models(search=True).items() if "LSSVMRegressor" in n}
    regressors = {n: m for n, m in found.items() if is_regressor(m)}
    for (name, model), seed in itertools.product(regressors.items(), range(4)):

        def noise(model=model, seed=seed):
            rng = np.random.default_rng(seed)
            X, new = rng.normal(size=(2, 200, 8))
            y, right = rng.normal(size=(2, 200))
            score = clone(model).fit(X, y).score(new, right)
            limit = -0.25 if "auto" in str(model) or "()" in str(model) else -1.2
            require(score > limit, f"R2 {score:.3f} of noise")

        yield f"{name}, noise {seed}", noise
    for (name, model), seed in itertools.product(regressors.items(), range(3)):
        if model.get_params().get("C") not in ("auto",):
            continue

        def copies(model=model, seed=seed):
            X, y = smooth(150, seed, noise=1.0)
            new, right = smooth(400, seed + 10, noise=1.0)
            plain = clone(model).fit(X, y).score(new, right)
            rng = np.random.default_rng(seed)
            near = np.repeat(X, 4, axis=0)
            near = near + 1e-6 * rng.normal(size=near.shape)
            score = clone(model).fit(near, np.repeat(y, 4)).score(new, right)
            require(score > plain - 0.1, f"R2 {score:.3f}, without copies {plain:.3f}")

        yield f"{name}, four copies of each row 1e-6 apart, {seed}", copies
    for name, model in regressors.items():
        for value in (0.0, 3.0, -1e12):

            def constant(model=model, value=value):
                X, _ = smooth(100)
                fitted = clone(model).fit(X, np.full(100, value))
                require_near(
                    fitted.predict(X) - value, np.zeros(100), 1e-9 * abs(value)
                )
                if fitted.solver_ != "cg":
                    std = fitted.predict(X, return_std=True)[1]
                    require(np.all(std == 0), f"std {np.max(std):.3g}")

            yield f"{name}, y = {value:g}", constant
    for name, model in models(search=True).items():
        for n in (2, 3, 7):

            def few(model=model, n=n):
                X, y = data_for(model, n)
                if is_classifier(model):
                    y = np.arange(n) % 2
                try:
                    result = output(clone(model).fit(X, y), X)
                except ValueError as error:
                    require(len(str(error)) > 20, "a short error")
                else:
                    require(np.isfinite(result).all(), "not finite")

            yield f"{name}, {n} rows", few


def intervals() -> Iterator[Case]:
    """Yield: intervals and sets hold what they promise."""
    import kaucus as k

    regressors = {
        "LSSVMRegressor": k.LSSVMRegressor(**RBF, **SEED),
        "KMeansKernelRegressor": k.KMeansKernelRegressor(60, **RBF, **SEED),
        "KMeansKernelRegressor()": k.KMeansKernelRegressor(**SEED),
    }
    methods = ("plus", "naive", "minmax", "split")
    for (name, model), method, seed in itertools.product(
        regressors.items(), methods, range(3)
    ):

        def covered(model=model, method=method, seed=seed):
            X, y = smooth(500, seed, noise=0.5)
            new, right = smooth(1500, seed + 10, noise=0.5)
            fitted = clone(model).fit(X, y)
            if method == "split":
                fitted.conformalize(*smooth(500, seed + 20, noise=0.5))
            levels = [0.5, 0.8, 0.9]
            ends = fitted.predict_interval(new, levels, method=method)
            for level, (low, high) in zip(levels, ends.transpose(2, 1, 0), strict=True):
                held = np.mean((low <= right) & (right <= high))
                slack = 0.2 if method == "naive" else 0.08
                require(held > level - slack, f"{held:.3f} of {level}")
            width = np.diff(ends, axis=1)
            require(np.all(np.diff(width, axis=2) >= -1e-12), "not nested")

        yield f"{name} {method} {seed}", covered
    classifiers = {
        "LSSVMClassifier": k.LSSVMClassifier(**RBF, **SEED),
        "KMeansKernelClassifier": k.KMeansKernelClassifier(15, **RBF, **SEED),
    }
    for (name, model), score, seed in itertools.product(
        classifiers.items(), ("lac", "aps"), range(3)
    ):

        def held(model=model, score=score, seed=seed):
            X, y = classes(500, seed)
            new, right = classes(1500, seed + 10)
            sets = clone(model).fit(X, y).predict_set(new, 0.9, score=score)
            share = np.mean(sets[np.arange(len(new)), right])
            require(share > 0.82, f"{share:.3f} of 0.9")

        yield f"{name} {score} {seed}", held


# ----------------------------------------------------------------------------------
# Areas of files, batches and programs.
# ----------------------------------------------------------------------------------


def round_trips() -> Iterator[Case]:
    """Yield: a model that was saved and loaded predicts the same."""
    import joblib

    from kaucus.persistence import load, save

    def by_pickle(model):
        return pickle.loads(pickle.dumps(model))

    def by_joblib(model):
        buffer = io.BytesIO()
        joblib.dump(model, buffer)
        buffer.seek(0)
        return joblib.load(buffer)

    def by_skops(model):
        path = Path(tempfile.mkdtemp()) / "model.skops"
        save(model, path)
        return load(path)

    ways = (by_pickle, by_joblib, by_skops, copy.deepcopy)
    for (name, model), way in itertools.product(models(search=True).items(), ways):

        def case(model=model, way=way):
            X, y = data_for(model)
            fitted = clone(model).fit(X, y)
            require_near(output(way(fitted), X), output(fitted, X), 1e-12)

        yield f"{name}, {way.__name__}", case


def hostile_files() -> Iterator[Case]:
    """Yield: a changed file is refused in words, or is a model of the same class."""
    import kaucus as k
    from kaucus.persistence import ModelFileError, load, save

    @functools.cache
    def saved() -> bytes:
        path = Path(tempfile.mkdtemp()) / "model.skops"
        save(k.LSSVMClassifier(**RBF).fit(*classes(60)), path)
        return path.read_bytes()

    def check(content: bytes) -> None:
        path = Path(tempfile.mkdtemp()) / "changed.skops"
        path.write_bytes(content)
        try:
            loaded = load(path)
        except ModelFileError:
            return
        require(isinstance(loaded, k.LSSVMClassifier), f"a {type(loaded).__name__}")

    for seed in range(40):

        def flipped(seed=seed):
            rng = np.random.default_rng(seed)
            content = bytearray(saved())
            for place in rng.integers(len(content), size=3):
                content[place] ^= 1 << int(rng.integers(8))
            check(bytes(content))

        yield f"three bits, {seed}", flipped
    for share in (0.0, 0.3, 0.9, 0.999):
        yield (
            f"cut at {share:g}",
            lambda share=share: check(saved()[: int(share * len(saved()))]),
        )
    for word in ("os.system", "builtins.eval", "subprocess.Popen", "sklearn.svm.SVC"):

        def renamed(word=word):
            module, _, name = word.rpartition(".")
            old, new = zipfile.ZipFile(io.BytesIO(saved())), io.BytesIO()
            with zipfile.ZipFile(new, "w") as archive:
                for entry in old.namelist():
                    text = old.read(entry)
                    if entry == "schema.json":
                        text = text.replace(b'"kaucus.model"', f'"{module}"'.encode())
                        text = text.replace(b'"LSSVMClassifier"', f'"{name}"'.encode())
                    archive.writestr(entry, text)
            path = Path(tempfile.mkdtemp()) / "changed.skops"
            path.write_bytes(new.getvalue())
            require_refused(lambda: load(path), ModelFileError)

        yield f"a stranger's type {word}", renamed
    yield from _edited_arrays(saved)


def _edited_arrays(saved: Callable[[], bytes]) -> Iterator[Case]:
    """Yield: an array of other numbers or shape is refused, or does not matter."""
    from kaucus.persistence import ModelFileError, load

    edits: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "NaN": lambda a: np.full(a.shape, np.nan),
        "shorter": lambda a: a[:-1],
        "one more axis": lambda a: a[None],
        "text": lambda a: np.full(a.shape, "x"),
    }
    X, _ = classes(60)
    with zipfile.ZipFile(io.BytesIO(saved())) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    path = Path(tempfile.mkdtemp()) / "model.skops"
    path.write_bytes(saved())
    expected = output(load(path), X)
    arrays = [name for name in entries if name.endswith(".npy")]
    for (number, name), edit in itertools.product(enumerate(arrays), edits):

        def edited(name=name, edit=edit):
            array, new = np.load(io.BytesIO(entries[name])), io.BytesIO()
            np.save(new, edits[edit](array) if array.ndim else array)
            changed = Path(tempfile.mkdtemp()) / "changed.skops"
            with zipfile.ZipFile(changed, "w") as archive:
                for entry, content in entries.items():
                    content = new.getvalue() if entry == name else content
                    archive.writestr(entry, content)
            try:
                found = output(load(changed), X)
            except (ModelFileError, ValueError, TypeError):
                return
            require_near(found, expected, 1e-12)

        yield f"array {number}, {edit}", edited


def pages() -> Iterator[Case]:
    """Yield: no name of a column, label or model becomes active in a report."""
    from html.parser import HTMLParser

    import pandas

    import kaucus as k

    class Active(HTMLParser):
        """Collects the tags of a page that run, load or lead elsewhere."""

        found: tuple = ()

        def handle_starttag(self, tag, attrs):
            words = ("href", "src", "xlink:href")
            runs = tag in ("script", "iframe", "b") or any(
                name.startswith("on")
                or (name in words and not value.startswith(("#", "data:")))
                for name, value in attrs
            )
            if runs:
                self.found += (tag,)

    names = [
        *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a&b<c>d"),
        *('"><svg onload=alert(1)>', "javascript:alert(1)", "';alert(1)//"),
        *("</style><script>1</script>", "</title><script>1</script>", "]]>", "$x^2$"),
        *("<!--", "--><script>1</script>", "\\u003cscript>", "{{7*7}}", "é\u202e<b>"),
    ]
    for name, place in itertools.product(names, ("column", "label", "title", "target")):

        def case(name=name, place=place):
            X, y = smooth(120)
            frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
            labels = np.where(y > 0, "up", "down").astype(object)
            if place == "column":
                frame = frame.rename(columns={"a": name})
            if place == "label":
                labels[y > 0] = name
            model = k.KMeansKernelClassifier(6, **RBF, **SEED)
            model.fit(frame[:80], labels[:80])
            title = name if place == "title" else None
            about = {"target": name} if place == "target" else None
            told = k.report(model, frame[80:], labels[80:], title=title, about=about)
            reader = Active()
            reader.feed(told.to_html())
            require(not reader.found, f"tags of a name: {reader.found}")

        yield f"{place} {name!r}", case


def tools() -> Iterator[Case]:
    """Yield: scikit-learn's own tools take the models, in threads and processes too."""
    from joblib import Parallel, delayed
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GridSearchCV, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def grid(model, X, y):
        search = GridSearchCV(model, {"random_state": [0, 1]}, cv=3).fit(X, y)
        require_near(output(search, X), output(search.best_estimator_, X), 0.0)

    def unseen(model, X, y):
        found = cross_val_predict(model, X, y, cv=3)
        require(len(found) == len(y), "other rows")

    def calibrated(model, X, y):
        if is_classifier(model):
            P = CalibratedClassifierCV(model, cv=3).fit(X, y).predict_proba(X)
            require_near(P.sum(axis=1), np.ones(len(X)), 1e-9)

    def pipeline(model, X, y):
        scaled = StandardScaler().fit_transform(X)
        expected = output(clone(model).fit(scaled, y), scaled)
        steps = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
        require_near(output(steps, X), expected, 1e-9)

    def side_by_side(model, X, y, prefer="threads"):
        fits = [delayed(clone(model).fit)(X, y) for _ in range(3)]
        expected = output(clone(model).fit(X, y), X)
        for fitted in Parallel(2, prefer=prefer)(fits):
            require_near(output(fitted, X), expected, 1e-6)

    def in_processes(model, X, y):
        side_by_side(model, X, y, prefer="processes")

    ways = (grid, unseen, calibrated, pipeline, side_by_side, in_processes)
    found = {n: m for n, m in models().items() if hasattr(m, "score")}
    for (name, model), way in itertools.product(found.items(), ways):

        def case(model=model, way=way):
            X, y = data_for(model, 150)
            way(model, X, y)

        yield f"{name}, {way.__name__}", case


def graphs() -> Iterator[Case]:
    """Yield: the ONNX graph says what the model says."""
    import onnxruntime

    def run(model, X, dtype):
        session = onnxruntime.InferenceSession(
            model.to_onnx(dtype=dtype).SerializeToString(),
            providers=["CPUExecutionProvider"],
        )
        [given] = session.get_inputs()
        return dict(
            zip(
                (o.name for o in session.get_outputs()),
                session.run(None, {given.name: X.astype(dtype)}),
                strict=True,
            )
        )

    for (name, model), dtype in itertools.product(
        models(search=True).items(), ("float32", "float64")
    ):
        if not hasattr(model, "to_onnx"):
            continue

        def case(model=model, dtype=dtype):
            X, y = data_for(model)
            fitted = clone(model).fit(X, y)
            found = run(fitted, X, dtype)
            tolerance = {"float32": 2e-3, "float64": 1e-8}[dtype]
            if is_regressor(model):
                values = np.ravel(next(iter(found.values())))
                require_near(values, np.ravel(fitted.predict(X)), tolerance)
            elif is_classifier(model):
                labels = next(v for v in found.values() if v.ndim == 1)
                same = np.mean(labels == fitted.predict(X))
                require(same >= 0.99, f"{same:.3f} of the labels are the same")

        yield f"{name}, {dtype}", case


def batches() -> Iterator[Case]:
    """Yield: rows in batches or on Dask give the model of the array."""
    import kaucus as k

    found = {
        "KMeansKernelClassifier": k.KMeansKernelClassifier(20, **RBF, **SEED),
        "KMeansKernelRegressor": k.KMeansKernelRegressor(40, **RBF, **SEED),
        "SphericalKMeans": k.SphericalKMeans(4, **SEED),
        "LearnedMetric": k.LearnedMetric(max_steps=1, kernel="rbf", **SEED),
        "KernelKMeans nystrom": k.KernelKMeans(
            3, gamma=0.1, approximation="nystrom", n_landmarks=60, **SEED
        ),
    }
    for (name, model), size in itertools.product(found.items(), (97, 200, 600)):

        def in_batches(model=model, size=size):
            X, y = data_for(model, 600)
            expected = output(clone(model).fit(X, y), X)
            slices = [slice(s, s + size) for s in range(0, 600, size)]
            batched = clone(model).fit_batches(lambda: ((X[s], y[s]) for s in slices))
            require_near(output(batched, X), expected, 1e-5)

        yield f"{name}, batches of {size}", in_batches

        def on_dask(model=model, size=size):
            import dask
            import dask.array as da

            X, y = data_for(model, 600)
            expected = output(clone(model).fit(X, y), X)
            with dask.config.set(scheduler="sync"):
                parts = da.from_array(X, chunks=(size, 5))
                fitted = clone(model).fit(parts, da.from_array(y, chunks=size))
                require_near(output(fitted, X), expected, 1e-5)

        yield f"{name}, Dask partitions of {size}", on_dask


def threads() -> Iterator[Case]:
    """Yield: the number of threads is a matter of rounding."""
    import threadpoolctl

    for (name, model), n_threads in itertools.product(models().items(), (2, 3)):

        def case(model=model, n_threads=n_threads):
            X, y = data_for(model)
            found = []
            for n in (1, n_threads):
                with threadpoolctl.threadpool_limits(n):
                    found.append(output(clone(model).fit(X, y), X))
            require_near(found[1], found[0], 1e-5)

        yield f"{name}, 1 and {n_threads} threads", case


def interrupts() -> Iterator[Case]:
    """Yield: Ctrl-C inside a fit is raised, and the estimator is as it was."""
    for (name, model), share in itertools.product(
        models(search=True).items(), (0.1, 0.35, 0.6, 0.85)
    ):

        def case(model=model, share=share):
            import time

            X, y = data_for(model)
            fitted = clone(model).fit(X, y)
            start = time.perf_counter()
            clone(model).fit(X, y)
            seconds = time.perf_counter() - start
            before, expected = set(vars(fitted)), output(fitted, X)
            timer = threading.Timer(
                share * seconds, os.kill, (os.getpid(), signal.SIGINT)
            )
            done = False
            try:
                timer.start()
                fitted.fit(X[::-1], y[::-1])
                done = True
                time.sleep(seconds)  # the fit was faster than the one before
            except KeyboardInterrupt:
                if done:
                    return
                require(set(vars(fitted)) == before, "other attributes")
                require_near(output(fitted, X), expected, 0.0)
            finally:
                timer.cancel()

        yield f"{name}, after {share:.0%} of a fit", case


# ----------------------------------------------------------------------------------
# Areas of words: parameters, scikit-learn's checks, the command line.
# ----------------------------------------------------------------------------------


def random_parameters() -> Iterator[Case]:
    """Yield: any words for parameters give a finite model or an error with a remedy."""
    import kaucus as k

    names = [n for n in k.__all__ if isinstance(getattr(k, n), type)]
    classes_of = [getattr(k, n) for n in names if "Patch" not in n]
    values = {
        "C": [1e-3, 1.0, 1e5, "auto", [0.1, 10.0], 0, -1, None, "x", np.nan],
        "gamma": ["scale", "auto", "median", "tune", 0.1, 10, 0, [0.1, 1.0], "y"],
        "kernel": [
            "rbf",
            "poly",
            "laplacian",
            "linear",
            "auto",
            "precomputed",
            "rfb",
            3,
        ],
        "solver": ["auto", "cg", "cholesky", "kaczmarz", "nystrom", "eig"],
        "n_representatives": ["fast", "balanced", 1, 5, 10**6, 0, {0: 3}, "all"],
        "n_clusters": [1, 2, 5, 0, 10**5],
        "learn_metric": ["auto", True, False, 1],
        "block_size": [None, 1, 50, 10**6],
        "n_runs": [1, 2, 0],
        "max_iter": [1, 3, 0],
        "tol": [1e-3, 1e-12, 0],
        "degree": [1, 3, 2.5],
        "class_weight": [None, "balanced", {0: 2.0}, {9: 1.0}],
        "memory_budget": [None, "1KiB", "3MiB", "3 apples"],
        "precision": [None, "float32", "float64", "tf32", "half"],
        "fit_on": ["all", "boundary", "representatives", "none"],
        "clustering": ["kmeans", "spherical", "x"],
        "refine": [None, "auto", 5, 0],
        "probability": ["softmax", "sum_exp", False, True],
        "scoring": ["accuracy", "neg_log_loss", "neg_mean_squared_error"],
        "max_samples": [50, 300, None, 1],
        "max_steps": [0, 1, 3],
        "n_init": [1, 3, "auto", 0],
        "init": ["random", "k-means++", "zeros"],
        "approximation": [None, "nystrom", "other"],
        "partition": ["kmeans", "gmm", "linear", "tree", "x"],
        "random_state": [0, None, "seed"],
    }
    for seed in range(700):

        def case(seed=seed):
            rng = np.random.default_rng(seed)
            cls = classes_of[rng.integers(len(classes_of))]
            known = [n for n in cls().get_params(deep=False) if n in values]
            some = rng.permutation(known)[: rng.integers(1, 4)]
            given = {n: values[n][rng.integers(len(values[n]))] for n in some}
            model = cls(**given)
            X, y = data_for(model, 60)
            X = X @ X.T if given.get("kernel") == "precomputed" else X
            try:
                result = output(model.fit(X, y), X)
            except (ValueError, TypeError, MemoryError) as error:
                # A TypeError of ours names the parameter; others are crashes.
                said = str(error)
                ours = any(str(n) in said for n in given) or len(said) > 60
                require(ours, f"{cls.__name__}({given}): {type(error).__name__} {said}")
            else:
                require(
                    np.isfinite(result).all(), f"{cls.__name__}({given}) not finite"
                )

        yield f"draw {seed}", case


def scikit_learns_checks() -> Iterator[Case]:
    """Yield: scikit-learn's own checks, but for those that the tests excuse."""
    from sklearn.utils.estimator_checks import estimator_checks_generator

    from tests.discovery import estimators
    from tests.test_sklearn_contract import excused as reasons

    for estimator in estimators():
        excused = reasons(estimator)
        for one, check in estimator_checks_generator(estimator):
            name = getattr(check, "func", check).__name__
            if name in excused:
                continue
            yield (
                f"{type(estimator).__name__} {name}",
                functools.partial(_not_skipped, check, one),
            )


def _not_skipped(check: Callable, estimator: Any) -> None:
    with contextlib.suppress(SkipTest):
        check(estimator)


def budgets() -> Iterator[Case]:
    """Yield: no fit or prediction takes more memory than it was given."""
    fitted = "import kaucus as k, numpy as np; r = np.random.default_rng(0); "
    many = "X = r.normal(size=(20000, 10)); y = X[:, 0] + np.sin(2 * X[:, 1]); "
    few = "X = r.normal(size=(2500, 10)); y = X[:, 0] + np.sin(2 * X[:, 1]); "
    G = "kernel='rbf', gamma=.1, C=10, random_state=0"
    runs = {
        "predict_set, 60 MiB": (
            60,
            many + f"m = k.KMeansKernelClassifier(100, {G}, memory_budget='60MiB')"
            ".fit(X, y > 0)",
            "m.predict_set(X)",
        ),
        "predict_interval, 60 MiB": (
            60,
            many + f"m = k.KMeansKernelRegressor(300, {G}, memory_budget='60MiB')"
            ".fit(X, y)",
            "m.predict_interval(X)",
        ),
        "fit of 20,000 rows, 60 MiB": (
            60,
            many + f"m = k.KMeansKernelRegressor(300, {G}, memory_budget='60MiB')",
            "m.fit(X, y)",
        ),
    }
    for size in (8, 12, 16, 24):
        runs[f"fit of 2,500 rows, {size} MiB"] = (
            size,
            few + f"m = k.KMeansKernelClassifier('fast', memory_budget='{size}MiB', "
            "random_state=0)",
            "m.fit(X, y > 0)",
        )
    for name, (budget, prepare, run) in runs.items():

        def case(budget=budget, prepare=prepare, run=run):
            code = (
                f"import warnings; warnings.simplefilter('ignore'); {fitted}{prepare}\n"
                "from papers import peak_memory\n"
                "from kaucus._array.blocks import release_freed_memory\n"
                "k.KMeansKernelRegressor(20, kernel='rbf', gamma=.1, C=1).fit(X[:300], "
                "y[:300]).predict_interval(X[:50])\n"
                "k.KMeansKernelClassifier('fast').fit(X[:400], y[:400] > 0)\n"
                "release_freed_memory()\n"
                f"with peak_memory() as m_:\n    {run}\n"
                "print(m_.rise)"
            )
            env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                env=env,
                check=False,
            )
            require(done.returncode == 0, done.stderr.strip().splitlines()[-1:])
            rise = int(done.stdout.split()[-1]) / 2**20
            most = budget + PYTHONS_OWN
            require(rise <= most, f"{rise:.1f} MiB of {budget}")

        yield name, case


def command_line() -> Iterator[Case]:
    """Yield: odd tables, labels and outputs are read right or refused in one line."""
    from kaucus.cli import main

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 80)).round(3)

    def run(folder: Path, *argv) -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        before = Path.cwd()
        os.chdir(folder)
        try:
            with (
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("default")
                code = main([str(word) for word in argv])
        finally:
            os.chdir(before)
        require("Traceback" not in err.getvalue(), "a traceback")
        return code, out.getvalue() + err.getvalue()

    def folder_with(lines: list[str], name: str = "train.csv") -> Path:
        folder = Path(tempfile.mkdtemp())
        (folder / name).write_text("\n".join(lines) + "\n")
        return folder

    def fit(folder: Path, *more) -> tuple[int, str]:
        words = ("fit", "train.csv", "--target", "y", "-o", "m.skops", *more)
        return run(folder, *words, "--time", "fast", "--no-holdout")

    def table(labels) -> list[str]:
        rows = [f"{p},{q},{t}" for p, q, t in zip(a, b, labels, strict=True)]
        return ["a,b,y", *rows]

    up = a + b > 0
    pairs = [
        *(("TRUE", "FALSE"), ("true", "false"), ("0.50", "1.50"), ("01", "02")),
        *(("1e3", "2e3"), ("10000000000000001", "10000000000000003"), ("yes", "no")),
        *(("inf", "1"), ("a b", "a  b"), ("é", "ё"), ("'x'", "?")),
    ]
    for pair in pairs:

        def labels(pair=pair):
            folder = folder_with(table(np.where(up, *pair)))
            code, told = fit(folder, "--task", "classification")
            require(code == 0, told[-200:])
            code, told = run(folder, "predict", "m.skops", "train.csv", "-o", "p.csv")
            require(code == 0, told[-200:])
            import pandas

            given = pandas.read_csv(
                folder / "train.csv", dtype=str, keep_default_na=False
            )["y"]
            found = pandas.read_csv(folder / "p.csv", dtype=str, keep_default_na=False)
            column = next(n for n in found.columns if "predicted" in n)
            known = set(given)
            require(set(found[column]) <= known, f"{set(found[column])} of {known}")
            share = np.mean(found[column].to_numpy() == given.to_numpy())
            require(share > 0.8, f"{share:.2f} right on its own training rows")

        yield f"labels {pair}", labels
    cells = ["inf", "-inf", "1e300", "1e400", str(2**64), "nan", "", "word", "1,5"]
    for cell, where in itertools.product(cells, ("a", "y")):

        def odd(cell=cell, where=where):
            labels = [f"{v:.3f}" for v in a + b]
            lines = table(labels)
            entries = lines[9].split(",")
            entries[0 if where == "a" else 2] = cell
            lines[9] = ",".join(entries)
            code, told = fit(folder_with(lines))
            require(code in (0, 2), f"exit {code}: {told[-200:]}")
            require(len(told.strip()) > 0, "no word")

        yield f"{cell!r} in column {where}", odd
    shapes = {
        "header only": ["a,b,y"],
        "empty file": [],
        "one row": ["a,b,y", "1,2,3"],
        "comma at the end": [f"{line}," for line in table(a)],
        "comma at the end of rows": ["a,b,y", *(f"{r}," for r in table(a)[1:])],
        "two columns of one name": ["a,a,y", *table(a)[1:]],
        "no target": ["a,b,z", *table(a)[1:]],
        "repeated header": [*table(a)[:40], "a,b,y", *table(a)[40:]],
    }
    for name, lines in shapes.items():

        def shape(lines=lines, name=name):
            folder = folder_with(lines)
            code, told = fit(folder)
            require(code in (0, 2), f"exit {code}: {told[-200:]}")
            if "comma at the end" in name and code == 0:
                require("without any value" in told, "no word of it")

        yield name, shape
    outputs = {
        "predict": ("predict", "m.skops", "train.csv", "-o", "train.csv"),
        "predict into the model": ("predict", "m.skops", "train.csv", "-o", "m.skops"),
        "report": ("report", "m.skops", "train.csv", "-o", "train.csv"),
        "export": ("export", "m.skops", "-o", "m.skops"),
        "a folder": ("predict", "m.skops", "train.csv", "-o", "."),
    }
    for name, words in outputs.items():

        def output_is_input(words=words):
            folder = folder_with(table([f"{v:.3f}" for v in a + b]))
            require(fit(folder)[0] == 0, "fit failed")
            before = {p.name: p.read_bytes() for p in folder.iterdir()}
            code, told = run(folder, *words)
            require(code == 2, f"exit {code}: {told[-200:]}")
            after = {p.name: p.read_bytes() for p in folder.iterdir()}
            require(before == after, "a file was changed")

        yield f"output is an input: {name}", output_is_input


# ----------------------------------------------------------------------------------
# Areas of the machine: places of files, full disks, killed workers.
# ----------------------------------------------------------------------------------

_FULL = """
import resource, signal, sys
import numpy as np
import kaucus
from kaucus.datasets import make_rings
from kaucus.persistence import save
{preparation}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))
try:
    {write}
except OSError as error:
    sys.exit(0)
sys.exit(9)
"""


def places() -> Iterator[Case]:
    """Yield: what is no file stays, and a full disk costs neither old nor new files."""
    import kaucus as k
    from kaucus.persistence import save

    @functools.cache
    def fitted():
        X, y = classes(60)
        return k.LSSVMClassifier(**RBF).fit(X, y), X, y

    writers = {
        "save": lambda path: save(fitted()[0], path),
        "write_html": lambda path: k.report(*fitted()).write_html(path),
    }
    null = os.makedev(1, 3)  # a node of our own
    kinds = {
        "a FIFO": os.mkfifo,
        "a device": lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, null),
        "a socket": lambda path: os.mknod(path, 0o600 | stat.S_IFSOCK),
        "a folder": os.mkdir,
    }
    for (writer, write), (kind, make), linked in itertools.product(
        writers.items(), kinds.items(), (False, True)
    ):

        def stays(write=write, make=make, linked=linked):
            path = Path(tempfile.mkdtemp()) / "place"
            try:
                make(path)
            except PermissionError:
                raise SkipTest("this system lets us make none") from None
            before = path.stat().st_mode
            target = path.with_name("link") if linked else path
            if linked:
                target.symlink_to(path)
            require_refused(lambda: write(target), OSError)
            require(path.stat().st_mode == before, "it was replaced")
            require(len(os.listdir(path.parent)) == 1 + linked, "a part was left")

        yield f"{writer} to {kind}{', by a link' if linked else ''}", stays
    for (writer, write), mode in itertools.product(
        writers.items(), (0o444, 0o600, 0o640)
    ):

        def rights(write=write, mode=mode):
            path = Path(tempfile.mkdtemp()) / "old"
            path.write_text("old")
            path.chmod(mode)
            if mode == 0o444:
                require_refused(lambda: write(path), OSError)
                require(path.read_text() == "old", "a read-only file was replaced")
            else:
                write(path)
            require(stat.S_IMODE(path.stat().st_mode) == mode, "other rights")

        yield f"{writer} over a file of mode {mode:o}", rights
    model = "model = kaucus.LSSVMClassifier().fit(*make_rings(60))"
    calls = {
        "save": (model, "save(model, sys.argv[1])"),
        "write_html": (
            f"{model}\nX, y = make_rings(60)\npage = kaucus.report(model, X, y)",
            "page.write_html(sys.argv[1])",
        ),
    }
    for (writer, (preparation, write)), room, old in itertools.product(
        calls.items(), (0, 100, 2000), (False, True)
    ):

        def full(preparation=preparation, write=write, room=room, old=old):
            path = Path(tempfile.mkdtemp()) / "file"
            if old:
                path.write_text("old")
            program = _FULL.format(preparation=preparation, write=write, room=room)
            ended = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", program, str(path)],
                capture_output=True,
                text=True,
            )
            require(ended.returncode == 0, f"exit {ended.returncode}: {ended.stderr}")
            left = sorted(os.listdir(path.parent))
            require(left == ["file"] * old, f"left: {left}")
            require(not old or path.read_text() == "old", "the old file is lost")

        kept = "an old file" if old else "no file"
        yield f"{writer}, a disk with room for {room} bytes, {kept}", full


def lost_workers() -> Iterator[Case]:
    """Yield: a fit that loses a worker gives the model of a fit without Dask."""
    import dask.array as da

    import distributed
    from kaucus import KMeansKernelClassifier

    X, y = classes(6000)
    options = {"n_representatives": 40, **RBF, "learn_metric": False, **SEED}
    expected = KMeansKernelClassifier(**options).fit(X, y).decision_function(X)
    for moment in np.linspace(0.02, 0.8, 10):

        def case(moment=moment):
            cluster = distributed.LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
            with cluster, distributed.Client(cluster) as client:
                rows = da.from_array(X, chunks=(500, -1)).persist()
                pid = next(iter(client.run(os.getpid).values()))
                timer = threading.Timer(moment, os.kill, (pid, signal.SIGKILL))
                timer.start()
                model = KMeansKernelClassifier(**options).fit(rows, y)
                timer.cancel()
            require_near(model.decision_function(X), expected, 1e-7)

        yield f"a worker killed after {moment:.2f} s", case


AREAS: dict[str, Callable[[], Iterator[Case]]] = {
    "float32 as float64": precisions,
    "equal inputs": equal_inputs,
    "a y + b": target_units,
    "columns": columns,
    "weights": weights,
    "degenerate": degenerate,
    "intervals": intervals,
    "round trips": round_trips,
    "hostile files": hostile_files,
    "report pages": pages,
    "scikit-learn's tools": tools,
    "graphs": graphs,
    "batches": batches,
    "threads": threads,
    "interrupts": interrupts,
    "random parameters": random_parameters,
    "scikit-learn's checks": scikit_learns_checks,
    "budgets": budgets,
    "command line": command_line,
    "places of files, full disks": places,
    "killed workers": lost_workers,
}


def count(area: str, quick: bool) -> dict[str, Any]:
    """Try every case of an area; return how many, and which broke their law."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    tried, failures = 0, []
    for number, (name, case) in enumerate(AREAS[area]()):
        if quick and number % 7:
            continue
        tried += 1
        try:
            case()
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__} {str(error)[:160]}")
    return {"tried": tried, "failed": len(failures), "failures": failures}


def steps(settings: Settings) -> list[Step]:
    """Return one step for each area."""
    wanted = settings.parts or list(AREAS)
    return [
        Step("areas", area, count, (area, settings.quick), {"area": area})
        for area in AREAS
        if area in wanted
    ]


def tables(content: Content) -> list[Table]:
    """Return the counts, and the cases that broke their law."""
    records = content["areas"]
    counts = [
        [r["area"], r.get("tried", r.get("skipped")), r.get("failed")] for r in records
    ]
    named = [
        [r["area"], failure.replace("\n", " ")]
        for r in records
        for failure in r.get("failures", [])[:NAMED_FAILURES]
    ]
    return [
        Table("Counts", ("area", "tried", "failed"), counts),
        Table("Cases that broke their law", ("area", "case"), named),
    ]
