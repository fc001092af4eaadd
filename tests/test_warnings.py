"""A warning points at the line of the user, through pipelines and searches too."""

import inspect
import io
import pickle
import re
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kaucus
from kaucus import (
    ClusterRBFSVC,
    KernelKMeans,
    KMeansKernelClassifier,
    LSSVMClassifier,
    SphericalKMeans,
)
from kaucus._array.namespace import warn_user

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)

# Each stops before it has converged.
STOPPED = {
    "cg": LSSVMClassifier(C=1e6, solver="cg", max_iter=1, random_state=0),
    "kernel_kmeans": KernelKMeans(
        4, gamma="scale", max_iter=1, n_init=1, random_state=0
    ),
    "spherical": SphericalKMeans(4, max_iter=1, n_init=1, random_state=0),
    "kmeans_kernel": KMeansKernelClassifier(
        8, kmeans_params={"max_iter": 1}, kernel="rbf", gamma=1.0, C=1.0, random_state=0
    ),
    "svc": ClusterRBFSVC(C=1e6, max_iter=1, random_state=0),
}


def wrapped(estimator, how):
    if how == "search":
        return GridSearchCV(estimator, {"random_state": [0]}, cv=2, scoring=no_score)
    if how == "pipeline":
        return make_pipeline(StandardScaler(), estimator)
    return estimator


def no_score(estimator, X, y=None):
    return 0.0


def here(_):
    """Return file and line of the caller, who does something in the same line."""
    frame = inspect.currentframe().f_back
    return frame.f_code.co_filename, frame.f_lineno


@pytest.mark.parametrize("how", ["alone", "pipeline", "search"])
@pytest.mark.parametrize("name", STOPPED)
def test_fit_warns_at_the_users_line(name, how):
    model = wrapped(STOPPED[name], how)
    with pytest.warns(ConvergenceWarning) as caught:
        place = here(model.fit(X, Y))
    assert {(w.filename, w.lineno) for w in caught} == {place}


def test_a_column_of_labels_is_told_at_the_users_line():
    with pytest.warns(DataConversionWarning) as caught:
        place = here(LSSVMClassifier().fit(X, Y[:, None]))
    assert {(w.filename, w.lineno) for w in caught} == {place}


@pytest.mark.parametrize("module", [pickle, joblib], ids=["pickle", "joblib"])
def test_loading_warns_at_the_users_line(module):
    model = LSSVMClassifier().fit(X, Y)
    model.device = "cuda:99"
    stream = io.BytesIO()
    module.dump(model, stream)
    stream.seek(0)
    with pytest.warns(UserWarning, match="cuda:99") as caught:
        place = here(module.load(stream))
    assert (caught[0].filename, caught[0].lineno) == place


def test_a_warning_is_shown_once_for_each_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            warn_user("said once", UserWarning)
        warn_user("said once", UserWarning)
    assert len(caught) == 2


def test_a_worker_thread_has_no_line_of_the_user():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool, pytest.warns(UserWarning, match="deep") as got:
        pool.submit(warn_user, "deep", UserWarning).result()
    assert got[0].filename == sys.modules["concurrent.futures.thread"].__file__


def test_every_warning_goes_through_the_helper():
    sources = Path(kaucus.__file__).parent.rglob("*.py")
    direct = [p for p in sources if re.search(r"warnings\.warn\(\s", p.read_text())]
    assert direct == []
