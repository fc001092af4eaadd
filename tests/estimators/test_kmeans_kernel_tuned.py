"""C="auto" and gamma="tune" of the k-means kernel estimators."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits, make_friedman1, make_moons
from sklearn.preprocessing import StandardScaler

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from kaucus.fitting import _search as tuning
from kaucus.fitting._problem import NumberTargets, Plan, Problem
from kaucus.fitting._search import CS, GAMMA_FACTORS, Trial, _finalists
from kaucus.kernels import Exponential, Gaussian
from kaucus.kernels._kernel import resolve_gamma

MOONS, SIDES = make_moons(900, noise=0.25, random_state=0)
TRAIN, TEST = slice(0, 500), slice(500, None)


def model(n=30, **params):
    return KMeansKernelClassifier(n, random_state=0, **params)


@pytest.fixture(scope="module")
def tuned():
    return model(learn_metric=False).fit(MOONS[TRAIN], SIDES[TRAIN])


def test_what_is_chosen_is_of_the_grid(tuned):
    scale = resolve_gamma("scale", MOONS[TRAIN])
    assert np.isclose(tuned.C_, CS).any()
    length = isinstance(tuned.kernel_, Exponential)
    squared = tuned.kernel_.gamma ** (2 if length else 1)
    assert np.isclose(squared / scale, GAMMA_FACTORS).any()
    assert isinstance(tuned.kernel_, Exponential | Gaussian)


def test_what_is_given_is_kept():
    m = model(C=3.0, gamma=0.7, kernel="rbf").fit(MOONS[TRAIN], SIDES[TRAIN])
    assert (m.C_, m.kernel_) == (3.0, Gaussian(gamma=0.7))
    m = model(C=3.0, gamma=0.7).fit(MOONS[TRAIN], SIDES[TRAIN])
    assert m.kernel_ in (Gaussian(gamma=0.7), Exponential(gamma=0.7))
    m = model(gamma=0.7, kernel="rbf").fit(MOONS[TRAIN], SIDES[TRAIN])
    assert m.kernel_ == Gaussian(gamma=0.7)
    m = model(kernel=Exponential(gamma=2.0)).fit(MOONS[TRAIN], SIDES[TRAIN])
    assert m.kernel_ == Exponential(gamma=2.0)
    assert np.isclose(m.C_, CS).any()


def test_it_is_no_worse_than_most_of_the_grid(tuned):
    """Over the test rows: what was chosen is among the best third of what it tried."""
    scale, scores = resolve_gamma("scale", MOONS[TRAIN]), []
    for factor in GAMMA_FACTORS:
        for C in CS[::3]:
            m = model(C=float(C), gamma=float(scale * factor), probability=False)
            m.set_params(kernel="rbf").fit(MOONS[TRAIN], SIDES[TRAIN])
            scores.append(m.score(MOONS[TEST], SIDES[TEST]))
    chosen = tuned.score(MOONS[TEST], SIDES[TEST])
    assert np.mean(np.asarray(scores) <= chosen) >= 2 / 3


@pytest.mark.parametrize(
    ("losses", "looked_at", "chosen"),
    [
        # The ends of a path are looked at where it falls towards them by a tenth.
        ([9, 3, 2, 4, 9], [1, 2, 3], [2, 1]),
        ([1, 1.9, 2, 4, 9], [1, 2, 3], [1, 2]),
        ([1, 1.7, 2, 4, 9], [1, 2, 3, 0], [0, 1]),
        ([9, 4, 2, 1.7, 1.8], [1, 2, 3, 4], [3, 4]),
        ([9, 1, 2, 0.9, 3], [1, 2, 3, 4], [3, 1]),
    ],
)
def test_which_gammas_are_looked_at(losses, looked_at, chosen):
    path = [Gaussian(gamma=float(g)) for g in range(1, 6)]
    seen = []

    def look(kernels):
        numbers = [path.index(kernel) for kernel in kernels]
        seen.extend(numbers)
        return [Trial(path[k], 1.0, losses[k]) for k in numbers]

    assert _finalists([path], look) == [path[k] for k in chosen]
    assert seen == looked_at


@pytest.mark.parametrize(
    ("losses", "chosen"),
    [((4.0, 2.0, 1.0, 3.0), [2, 1]), ((1.0, 2.0, 5.0, 3.0), [0, 1, 3])],
)
def test_finalists_are_the_best_of_all_and_of_each_path(losses, chosen):
    paths = [
        [kernel(gamma=g) for g in (1.0, 2.0)] for kernel in (Gaussian, Exponential)
    ]
    kernels = [*paths[0], *paths[1]]
    of = dict(zip(kernels, losses, strict=True))
    found = _finalists(paths, lambda some: [Trial(k, 1.0, of[k]) for k in some])
    assert found == [kernels[k] for k in chosen]


def test_a_gaussian_must_be_better_by_its_handicap(monkeypatch):
    paths = [[Exponential(gamma=1.0)], [Gaussian(gamma=1.0)]]
    errors = {Exponential: {5.0: 2.0, 7.0: 1.0}, Gaussian: {5.0: 0.985, 7.0: 3.0}}

    def values(self, kernel, Cs, n_threads):
        of_each = [np.sqrt(errors[type(kernel)].get(C, 9.0)) for C in Cs]
        yield np.tile(np.asarray(of_each)[:, None], (len(self.Y), 1, 1))

    monkeypatch.setattr(tuning.LeftOutColumns, "values", values)
    plan = Plan(paths, [5.0, 7.0], 1, None)
    for n, kernel, C in ((1000, Gaussian, 5.0), (4000, Exponential, 7.0)):
        targets = NumberTargets(np.zeros((n, 1)), 1)
        problem = Problem.of(np.zeros((n, 2)), targets, None)
        found = tuning.tune(problem, plan, np.random.default_rng(0))
        assert (type(found.kernel), found.C) == (kernel, C)


def test_it_does_not_learn_by_heart_where_labels_are_noise():
    """Centres of few rows know the labels; the search must not see them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = np.where(rng.random(400) < 0.75, X[:, 0] > 0, X[:, 0] <= 0)
    m = model(100).fit(X[:250], y[:250])
    assert m.score(X[:250], y[:250]) < 0.9
    assert m.score(X[250:], y[250:]) > 0.6


