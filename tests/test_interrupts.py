"""Ctrl-C and errors reach the caller and leave every estimator as it was."""

import copy
import re
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from kaucus import (
    ClusterRBFSVC,
    KernelKMeans,
    KMeansKernelClassifier,
    LocalSVC,
    LSSVMClassifier,
)
from kaucus._array.blocks import interruptible
from kaucus.evaluation import compare_kernels
from tests.arrays import assert_to_rounding
from tests.discovery import estimators, name_of
from tests.interrupts import InterruptAt, count_calls, interrupt, variants

ALL = {**{name_of(e): e for e in estimators()}, **variants()}
each_estimator = pytest.mark.parametrize("estimator", ALL.values(), ids=ALL.keys())
# Moments of Ctrl-C in each fit.
MOMENTS = 4
pytestmark = pytest.mark.filterwarnings("ignore:The best of")  # ends of short grids


@pytest.fixture(scope="module")
def rows():
    X, y = load_iris(return_X_y=True)
    return X[::2], y[::2]


def fit_of(model, rows):
    X, y = rows
    takes_labels = get_tags(model).target_tags.required
    return lambda: model.fit(X, y) if takes_labels else model.fit(X)


def moments(n_calls):
    """Return calls from just after the first one to the last, evenly."""
    return np.unique(np.linspace(2, n_calls, MOMENTS).astype(int))


@each_estimator
def test_ctrl_c_is_raised_and_leaves_the_estimator_as_it_was(estimator, rows):
    fitted = clone(estimator)
    n_calls = count_calls(fit_of(fitted, rows))
    for k in moments(n_calls):
        for model in (clone(estimator), fitted):  # also one that was fitted before
            interrupt(model, fit_of(model, rows), k)  # fails where it must
    fit_of(fitted, rows)()  # and whatever came, it can be fitted again
    check_is_fitted(fitted)


@pytest.mark.parametrize(
    "estimator", [e for e in ALL.values() if hasattr(e, "partial_fit")], ids=name_of
)
def test_ctrl_c_in_partial_fit_leaves_the_model_as_it_was(estimator, rows):
    X, y = rows
    model = clone(estimator).set_params(C=10.0, gamma=0.5, kernel="rbf")
    if hasattr(model, "fit_on"):
        model.set_params(fit_on="all")
    model.partial_fit(X, y, **({"classes": [0, 1, 2]} if is_classifier(model) else {}))
    before, predicted = dict(vars(model)), model.predict(X)
    n_calls = count_calls(lambda: copy.copy(model).partial_fit(X[:40], y[:40]))
    with pytest.raises(KeyboardInterrupt), InterruptAt(n_calls // 4):
        model.partial_fit(X[:40], y[:40])
    assert vars(model) == before
    assert_to_rounding(model.predict(X), predicted)


def test_an_error_in_fit_leaves_the_model_as_it_was(rows):
    X, y = rows
    model = LSSVMClassifier(C=10.0).fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((10, 3), np.nan), y[:10])
    assert vars(model) == before


@pytest.mark.parametrize("make", [ClusterRBFSVC, LocalSVC])
def test_ctrl_c_does_not_wait_for_a_support_vector_machine(make, rows, monkeypatch):
    from sklearn.svm import SVC

    left = threading.Event()

    def endless(self, *args, **kwargs):
        left.wait(20)

    monkeypatch.setattr(SVC, "fit", endless)
    timer = interrupt_main_after(0.2)
    start, model = time.monotonic(), make(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*rows)
    assert time.monotonic() - start < 10
    left.set()
    timer.join()
    with pytest.raises(NotFittedError):
        model.predict(rows[0])


def interrupt_main_after(seconds):
    """Send SIGINT to the main thread, as Ctrl-C does."""
    main = threading.main_thread().ident
    timer = threading.Timer(seconds, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    return timer


def test_a_long_call_can_be_left():
    left = threading.Event()
    timer = interrupt_main_after(0.2)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interruptible(left.wait, 20)
    assert time.monotonic() - start < 10
    left.set()
    timer.join()


def test_a_call_that_can_be_left_gives_its_result_or_its_error():
    assert interruptible(divmod, 7, 2) == (3, 1)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        interruptible(np.divide, np.ones(1), np.zeros(1))
    found = []
    thread = threading.Thread(
        target=lambda: found.append(interruptible(threading.current_thread))
    )
    thread.start()
    thread.join()
    assert found == [thread]  # nobody interrupts it: called where it is


# ---- progress --------------------------------------------------------------------

SHOWN = {
    "LSSVMClassifier": (
        LSSVMClassifier("auto", verbose=1),
        r"0 of 15.*15 of 15",
    ),
    "KernelKMeans": (KernelKMeans(3, verbose=1), r"kernel of 75 rows.*step 1,"),
    "KMeansKernelClassifier": (
        KMeansKernelClassifier(5, learn_metric=False, verbose=1),
        r"kernel \d of",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_long_fit_shows_what_it_does(name, rows, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    model, pattern = SHOWN[name]
    fit_of(clone(model), rows)()
    assert re.search(pattern, capsys.readouterr().err, re.DOTALL)


def test_a_log_has_a_line_for_each_stage_that_has_ended(rows, capsys):
    for model, _ in SHOWN.values():
        fit_of(clone(model), rows)()
        lines = capsys.readouterr().err.splitlines()
        assert lines
        assert all(re.match(r"\[kaucus\] \w", line) for line in lines)


def test_ctrl_c_ends_a_comparison_of_kernels(rows):
    X, _ = rows

    def compare():
        few = {"n_init": 3, "n_subsamples": 2, "random_state": 0}
        return compare_kernels(X, 3, kernels=["rbf", "cauchy"], **few)

    n_calls = count_calls(compare)
    for k in moments(int(0.9 * n_calls)):  # a second time some calls are not needed
        with pytest.raises(KeyboardInterrupt), InterruptAt(k):
            compare()
