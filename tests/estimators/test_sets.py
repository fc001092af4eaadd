"""Laws of prediction sets: they are those of n refits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from kaucus import KMeansKernelClassifier, LSSVMClassifier
from kaucus.fitting._problem import all_classes, one_vs_rest_targets
from tests.arrays import array
from tests.conftest import namespace
from tests.reference import conformal as reference
from tests.reference import low_rank

LEVELS = [0.5, 0.8, 0.9]


def data(n=27, k=3, seed=0):
    """Return rows of k classes that overlap, every class among the first k."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), np.arange(k), rng.integers(k, size=n - 2 * k)])
    X = rng.normal(size=(n, 2)) + y[:, None]
    return X, y, rng.normal(size=(6, 2)) + rng.integers(k, size=(6, 1))


def literal_sets(decisions, own, labels, temperature, score):
    """Return (b, k, levels) from f⁽⁻ⁱ⁾(x) (n, b, k) and f⁽⁻ⁱ⁾(xᵢ) (n, k)."""

    def scores(values):
        p = reference.probabilities(values, temperature)
        return [reference.score_of(p, j, score) for j in range(len(p))]

    mine = np.array([scores(own[i])[labels[i]] for i in range(len(labels))])
    sets = []
    for x in range(decisions.shape[1]):
        all_scores = np.array([scores(values) for values in decisions[:, x]])
        sets.append(
            [reference.cross_conformal_set(all_scores, mine, level) for level in LEVELS]
        )
    return np.moveaxis(np.array(sets), 1, 2)


def values_of(model, X):
    """Return decision values of every class, (n, k)."""
    return all_classes(model.decision_function(X).reshape(len(X), -1))


def by_refits(model, X, y, new, score):
    """Fit the estimator n times, each time without a row."""
    fits = [
        clone(model).fit(np.delete(X, i, axis=0), np.delete(y, i, axis=0))
        for i in range(len(X))
    ]
    decisions = np.stack([values_of(fit, new) for fit in fits])
    own = np.stack([values_of(fits[i], X[i : i + 1])[0] for i in range(len(X))])
    return literal_sets(decisions, own, y, model.temperature_, score)


def by_least_squares(model, X, y, new, score, weight=None):
    """Solve the least squares on the model's representatives n times."""
    Z, Y = model.representatives_, one_vs_rest_targets(y, len(model.classes_))
    K, K_mm, K_new = model.kernel_(X, Z), model.kernel_(Z), model.kernel_(new, Z)
    weight = np.ones(len(X)) if weight is None else weight

    def fit(s):
        return low_rank.solve_on_representatives(K, K_mm, Y, model.C_, s)

    a, b = fit(weight)
    # C="auto" moves the intercept.
    moved = np.mean(values_of(model, new) - all_classes(K_new @ a + b), axis=0)
    fits = reference.left_out_models(fit, weight)
    decisions = np.stack([all_classes(K_new @ a + b) + moved for a, b in fits])
    own = np.stack([K[i] @ a + b for i, (a, b) in enumerate(fits)])
    own = all_classes(own) + moved
    return literal_sets(decisions, own, y, model.temperature_, score)


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("k", [2, 3])
def test_sets_are_those_of_refits(score, k):
    X, y, new = data(k=k)
    model = LSSVMClassifier(C=2.0, gamma=0.5).fit(X, y)
    expected = by_refits(model, X, y, new, score)
    got = model.predict_set(new, LEVELS, score)
    assert got.shape == (6, k, 3)
    assert got.dtype == bool
    assert np.array_equal(got, expected)


@given(seed=st.integers(0, 10**6), log_C=st.floats(-1, 2), k=st.integers(2, 4))
@settings(max_examples=8)
def test_any_small_problem(seed, log_C, k):
    X, y, new = data(15, k, seed)
    model = LSSVMClassifier(C=10**log_C, gamma=0.5).fit(X, y)
    expected = by_refits(model, X, y, new, "lac")
    assert np.array_equal(model.predict_set(new, LEVELS), expected)


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("C", [2.0, "auto"])
def test_sets_on_representatives_are_those_of_refits(score, k, C):
    X, y, new = data(60, k)
    model = KMeansKernelClassifier(4, C=C, kernel="rbf", gamma=0.5, random_state=0)
    model.fit(X, y)
    assert model.solver_ == "normal_equations"
    expected = by_least_squares(model, X, y, new, score)
    assert np.array_equal(model.predict_set(new, LEVELS, score), expected)


def test_weights_of_classes_are_in_the_models_and_not_counted():
    X, y, new = data(60)
    weights = {0: 5.0, 1: 0.2, 2: 1.0}
    model = KMeansKernelClassifier(
        4, C=2.0, kernel="rbf", gamma=0.5, class_weight=weights, random_state=0
    ).fit(X, y)
    row_weights = np.array([weights[c] for c in y])
    expected = by_least_squares(model, X, y, new, "lac", row_weights)
    assert np.array_equal(model.predict_set(new, LEVELS), expected)


CLASSIFIERS = [
    LSSVMClassifier(C=2.0, gamma=0.5),
    LSSVMClassifier("auto", gamma=0.5),
    KMeansKernelClassifier(4, C=2.0, kernel="rbf", gamma=0.5, random_state=0),
]
each = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)


