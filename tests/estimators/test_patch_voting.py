"""PatchVotingClassifier: the vote, its ties, its memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from kaucus import KMeansKernelClassifier, PatchVotingClassifier
from kaucus._array import blocks as _memory
from kaucus.estimators.pictures import _majority, _sum
from kaucus.preprocessing import ImagePatches, UnitNormalizer

DIGITS, LABELS = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 600), slice(600, 1200)


def voter(estimator=None, **params):
    estimator = RidgeClassifier() if estimator is None else estimator
    return PatchVotingClassifier(estimator, patch_size=6, image_shape=(8, 8), **params)


def patches_of(X):
    return ImagePatches(6, (8, 8)).fit_transform(X).reshape(-1, 36)


@pytest.mark.parametrize("voting", ["majority", "sum"])
def test_it_is_the_estimator_on_patches_and_a_count(voting):
    m = voter(voting=voting).fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert m.n_patches_ == 9
    alone = RidgeClassifier().fit(
        patches_of(DIGITS[TRAIN]), np.repeat(LABELS[TRAIN], 9)
    )
    assert_allclose(m.estimator_.coef_, alone.coef_)
    values = alone.decision_function(patches_of(DIGITS[TEST])).reshape(-1, 9, 10)
    if voting == "sum":
        expected = values.sum(axis=1).argmax(axis=1)
    else:
        votes = values.argmax(axis=2)
        counts = np.array([np.bincount(v, minlength=10) for v in votes])
        sums = values.sum(axis=1)
        order = np.lexsort((sums.T, counts.T), axis=0)
        expected = order[-1]
    assert_array_equal(m.predict(DIGITS[TEST]), expected)


def test_a_tie_goes_to_the_larger_sum():
    values = np.array([[[3.0, 1.0, 0.0], [1.0, 2.0, 0.0]]])
    assert _majority(values).argmax() == 0
    values[0, 1, 1] = 9.0
    assert _majority(values).argmax() == 1


def test_a_sum_never_outweighs_a_vote():
    values = np.array([[[1.0, 0.9], [1.0, 0.9], [0.0, 1e9]]])
    assert _majority(values).argmax() == 0
    assert _sum(values).argmax() == 1


def test_two_classes_have_one_decision_value():
    y = (LABELS > 4).astype(int)
    for voting in ("majority", "sum"):
        m = voter(voting=voting).fit(DIGITS[TRAIN], y[TRAIN])
        values = m.decision_function(DIGITS[TEST])
        assert values.shape == (600,)
        assert_array_equal(m.predict(DIGITS[TEST]), (values > 0).astype(int))


def test_shares_of_votes_are_probabilities():
    m = voter().fit(DIGITS[TRAIN], LABELS[TRAIN])
    p = m.predict_proba(DIGITS[TEST])
    assert_allclose(p.sum(axis=1), 1)
    assert p.min() >= 0
    assert_array_equal(m.classes_[p.argmax(axis=1)], m.predict(DIGITS[TEST]))


def test_with_sums_the_probabilities_are_means_of_the_patches():
    inner = KMeansKernelClassifier(5, random_state=0, learn_metric=False)
    m = voter(inner, voting="sum").fit(DIGITS[TRAIN], LABELS[TRAIN])
    p = m.estimator_.predict_proba(patches_of(DIGITS[TEST])).reshape(-1, 9, 10)
    assert_allclose(m.predict_proba(DIGITS[TEST]), p.mean(axis=1))


def test_with_sums_there_are_probabilities_only_where_the_estimator_has_them():
    m = voter(LinearSVC(), voting="sum")
    with pytest.raises(AttributeError, match="predict_proba"):
        m.predict_proba(DIGITS)


def test_an_estimator_with_probabilities_only():
    m = voter(KNeighborsClassifier(3)).fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert m.score(DIGITS[TEST], LABELS[TEST]) > 0.9


class OnlyLabels(ClassifierMixin, BaseEstimator):
    """A classifier that says the class of the brightest corner, and nothing else."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(X[:, 0] > X[:, -1]).astype(int)]


