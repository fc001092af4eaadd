"""Laws of a target's offset and size: fit(a y + b) = a fit(y) + b, to rounding."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from kaucus import (
    KMeansKernelRegressor,
    LearnedMetric,
    LSSVMRegressor,
    PatchKernelRegressor,
)
from kaucus.fitting._problem import TargetUnit
from kaucus.solvers._blocks import RANDOMIZED
from tests.reference import low_rank

OPEN = {"C": "auto", "kernel": "auto", "gamma": "tune"}
SEED = {"random_state": 0}
RBF = {"kernel": "rbf", "gamma": 0.1}
EPS, EPS32 = np.finfo(np.float64).eps, float(np.finfo(np.float32).eps)
SOLVERS = ("cholesky", "cg", *sorted(set(RANDOMIZED) - {"nystrom"}))


def by_solver(solver, **options):
    return LSSVMRegressor(10, solver=solver, block_size=60, **SEED, **options)


# A model, and how much the rounding of its targets may grow, for rows of float64 and of
# float32. Normal equations square the condition of their columns, and keep half of the
# digits where these nearly depend on each other, as in a learned metric.
MODELS = [
    *((by_solver(solver), 1e3 * EPS, 1e3 * EPS32) for solver in SOLVERS),
    (by_solver("nystrom"), 1e4 * EPS, 1e3 * EPS32),
    (LSSVMRegressor(10, **SEED), 1e3 * EPS, 1e3 * EPS32),
    (LSSVMRegressor("auto", gamma="tune", **SEED), 1e3 * EPS, 1e3 * EPS32),
    (LSSVMRegressor(**OPEN, **SEED), 1e3 * EPS**0.5, 1e5 * EPS32),
    (KMeansKernelRegressor(40, C=10, **RBF, **SEED), 1e4 * EPS, 1e4 * EPS32),
    (
        KMeansKernelRegressor(20, refine="auto", learn_metric=False, **SEED),
        1e4 * EPS,
        1e4 * EPS32,
    ),
    (KMeansKernelRegressor(30, **SEED), 1e3 * EPS**0.5, 1e6 * EPS32),
    (KMeansKernelRegressor(**SEED), 1e3 * EPS**0.5, 1e5 * EPS32),
]
PICTURES = [
    (PatchKernelRegressor(16, 3, image_shape=(8, 8), **SEED), 1e3 * EPS),
    (
        PatchKernelRegressor(16, 3, image_shape=(8, 8), n_representatives=60, **SEED),
        1e3 * EPS**0.5,
    ),
]


def name_of(value):
    return str(value).replace("\n", "").replace(" ", "")


each_model = pytest.mark.parametrize(("model", "wide", "narrow"), MODELS, ids=name_of)
# a, and b in spreads of a y.
UNITS = [(1e-6, 1e8), (1e6, -1e8)]


def data(seed=0):
    """Return rows, targets and other rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(220, 4))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=220)
    return X[:160], y[:160], X[160:]


def pictures():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 255, size=(160, 64)).astype(np.uint8)
    return X[:120], X[:120, 20:24].mean(axis=1), X[120:]


def results(model, X):
    """Return predictions, intervals and standard deviations, where there are any."""
    found = [model.predict(X)]
    direct = model.solver_ in ("cholesky", "eigh", "normal_equations")
    if direct and hasattr(model, "predict_interval"):
        found += [model.predict_interval(X), model.predict(X, return_std=True)[1]]
    return found


def assert_follows(model, X, y, new, relative):
    """Check models of a y + b against one of y, and return them."""
    first, models = clone(model).fit(X, y), []
    expected = results(first, new)
    # A common code centres targets for rows of either precision.
    for a, spreads in UNITS if X.dtype != np.float32 else UNITS[-1:]:
        b = spreads * a * np.std(y)
        models.append(clone(model).fit(X, a * y + b))
        bound = relative * a * np.std(y) + 1e3 * EPS * abs(b)
        for got, one, offset in zip(
            results(models[-1], new), expected, (b, b, 0.0), strict=False
        ):
            assert_allclose(got, a * one + offset, rtol=0, atol=bound)
    return [first, *models]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_model
def test_it_is_that_of_the_predictions(model, wide, narrow, dtype):
    X, y, new = data()
    relative = wide if dtype == "float64" else narrow
    assert_follows(model, X.astype(dtype), y, new.astype(dtype), relative)