@each
@pytest.mark.parametrize("probability", ["softmax", "sum_exp", False])
def test_sets_need_no_probabilities(model, probability):
    X, y, new = data(60)
    fitted = clone(model).set_params(probability=probability).fit(X, y)
    assert fitted.predict_set(new).shape == (6, 3)


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_follow_X(model, dtype):
    xp = namespace("torch")
    X, y, new = data(60)
    fitted = clone(model).fit(X, y)
    tensors = clone(model).fit(array(xp, X, dtype), y)
    got = tensors.predict_set(array(xp, new, dtype), LEVELS)
    assert got.dtype == xp.bool
    different = np.sum(got.numpy() != fitted.predict_set(new, LEVELS))
    assert different <= (2 if dtype == "float32" else 0)


@each
def test_dask_rows_give_lazy_sets(model):
    da = pytest.importorskip("dask.array")
    X, y, _ = data(60)
    new = np.random.default_rng(2).normal(size=(30, 2))
    fitted = clone(model).fit(X, y).conformalize(X, y)
    for method in ("plus", "split"):
        lazy = fitted.predict_set(
            da.from_array(new, chunks=(8, 2)), LEVELS, method=method
        )
        assert isinstance(lazy, da.Array)
        expected = fitted.predict_set(new, LEVELS, method=method)
        assert np.array_equal(lazy.compute(scheduler="sync"), expected)


@each
@pytest.mark.parametrize("score", ["lac", "aps"])
def test_split_compares_with_rows_held_out(model, score):
    X, y, new = data(80)
    fitted = clone(model).fit(X[:50], y[:50]).conformalize(X[50:], y[50:])
    got = fitted.predict_set(new, LEVELS, score, method="split")

    def scores(rows):
        p = fitted.predict_proba(rows)
        return np.array(
            [[reference.score_of(q, j, score) for j in range(3)] for q in p]
        )

    own = scores(X[50:])[np.arange(30), y[50:]]
    for number, level in enumerate(LEVELS):
        limit = reference.smallest(own, int(np.ceil(round(level * 31, 9))))
        assert np.array_equal(got[:, :, number], scores(new) <= limit + 1e-12)


@each
@pytest.mark.parametrize("k", [2, 3])
def test_split_takes_decision_values_of_another_model(model, k):
    X, y, new = data(80, k)
    fitted = clone(model).fit(X[:50], y[:50])
    values = fitted.decision_function(X[50:])
    expected = fitted.conformalize(X[50:], y[50:]).predict_set(new, method="split")
    fitted.conformalize(X[50:], y[50:], values)
    assert np.array_equal(fitted.predict_set(new, method="split"), expected)
    with pytest.raises(ValueError, match="of 29 rows"):
        fitted.conformalize(X[50:], y[50:], values[1:])


def test_labels_may_be_texts():
    X, y, new = data(60)
    names = np.array(["ash", "birch", "cedar"])[y]
    expected = LSSVMClassifier(C=2.0, gamma=0.5).fit(X, y).predict_set(new)
    model = LSSVMClassifier(C=2.0, gamma=0.5).fit(X, names)
    assert np.array_equal(model.predict_set(new), expected)
    model.conformalize(X, names)
    with pytest.raises(ValueError, match="oak"):
        model.conformalize(X[:1], ["oak"])


def test_more_classes_than_rows_can_rule_out_are_all_in():
    X, y, new = data(15)
    sets = LSSVMClassifier(C=2.0, gamma=0.5).fit(X, y).predict_set(new, 0.99)
    assert sets.all()


def centres_alone(X, y):
    model = KMeansKernelClassifier(4, fit_on="representatives", C=2.0, kernel="rbf")
    return model.set_params(gamma=0.5, random_state=0).fit(X, y)


def near_the_boundary(X, y):
    model = KMeansKernelClassifier(4, fit_on="boundary", C=2.0, kernel="rbf")
    return model.set_params(gamma=0.5, random_state=0).fit(X, y)


@pytest.mark.parametrize(
    ("fit", "reason"),
    [
        (centres_alone, "fit_on='representatives'"),
        (near_the_boundary, "fit_on='boundary'"),
        (
            lambda X, y: LSSVMClassifier(solver="cg", random_state=0).fit(X, y),
            "solver='cg'",
        ),
        (
            lambda X, y: clone(CLASSIFIERS[2]).partial_fit(X, y, classes=[0, 1, 2]),
            "partial_fit",
        ),
    ],
)
def test_models_without_leave_one_out_say_what_to_do(fit, reason, monkeypatch):
    from kaucus.fitting import _represented

    monkeypatch.setattr(_represented, "_LEAST_ROWS", 30)
    X, y, new = data(200)
    model = fit(X, y)
    with pytest.raises(ValueError, match=reason) as error:
        model.predict_set(new)
    assert "method='split'" in str(error.value)
    assert model.conformalize(X, y).predict_set(new, method="split").any()


def test_arguments_are_checked():
    X, y, new = data()
    model = LSSVMClassifier().fit(X, y)
    with pytest.raises(ValueError, match="score='raps'"):
        model.predict_set(new, score="raps")
    with pytest.raises(ValueError, match="method='naive'"):
        model.predict_set(new, method="naive")
    with pytest.raises(ValueError, match="confidence_level="):
        model.predict_set(new, 90)
    with pytest.raises(ValueError, match="conformalize"):
        model.predict_set(new, method="split")
