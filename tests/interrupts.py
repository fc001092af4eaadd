"""Ctrl-C at a chosen moment, and the rule of what it leaves behind."""

import sys
import warnings
from inspect import CO_GENERATOR

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from kaucus import (
    ClusterRBFSVC,
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LocalSVC,
    LSSVMClassifier,
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    SphericalKMeans,
)
from kaucus.solvers import RANDOMIZED

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
        "LSSVMClassifierCV-gammas": LSSVMClassifierCV(gammas=[0.1, 1.0], kernel="rbf"),
        "LSSVMClassifierCV-part": LSSVMClassifierCV(
            max_samples=40, kernel="rbf", gammas=None, **SEED
        ),
        "LSSVMRegressorCV-gammas": LSSVMRegressorCV(gammas=[0.1, 1.0], kernel="rbf"),
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


def outcome_of(model, fit, k):
    """Interrupt a fit and return "kept", "not fitted" or "ended before", or fail."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with InterruptAt(k) as interrupt:
                fit()
            raised = False
        except KeyboardInterrupt:
            raised = True
    if not interrupt.came:
        return "ended before"
    if raised:
        check_unfitted(model)
        return "not fitted"
    messages = [str(t.message) for t in told if t.category is ConvergenceWarning]
    assert any("nterrupted" in m for m in messages), f"call {k}: silent, {messages}"
    check_is_fitted(model)
    return "kept"


def check_unfitted(model):
    if not model.__sklearn_tags__().requires_fit:
        assert not [name for name in vars(model) if name.endswith("_")]
        return
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    method = "predict" if hasattr(model, "predict") else "transform"
    with pytest.raises(NotFittedError):
        getattr(model, method)(np.ones((3, 4)))