def test_columns_of_any_unit_are_one_choice():
    """All columns in another unit: gamma follows, and the model is the same."""
    near, far = (
        model().fit(unit * MOONS[TRAIN], SIDES[TRAIN]) for unit in (1.0, 1000.0)
    )
    assert near.C_ == far.C_
    np.testing.assert_array_equal(
        near.predict(MOONS[TEST]), far.predict(1000.0 * MOONS[TEST])
    )


def unequal_classes():
    """Return one row in ten of a class that lies closer together than the other."""
    rng = np.random.default_rng(0)
    y = (np.arange(1500) % 10 == 0).astype(int)
    X = rng.normal(size=(1500, 5)) * np.where(y[:, None] == 1, 0.6, 1.0)
    return X + 1.2 * y[:, None] * np.eye(5)[0], y


def test_the_intercept_is_moved_where_classes_are_unequal():
    X, y = unequal_classes()
    plane = {"kernel": "linear", "random_state": 0}
    m = KMeansKernelClassifier(**plane).fit(X[:600], y[:600])
    given = KMeansKernelClassifier(C=m.C_, **plane).fit(X[:600], y[:600])
    # The same function but for its intercept; coefficients on a plane are not unique.
    rises = [one.decision_function(X) - one.intercept_ for one in (m, given)]
    np.testing.assert_allclose(*rises, rtol=0, atol=1e-6 * np.ptp(rises[0]))
    assert m.intercept_ > given.intercept_
    by_log_loss = [
        -np.log(one.predict_proba(X[600:])[np.arange(900), y[600:]]).mean()
        for one in (m, given)
    ]
    assert by_log_loss[0] < by_log_loss[1]
    certain = KMeansKernelClassifier(probability=False, **plane)
    certain.fit(X[:600], y[:600])
    np.testing.assert_array_equal(certain.predict(X[600:]), m.predict(X[600:]))


@pytest.mark.parametrize("kernel", ["linear", "poly", "exponential", "cosine"])
def test_every_kernel_can_be_tuned(kernel):
    m = model(kernel=kernel).fit(MOONS[TRAIN], SIDES[TRAIN])
    assert m.score(MOONS[TEST], SIDES[TEST]) > 0.6


def test_sparse_rows_are_their_dense_ones():
    X, y = load_digits(return_X_y=True)
    dense = model().fit(X[:500], y[:500])
    sparse = model().fit(scipy.sparse.csr_array(X[:500]), y[:500])
    assert sparse.C_ == dense.C_
    assert sparse.kernel_.gamma == pytest.approx(dense.kernel_.gamma)


def test_rows_of_weight_zero_are_passed_over():
    weight = np.where(np.arange(500) % 2 == 0, 1.0, 0.0)
    wrong = np.where(weight > 0, SIDES[TRAIN], 1 - SIDES[TRAIN])
    m = model().fit(MOONS[TRAIN], wrong, sample_weight=weight)
    assert m.score(MOONS[TEST], SIDES[TEST]) > 0.9


def test_a_regressor_without_an_argument():
    X, y = make_friedman1(900, n_features=5, noise=0.1, random_state=0)
    X = StandardScaler().fit_transform(X)
    m = KMeansKernelRegressor(random_state=0).fit(X[:600], y[:600])
    fixed = KMeansKernelRegressor(C=1.0, gamma="scale", random_state=0)
    fixed.fit(X[:600], y[:600])
    assert m.score(X[600:], y[600:]) > fixed.score(X[600:], y[600:])
    tried = m.search_results_
    assert m.C_ in tried["C"]


@pytest.mark.parametrize(
    ("params", "match"),
    [
        (
            {"C": "best"},
            r"C='best' must be a positive, finite number, or 'auto'",
        ),
        ({"C": 0}, r"C=0 must be a positive"),
        ({"gamma": "best"}, r"gamma='best' must be .*one of \['tune', 'scale'"),
        ({"gamma": -1.0}, r"gamma=-1.0 must be a positive"),
    ],
)
def test_parameters_that_are_refused(params, match):
    with pytest.raises(ValueError, match=match):
        model(**params).fit(MOONS[TRAIN], SIDES[TRAIN])
