"""Many representatives: conjugate gradients in place of the normal equations."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from kaucus.solvers import _sketched

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = (DIGITS / 16).astype(np.float32)


@pytest.fixture
def iterate(monkeypatch):
    monkeypatch.setattr(_sketched, "prefer_sketched", lambda *args: True)


def classifier():
    return KMeansKernelClassifier(
        n_representatives=8, kernel="rbf", gamma=0.1, C=10.0, random_state=0
    )


def test_it_is_the_same_classifier(iterate, monkeypatch):
    by_steps = classifier().fit(DIGITS, LABELS)
    assert by_steps.solver_ == "sketched_cg"
    monkeypatch.setattr(_sketched, "prefer_sketched", lambda *args: False)
    direct = classifier().fit(DIGITS, LABELS)
    assert direct.solver_ == "normal_equations"
    values = [m.decision_function(DIGITS) for m in (by_steps, direct)]
    assert np.abs(values[0] - values[1]).max() < 2e-2
    proba = [m.predict_proba(DIGITS) for m in (by_steps, direct)]
    assert np.abs(proba[0] - proba[1]).max() < 5e-2


def test_it_is_the_same_regressor(iterate, monkeypatch):
    options = {"n_representatives": 40, "gamma": 0.1, "C": 10.0, "random_state": 0}
    y = DIGITS[:, 20:22].sum(axis=1)
    by_steps = KMeansKernelRegressor(**options).fit(DIGITS, y)
    assert by_steps.solver_ == "sketched_cg"
    monkeypatch.setattr(_sketched, "prefer_sketched", lambda *args: False)
    direct = KMeansKernelRegressor(**options).fit(DIGITS, y)
    assert np.abs(by_steps.predict(DIGITS) - direct.predict(DIGITS)).max() < 1e-2


def test_too_few_steps_are_told(iterate, monkeypatch):
    real = _sketched.conjugate_gradient

    def short(*args, **options):
        return real(*args, **{**options, "max_iter": 1})

    monkeypatch.setattr(_sketched, "conjugate_gradient", short)
    with pytest.warns(ConvergenceWarning, match=r"stopped after 1 steps .* Lower C"):
        classifier().fit(DIGITS, LABELS)
