"""Ctrl-C at a chosen moment: it is raised, and the estimator is as it was."""

import sys
import warnings
from inspect import CO_GENERATOR

from kaucus import (
    ClusterRBFSVC,
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LocalSVC,
    LSSVMClassifier,
    LSSVMRegressor,
    SphericalKMeans,
)
from kaucus.solvers._blocks import RANDOMIZED

BLOCKS = {"block_size": 20, "random_state": 0, "tol": 0.05}
SEED = {"random_state": 0}
PLAIN = {"random_state": 0, "learn_metric": False}


def variants():
    """Return estimators whose fits go other ways than those of the defaults."""
    return {
        **{f"LSSVMClassifier-{s}": LSSVMClassifier(solver=s, **BLOCKS) for s in
           ("cholesky", "cg", *RANDOMIZED)},
        "LSSVMClassifier-runs": LSSVMClassifier(
            solver="kaczmarz", n_runs=3, **BLOCKS
        ),
        "LSSVMRegressor-cg": LSSVMRegressor(solver="cg", **SEED),
        "LSSVMClassifier-gammas": LSSVMClassifier("auto", gamma=[0.1, 1.0]),
        "LSSVMClassifier-part": LSSVMClassifier("auto", max_samples=40, **SEED),
        "LSSVMRegressor-gammas": LSSVMRegressor("auto", gamma=[0.1, 1.0]),
        "KMeansKernelClassifier-starts": KMeansKernelClassifier(
            5, kmeans_params={"n_init": 3}, refine=6, **PLAIN
        ),
        "KMeansKernelClassifier-representatives": KMeansKernelClassifier(
            5, fit_on="representatives", **PLAIN
        ),
        "KMeansKernelRegressor-starts": KMeansKernelRegressor(
            10, kmeans_params={"n_init": 3}, **PLAIN
        ),
        "SphericalKMeans-starts": SphericalKMeans(3, n_init=4, **SEED),
        "KernelKMeans-nystrom": KernelKMeans(
            3, approximation="nystrom", n_landmarks=20, n_init=2, **SEED
        ),
        "ClusterRBFSVC-gmm": ClusterRBFSVC(partition="gmm", **SEED),
        "LocalSVC-threads": LocalSVC(n_jobs=2, **SEED),
    }  # fmt: skip


class InterruptAt:
    """Raise KeyboardInterrupt at the k-th call of a function of kaucus.

    In the main thread, as a signal does; what runs in threads is not looked at.
    """

    def __init__(self, k):
        self.k, self.calls = k, 0

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error):
        sys.settrace(self._before)

    @property
    def came(self):
        return self.calls >= self.k

    def _trace(self, frame, event, arg):
        ours = frame.f_globals.get("__name__", "").startswith("kaucus")
        # Python calls a generator to close it, and drops what that raises.
        if event == "call" and ours and not frame.f_code.co_flags & CO_GENERATOR:
            self.calls += 1
            if self.calls == self.k:
                raise KeyboardInterrupt


def count_calls(fit):
    """Return the calls of functions of kaucus that a fit takes."""
    with warnings.catch_warnings(), InterruptAt(-1) as counter:
        warnings.simplefilter("ignore")
        fit()
    return counter.calls


def interrupt(model, fit, k):
    """Interrupt a fit; fail unless it raises and leaves the model as it was.

    Returns False where the fit had ended before.
    """
    before = dict(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with InterruptAt(k) as moment:
                fit()
        except KeyboardInterrupt:
            after = dict(vars(model))
            after.pop("_iterate", None)  # of warm_start, for the next fit
            assert after.keys() == before.keys(), f"call {k}"
            assert all(after[name] is before[name] for name in before), f"call {k}"
            return True
    assert not moment.came, f"call {k} was swallowed"
    return False
