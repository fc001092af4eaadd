"""Classes of which one is rare: what weights of classes do, and what they cost."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.svm import SVC

from kaucus import KMeansKernelClassifier

QUICK = {"learn_metric": False, "random_state": 0}


def rows(n, seed):
    """Return rows of which 3 % are of another class, which overlaps the first."""
    rng = np.random.default_rng(seed)
    rare = rng.random(n) < 0.03
    X = rng.normal(size=(n, 4))
    X[rare, :2] += 1.7
    return X, rare.astype(int)


@pytest.fixture(scope="module")
def models():
    plain = KMeansKernelClassifier(60, **QUICK)
    return {
        "balanced": KMeansKernelClassifier(60, class_weight="balanced", **QUICK),
        "SVC": SVC(class_weight="balanced"),
        "threshold": TunedThresholdClassifierCV(plain, scoring="f1", cv=3),
    }, {}


def predicted(models, name):
    made, found = models
    if name not in found:
        found[name] = made[name].fit(*rows(1500, 0)).predict(rows(8000, 1)[0])
    return found[name]


def test_balanced_weights_find_more_of_a_rare_class(models):
    """Both classes count alike, as in SVC, and are found at least as often."""
    y = rows(8000, 1)[1]
    ours, theirs = (
        balanced_accuracy_score(y, predicted(models, name))
        for name in ("balanced", "SVC")
    )
    assert ours > theirs - 0.01


def test_probabilities_are_calibrated_for_the_weighted_classes(models):
    X, y = rows(8000, 1)
    predicted(models, "balanced")
    P = models[0]["balanced"].predict_proba(X)[:, 1]
    weight = np.where(y == 1, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    edges = np.quantile(P, [0.0, 0.5, 0.8, 0.9, 0.95, 1.0])
    for low, high in itertools.pairwise(edges):
        some = (low <= P) & (high >= P)
        share, said = (np.average(v[some], weights=weight[some]) for v in (y, P))
        assert said == pytest.approx(share, abs=0.1)


def test_a_threshold_has_the_better_f1(models):
    y = rows(8000, 1)[1]
    scores = {name: f1_score(y, predicted(models, name)) for name in models[0]}
    assert scores["threshold"] > 1.2 * max(scores["balanced"], scores["SVC"])