@pytest.mark.parametrize(("model", "relative"), PICTURES, ids=name_of)
def test_it_is_that_of_predictions_of_pictures(model, relative):
    first, *models = assert_follows(model, *pictures(), relative)
    for other in models:
        assert_allclose(other.loo_score_, first.loo_score_, rtol=1e-4)


@pytest.mark.parametrize(
    ("model", "wide"),
    [(m, wide) for m, wide, _ in MODELS],
    ids=name_of,
)
def test_every_output_has_its_own(model, wide):
    """Each is fitted as if it were alone, whatever the others are."""
    X, y, new = data()
    Y = np.stack([y, 1e6 * X[:, 0] ** 2, 1e-6 * y + 100, np.full(len(y), 0.1)], axis=1)
    alike = np.stack([y, X[:, 0] ** 2, y, np.zeros(len(y))], axis=1)
    together = clone(model).fit(X, Y).predict(new)
    expected = clone(model).fit(X, alike).predict(new) * [1.0, 1e6, 1e-6, 1.0]
    expected += [0.0, 0.0, 100.0, 0.1]
    atol = 10 * wide * np.std(Y, axis=0) + 1e3 * EPS * np.abs(Y).max(axis=0)
    assert (np.abs(together - expected) <= atol).all()


@each_model
@pytest.mark.parametrize(
    ("value", "weighted"), [(0.0, False), (0.1, True), (-1e12, True)]
)
def test_equal_targets_are_the_prediction_and_nothing_is_uncertain(
    model, wide, narrow, value, weighted
):
    X, y, new = data()
    given = np.linspace(0, 1, len(y)) if weighted else None
    fitted = clone(model).fit(X, np.full(len(y), value), sample_weight=given)
    found = results(fitted, new)
    for got, expected in zip(found, (value, value, 0.0), strict=False):
        assert_array_equal(got, np.full_like(got, expected))


# ---- weights, parts, starts ----------------------------------------------------------


