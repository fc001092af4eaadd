"""KMeansKernelRegressor(loss="quantile"): shares, order, units, weights."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import d2_pinball_score

from kaucus import KMeansKernelRegressor, report
from tests.arrays import array, assert_close

LEVELS = [0.9, 0.1, 0.5]
GIVEN = {"kernel": "rbf", "gamma": 0.5, "C": 10.0, "random_state": 0}


@pytest.fixture
def waves(rng):
    X = rng.uniform(0, 6, size=(600, 1))
    return X, np.sin(X[:, 0]) + 0.1 * (1 + X[:, 0]) * rng.normal(size=600)


def fitted(X, y, *args, quantile=LEVELS, **options):
    options = GIVEN | options
    model = KMeansKernelRegressor(30, loss="quantile", quantile=quantile, **options)
    return model.fit(X, y, *args)


def test_the_share_of_rows_below_is_the_level(waves):
    X, y = waves
    f = fitted(X, y).predict(X)
    assert f.shape == (600, 3)
    assert_close((y[:, None] < f).mean(axis=0), LEVELS, rtol=0, atol=0.02)


def test_quantiles_never_cross(rng):
    X, y = rng.normal(size=(80, 3)), rng.normal(size=80)
    levels = np.linspace(0.02, 0.98, 25)
    model = fitted(X, y, quantile=levels, gamma=2.0, C=1e4)
    new = 3 * rng.normal(size=(500, 3))
    raw = model.kernel_(new, model.representatives_) @ model.dual_coef_
    assert (np.diff(raw + model.intercept_, axis=1) < 0).any()  # without order they do
    assert (np.diff(model.predict(new), axis=1) >= 0).all()


def test_one_level_is_a_vector_and_the_same_alone_or_with_others(waves):
    X, y = waves
    alone = fitted(X, y, quantile=0.9).predict(X)
    assert alone.shape == (600,)
    assert_close(alone, fitted(X, y).predict(X)[:, 0], rtol=0, atol=0.02)


def test_a_factor_and_an_offset_of_the_targets_are_those_of_the_prediction(waves):
    X, y = waves
    expected = fitted(X, y).predict(X)
    assert_close(fitted(X, 1024 * y + 7).predict(X), 1024 * expected + 7, rtol=1e-5)
    # Of −y the quantile of 1 − τ.
    mirrored = fitted(X, -y, quantile=[0.1, 0.9, 0.5]).predict(X)
    assert_close(mirrored, -expected, rtol=0, atol=0.03)


def test_constant_weights_change_nothing_and_zero_is_absence(waves):
    X, y = waves
    options = {"C": "auto"}
    expected = fitted(X, y, **options).predict(X)
    same = fitted(X, y, np.full(600, 5.0), **options).predict(X)
    assert_close(same, expected, rtol=1e-6)
    weight = np.where(X[:, 0] < 3, 1.0, 0.0)
    wild = np.where(weight > 0, y, 1e3)
    f = fitted(X, wild, weight).predict(X[weight > 0])
    share = (y[weight > 0, None] < f).mean(axis=0)
    assert_close(share, LEVELS, rtol=0, atol=0.03)


def test_rows_of_any_kind(waves, xp, dtype):
    X, y = waves
    expected = fitted(X, y).predict(X)
    rows = array(xp, X.astype(dtype))
    model = fitted(rows, y)
    assert_close(model.predict(rows), expected, rtol=0, atol=0.02)
    sparse = scipy.sparse.csr_array(X)
    assert_close(fitted(sparse, y).predict(sparse), expected, rtol=0, atol=0.02)


def test_a_dask_collection(waves):
    da = pytest.importorskip("dask.array")
    X, y = waves
    rows = da.from_array(X, chunks=(150, 1))
    f = fitted(rows, y).predict(rows)
    assert isinstance(f, da.Array)
    assert_close((y[:, None] < f.compute()).mean(axis=0), LEVELS, rtol=0, atol=0.02)


def test_the_score_is_the_mean_of_the_pinball_losses(waves):
    X, y = waves
    model = fitted(X, y)
    f = model.predict(X)
    expected = [d2_pinball_score(y, f[:, k], alpha=a) for k, a in enumerate(LEVELS)]
    assert model.score(X, y) == pytest.approx(np.mean(expected))


def test_intervals_hold_their_level_and_follow_the_noise(rng):
    """Of quantiles that are too near, and of some that are too far apart."""
    X = rng.uniform(0, 6, size=(3000, 1))
    noise = 0.05 + 0.2 * X[:, 0]
    y = np.sin(X[:, 0]) + noise * rng.normal(size=3000)
    learn, held, new = slice(0, 600), slice(600, 1500), slice(1500, 3000)
    for outer in ([0.25, 0.75], [0.99, 0.01]):
        model = KMeansKernelRegressor(20, loss="quantile", quantile=outer, **GIVEN)
        model.fit(X[learn], y[learn]).conformalize(X[held], y[held])
        ends = model.predict_interval(X[new], [0.5, 0.9], method="split")
        assert ends.shape == (1500, 2, 2)
        inside = (ends[:, 0] <= y[new, None]) & (y[new, None] <= ends[:, 1])
        assert_close(inside.mean(axis=0), [0.5, 0.9], atol=0.05)
        width = np.ptp(ends[:, :, 1], axis=1)
        assert np.corrcoef(width, noise[new])[0, 1] > 0.8
        alone = model.predict_interval(X[new], 0.9, method="split")
        assert_close(alone, ends[:, :, 1])


def test_a_fit_of_the_mean_forgets_the_quantiles(waves):
    X, y = waves
    model = fitted(X, y).set_params(loss="squared_error").fit(X, y)
    assert model.quantiles_ is None
    assert model.predict(X).shape == (600,)


def test_words_for_a_size():
    X = np.linspace(0, 1, 700)[:, None]
    options = GIVEN | {"loss": "quantile"}
    model = KMeansKernelRegressor("fast", **options).fit(X, X[:, 0])
    assert len(model.representatives_) == 300


def test_a_report_is_on_one_quantile(waves):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="the model has 3 quantiles"):
        report(fitted(*waves), *waves)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m, X, y: m.set_params(quantile=1.0).fit(X, y), "quantile=1.0 must be"),
        (lambda m, X, y: m.set_params(loss="huber").fit(X, y), "loss='huber' must be"),
        (lambda m, X, y: m.fit(X, np.c_[y, y]), "y has 2 outputs"),
        (lambda m, X, y: m.partial_fit(X, y), "loss='quantile' is fitted to all"),
        (lambda m, X, y: m.fit(X, y).predict_interval(X), "no least squares"),
        (lambda m, X, y: m.fit(X, y).conformalize(X, y), "need two quantiles"),
        (lambda m, X, y: m.fit(X, y).predict(X, return_std=True), "no least squares"),
    ],
)
def test_errors(waves, call, match):
    model = KMeansKernelRegressor(10, loss="quantile", **GIVEN)
    with pytest.raises(ValueError, match=match):
        call(model, *waves)