def test_an_estimator_with_labels_only():
    y = LABELS % 2
    m = voter(OnlyLabels()).fit(DIGITS[TRAIN], y[TRAIN])
    votes = OnlyLabels().fit(None, y).predict(patches_of(DIGITS[TEST])).reshape(-1, 9)
    assert_array_equal(m.predict(DIGITS[TEST]), (votes.mean(axis=1) > 0.5).astype(int))


@pytest.mark.parametrize("pipeline", [False, True])
def test_weights_are_those_of_the_pictures(pipeline):
    inner = RidgeClassifier()
    estimator = make_pipeline(UnitNormalizer(), inner) if pipeline else inner
    weight = np.where(LABELS[TRAIN] == 3, 0.0, 1.0)
    m = voter(estimator).fit(DIGITS[TRAIN], LABELS[TRAIN], sample_weight=weight)
    assert not (m.predict(DIGITS[TEST]) == 3).any()


def test_weights_for_an_estimator_that_takes_none():
    with pytest.raises(ValueError, match=r"sample_weight was given, but KNeighbors"):
        voter(KNeighborsClassifier()).fit(DIGITS, LABELS, sample_weight=np.ones(1797))


def test_small_whole_numbers_become_float32():
    seen = []

    class Spy(OnlyLabels):
        def fit(self, X, y):
            seen.append(X.dtype)
            return super().fit(X, y)

    for kind in (np.uint8, np.int64, np.float32, np.float64):
        voter(Spy()).fit(DIGITS[:50].astype(kind), LABELS[:50] % 2)
    assert seen == [np.float32, np.float64, np.float32, np.float64]


def test_blocks_of_pictures_change_nothing():
    m = voter().fit(DIGITS[TRAIN], LABELS[TRAIN])
    whole = m.decision_function(DIGITS[TEST])
    m.set_params(memory_budget="100KiB")
    assert_allclose(m.decision_function(DIGITS[TEST]), whole, rtol=1e-10)


def test_patches_that_do_not_fit_are_refused_before_any_work():
    with pytest.raises(MemoryError, match=r"5400 patches take 1\.5 MiB, .*float32"):
        voter(memory_budget="1MiB").fit(DIGITS[TRAIN], LABELS[TRAIN])


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"voting": "most"}, r"voting='most' must be one of \['majority', 'sum'\]"),
        ({"patch_size": 9}, r"patch_size=9 is not a patch size"),
        ({"image_shape": (8, 9)}, r"image_shape"),
        ({"memory_budget": "much"}, r"is not a size"),
    ],
)
def test_parameters_that_are_refused(params, match):
    with pytest.raises(ValueError, match=match):
        voter().set_params(**params).fit(DIGITS, LABELS)


def test_colour_pictures():
    X = np.tile(DIGITS, 3)  # three equal channels
    m = PatchVotingClassifier(RidgeClassifier(), patch_size=6, image_shape=(3, 8, 8))
    m.fit(X[TRAIN], LABELS[TRAIN])
    assert m.n_patches_ == 9
    assert m.estimator_.n_features_in_ == 3 * 36
    grey = voter(RidgeClassifier(alpha=1 / 3)).fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert np.mean(m.predict(X[TEST]) == grey.predict(DIGITS[TEST])) > 0.99


def test_it_takes_tensors_if_its_estimator_does():
    from sklearn.tree import DecisionTreeClassifier
    from sklearn.utils import get_tags

    assert get_tags(PatchVotingClassifier()).array_api_support
    tree = PatchVotingClassifier(DecisionTreeClassifier())
    assert not get_tags(tree).array_api_support


@pytest.mark.parametrize("threads", [1, 2])
def test_all_patches_are_one_block_for_any_number_of_threads(threads, monkeypatch):
    """What threads keep of freed memory counts, and is not taken off twice."""
    monkeypatch.setattr(_memory, "n_workers", lambda like: threads)
    X = np.random.default_rng(0).normal(size=(20_000, 64)).astype(np.float32)
    m = voter(memory_budget="200MiB").fit(X, np.arange(20_000) % 2)
    assert m.estimator_.n_features_in_ == 36