@each_model
def test_targets_of_rows_without_weight_are_not_looked_at(model, wide, narrow):
    X, y, new = data()
    weight = np.where(np.arange(len(y)) % 5 == 0, 0.0, np.linspace(0.5, 2, len(y)))
    wild = np.where(weight == 0, 1e30, y)
    expected = clone(model).fit(X, y, sample_weight=weight).predict(new)
    got = clone(model).fit(X, wild, sample_weight=weight).predict(new)
    assert_allclose(got, expected, rtol=0, atol=wide * np.std(y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("after_a_fit", [False, True])
def test_rows_in_parts(dtype, after_a_fit):
    """The unit is that of the first part, and of all that follow."""
    X, y, new = data()
    X, new, a, b = X.astype(dtype), new.astype(dtype), 1e4, 1e10
    predictions = []
    for targets in (y, a * y + b):
        model = KMeansKernelRegressor(20, C=10, **RBF, **SEED)
        if after_a_fit:
            model.fit(X[:100], targets[:100])
        for s in (slice(0, 100), slice(100, 130), slice(130, 160)):
            model.partial_fit(X[s], targets[s])
        predictions.append(model.predict(new))
    bound = 1e4 * (EPS if dtype == "float64" else EPS32) * a + 1e3 * EPS * b
    assert_allclose(predictions[1], a * predictions[0] + b, rtol=0, atol=bound)


def test_a_later_part_may_be_anywhere():
    """Also where the targets of the first part are equal, and far away."""
    X, y, new = data()
    y = np.where(np.arange(len(y)) < 100, 5.0, 1e6 + 1e3 * y)
    model = KMeansKernelRegressor(20, C=10, **RBF, **SEED)
    first = model.partial_fit(X[:100], y[:100])
    assert_array_equal(first.predict(new), np.full(len(new), 5.0))
    model.partial_fit(X[100:], y[100:])
    kernel, Z = model.kernel_, model.representatives_
    a, b = low_rank.solve_on_representatives(kernel(X, Z), kernel(Z), y[:, None], 10)
    expected = (kernel(new, Z) @ a + b)[:, 0]
    assert_allclose(model.predict(new), expected, rtol=0, atol=1e-6 * np.std(y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_in_batches(dtype):
    X, y, new = data()
    X, new, b = X.astype(dtype), new.astype(dtype), 1e8
    model = KMeansKernelRegressor(20, C=10, **RBF, **SEED)
    predictions = [
        clone(model)
        .fit_batches(lambda t=t: ((X[s], t[s]) for s in (slice(0, 99), slice(99, 160))))
        .predict(new)
        for t in (y, y + b)
    ]
    bound = 1e4 * (EPS if dtype == "float64" else EPS32) + 1e3 * EPS * b
    assert_allclose(predictions[1], predictions[0] + b, rtol=0, atol=bound)


WARM = ("block_descent", "kaczmarz", "matching_pursuit", "kaczmarz_mp")


@pytest.mark.filterwarnings("ignore:.* stopped after 1")
@pytest.mark.parametrize("solver", WARM)
def test_a_warm_start_goes_on_from_the_coefficients_of_the_user(solver):
    X, y, new = data()
    a, b, fits = 1e3, 1e9, []
    for targets in (y, a * y + b):
        model = by_solver(solver, max_iter=12, warm_start=True).fit(X, targets)
        fits.append(model.set_params(max_iter=1).fit(X, targets))
    assert fits[1].n_iter_ == fits[0].n_iter_ == 1
    residuals = [model.history_["residual"][0] for model in fits]
    cold = by_solver(solver, max_iter=1).fit(X, y).history_["residual"][0]
    assert_allclose(residuals[1], residuals[0], rtol=1e-4)
    assert residuals[0] < 0.9 * cold
    got, expected = (model.predict(new) for model in (fits[1], fits[0]))
    assert_allclose(got, a * expected + b, rtol=0, atol=1e4 * EPS * b)


@pytest.mark.parametrize("solver", WARM)
def test_a_warm_start_may_have_other_targets(solver):
    """Wherever it begins, the tolerance is relative to the spread of the targets."""
    X, y, new = data()
    model = by_solver(solver, warm_start=True).fit(X, 1e3 * y + 1e4)
    model.fit(X, y - 7)
    expected = by_solver("cholesky").fit(X, y - 7).predict(new)
    assert np.abs(model.predict(new) - expected).max() < 0.02 * np.std(y)


@pytest.mark.filterwarnings("ignore:.* stopped after 9")
def test_callback_and_history_are_in_the_units_of_the_targets():
    X, y, _ = data()
    a, b, seen = 1e3, 1e6, []

    def watch(step, state):
        seen.append((state.dual_coef, state.intercept, state.validation_error))

    model = by_solver("block_descent", callback=watch, max_iter=9)
    model.fit(X[:120], a * y[:120] + b, X_val=X[120:], y_val=a * y[120:] + b)
    coef, intercept, error = seen[-1]
    assert_allclose(coef, model.dual_coef_, rtol=1e-9)
    assert_allclose(intercept, model.intercept_, rtol=1e-12)
    rmse = np.sqrt(np.mean((model.predict(X[120:]) - a * y[120:] - b) ** 2))
    assert_allclose(error, rmse, rtol=1e-6)
    assert_allclose(model.history_["validation_error"][-1], rmse, rtol=1e-6)


# ---- searches ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scoring", ["neg_mean_squared_error", "neg_mean_absolute_error"]
)
def test_scores_are_in_the_units_of_the_targets(scoring):
    X, y, _ = data()
    a, b = 1e3, 1e9
    model = LSSVMRegressor("auto", scoring=scoring)
    first, second = (clone(model).fit(X, t) for t in (y, a * y + b))
    factor = a**2 if "squared" in scoring else a
    assert_allclose(second.best_score_, factor * first.best_score_, rtol=1e-5)
    scores = [m.search_results_["score"] for m in (first, second)]
    assert_allclose(scores[1], factor * scores[0], rtol=1e-5)


def test_a_learned_metric_does_not_depend_on_them():
    X, y, _ = data()
    first, second = (LearnedMetric(**SEED).fit(X, t) for t in (y, 1e3 * y + 1e11))
    assert (second.kind_, second.C_) == (first.kind_, first.C_)
    assert_allclose(second.metric_, first.metric_, atol=1e-3)


# ---- the unit itself -----------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1.0, 1e30, 1e99])
def test_standard_targets_are_about_zero_and_of_size_one(size, rng):
    Y = size * rng.normal([0.0, 1e3, -5.0], size=(50, 3))
    unit = TargetUnit.of(Y, None)
    Z = unit.standard(Y)
    assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    assert ((np.abs(Z).max(axis=0) >= 1) & (np.abs(Z).max(axis=0) < 2)).all()
    assert (np.frexp(unit.scale)[0] == 0.5).all()  # a power of two
    assert_allclose(unit.values(Z), Y, rtol=1e-15)


def test_powers_of_two_round_nothing(rng):
    Y = rng.normal(size=(50, 3))
    Z, scaled = (TargetUnit.of(y, None).standard(y) for y in (Y, 2.0**20 * Y))
    assert_array_equal(scaled, Z)
