"""KMeansKernelRegressor: what it stores, what it equals, what it says."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import ConvergenceWarning

from kaucus import KMeansKernelRegressor, LSSVMRegressor
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus.fitting import _represented as base
from kaucus.fitting._problem import target_bins
from tests.arrays import assert_close

X, Y = make_friedman1(800, n_features=5, noise=0.3, random_state=0)
TRAIN, TEST = slice(0, 500), slice(500, None)


def model(n=40, **params):
    params = {"C": 1.0, "kernel": "rbf", "gamma": "scale", **params}
    return KMeansKernelRegressor(n, random_state=0, **params)


@pytest.fixture(scope="module")
def fitted():
    return model(C=100.0).fit(X[TRAIN], Y[TRAIN])


def test_what_is_stored(fitted):
    assert fitted.representatives_.shape == (40, 5)
    assert fitted.representative_weights_.sum() == 500
    assert fitted.dual_coef_.shape == (40, 1)
    assert fitted.intercept_.shape == (1,)
    assert fitted.solver_ == "normal_equations"


def test_the_prediction_is_a_kernel_expansion_of_the_representatives(fitted):
    K = fitted.kernel_(X[TEST], fitted.representatives_)
    assert_allclose(
        fitted.predict(X[TEST]),
        (K @ fitted.dual_coef_ + fitted.intercept_)[:, 0],
        rtol=1e-9,
    )
    assert fitted.score(X[TEST], Y[TEST]) > 0.88


def test_with_every_row_a_representative_it_is_the_ls_svm():
    rows, targets = load_diabetes(return_X_y=True)
    rows, targets = rows[:120], targets[:120]
    weight = np.linspace(0.5, 2, 120)
    exact = LSSVMRegressor(C=3.0).fit(rows, targets, sample_weight=weight)
    m = model(1000, C=3.0).fit(rows, targets, sample_weight=weight)
    assert_allclose(m.predict(rows), exact.predict(rows), rtol=1e-6)


def test_more_representatives_fit_closer():
    scores = [
        model(n, C=100.0).fit(X[TRAIN], Y[TRAIN]).score(X[TEST], Y[TEST])
        for n in (5, 30, 200)
    ]
    assert scores[0] < scores[1] < scores[2]


def test_several_outputs_are_one_each():
    both = np.c_[Y, -2 * Y + 1]  # grouped as the one is
    m = model().fit(X[TRAIN], both[TRAIN])
    alone = model().fit(X[TRAIN], Y[TRAIN])
    got = m.predict(X[TEST])
    assert got.shape == (300, 2)
    assert_allclose(got[:, 0], alone.predict(X[TEST]), rtol=1e-9)
    assert_allclose(got[:, 1], 1 - 2 * got[:, 0], rtol=1e-7)


def test_bins_have_equal_weight_and_keep_the_order():
    weight = np.random.default_rng(0).integers(0, 4, 500).astype(float)
    bins = target_bins(Y[TRAIN, None], weight, 4)
    mass = np.bincount(bins, weights=weight)
    assert_allclose(mass, weight.sum() / 4, atol=4)
    lows = [Y[TRAIN][bins == b].min() for b in range(4)]
    highs = [Y[TRAIN][bins == b].max() for b in range(4)]
    assert all(high < low for high, low in zip(highs, lows[1:], strict=False))


def test_equal_targets_are_in_one_bin():
    y = np.r_[np.zeros(90), np.arange(1.0, 11.0)][:, None]
    bins = target_bins(y, None, 5)
    assert len(set(bins[:90])) == 1
    assert set(bins) == set(range(bins.max() + 1))
    assert (target_bins(np.ones((7, 2)), None, 5) == 0).all()


def test_one_bin_is_k_means_of_all_rows():
    m = model(n_bins=1).fit(X[TRAIN], Y[TRAIN])
    other = model(n_bins=1).fit(X[TRAIN], -(Y[TRAIN] ** 2))
    assert_allclose(m.representatives_, other.representatives_)
    binned = model(n_bins=5).fit(X[TRAIN], Y[TRAIN])
    assert binned.representatives_.shape == m.representatives_.shape
    assert binned.score(X[TEST], Y[TEST]) > m.score(X[TEST], Y[TEST])


def test_rows_of_weight_zero_are_passed_over():
    noise = np.where(np.arange(500) % 3 == 0, 0.0, 1.0)
    targets = np.where(noise > 0, Y[TRAIN], 1e6)
    m = model().fit(X[TRAIN], targets, sample_weight=noise)
    assert m.representative_weights_.sum() == noise.sum()
    assert m.score(X[TEST], Y[TEST]) > 0.8


@pytest.mark.parametrize("clustering", ["kmeans", "spherical"])
def test_sparse_rows_are_their_dense_ones(clustering):
    rows = np.where(X[TRAIN] > 0.5, X[TRAIN], 0.0)
    dense = model(clustering=clustering).fit(rows, Y[TRAIN])
    sparse = model(clustering=clustering).fit(scipy.sparse.csr_array(rows), Y[TRAIN])
    assert_allclose(
        sparse.predict(scipy.sparse.csr_array(rows)),
        dense.predict(rows),
        rtol=1e-5,
    )


def test_rows_stay_float32_and_predictions_are_float64(fitted):
    narrow = model(C=100.0).fit(X[TRAIN].astype(np.float32), Y[TRAIN])
    values = narrow.predict(X[TEST].astype(np.float32))
    assert narrow.representatives_.dtype == np.float32
    assert values.dtype == np.float64
    assert np.abs(values - fitted.predict(X[TEST])).max() < 0.1


def test_the_memory_budget_changes_nothing_but_rounding(fitted):
    small = model(C=100.0, memory_budget="400KiB").fit(X[TRAIN], Y[TRAIN])
    assert_allclose(small.predict(X[TEST]), fitted.predict(X[TEST]), rtol=1e-6)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_representatives": 0}, "n_representatives=0 must be a whole number, 1"),
        ({"n_representatives": {0: 3}}, r"n_representatives=\{0: 3\} must be a whole"),
        ({"clustering": "gmm"}, r"clustering='gmm' must be one of"),
        ({"n_bins": 0}, r"n_bins=0 must be a whole number"),
        ({"C": -1}, r"C=-1 must be a positive"),
        ({"kmeans_params": {"init": "pca"}}, r"\['init'\]='pca' must be one of"),
        ({"kernel": "precomputed"}, r"use LSSVMRegressor\(kernel='precomputed'\)"),
    ],
)
def test_parameters_that_are_refused(params, match, monkeypatch):
    def reached(*args, **kwargs):
        pytest.fail("k-means was reached with a bad parameter")

    monkeypatch.setattr("kaucus.clustering._kmeans.kmeans", reached)
    with pytest.raises(ValueError, match=match):
        model().set_params(**params).fit(X[TRAIN], Y[TRAIN])


def test_a_warning_points_at_the_line_of_the_user():
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps") as caught:
        model(kmeans_params={"max_iter": 1, "tol": 1e-9}).fit(X[TRAIN], Y[TRAIN])
    assert caught[0].filename == __file__


def test_an_indefinite_kernel_is_an_error_with_a_remedy(monkeypatch):
    def indefinite(*args, **kwargs):
        raise NotPositiveDefiniteError

    monkeypatch.setattr(base, "solve_on_representatives", indefinite)
    with pytest.raises(ValueError, match=r"indefinite at C=1.*Use a positive semi"):
        model().fit(X[TRAIN], Y[TRAIN])


# ---- streams ----------------------------------------------------------------------


def stream(m, rows, targets, n_parts, weight=None):
    edges = np.linspace(0, rows.shape[0], n_parts + 1).astype(int)
    for start, stop in itertools.pairwise(edges):
        some = None if weight is None else weight[start:stop]
        m.partial_fit(rows[start:stop, :], targets[start:stop, ...], some)
    return m


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_a_stream_comes_near_the_fit_of_all_rows(C):
    given = X.copy(), Y.copy()
    streamed = stream(model(100, C=C), X[TRAIN], Y[TRAIN], 5)
    whole = model(100, C=C).fit(X[TRAIN], Y[TRAIN]).score(X[TEST], Y[TEST])
    assert streamed.score(X[TEST], Y[TEST]) > whole - 0.02
    assert streamed.representatives_.shape == (100, 5)
    assert np.array_equal(X, given[0])
    assert np.array_equal(Y, given[1])


def test_the_first_part_of_a_stream_is_a_fit():
    m = model().partial_fit(X[:300], Y[:300])
    whole = model().fit(X[:300], Y[:300])
    assert_allclose(m.dual_coef_, whole.dual_coef_, rtol=1e-9)


def test_one_row_at_a_time_is_welcome_after_the_first():
    m = model(10).partial_fit(X[:50], Y[:50])
    for k in range(50, 60):
        m.partial_fit(X[k : k + 1], Y[k : k + 1])
    assert m.representative_weights_.sum() == pytest.approx(60)
    assert m.representatives_.shape == (10, 5)


def test_a_stream_without_arguments():
    m = stream(KMeansKernelRegressor(random_state=0), X[TRAIN], Y[TRAIN], 2)
    assert m.score(X[TEST], Y[TEST]) > 0.9
    assert len(m.representatives_) <= 500


def test_a_stream_of_csr_rows():
    rows = X * (X > 0.3)
    dense = stream(model(), rows[TRAIN], Y[TRAIN], 2)
    sparse = stream(model(), scipy.sparse.csr_array(rows)[TRAIN], Y[TRAIN], 2)
    assert_allclose(sparse.predict(rows[TEST]), dense.predict(rows[TEST]), atol=1e-6)


def test_a_stream_of_tensors(xp):
    expected = stream(model(), X[TRAIN], Y[TRAIN], 2)
    m = stream(model(), xp.asarray(X[TRAIN].copy()), xp.asarray(Y[TRAIN].copy()), 2)
    assert type(m.representatives_) is type(xp.asarray(X[:1].copy()))
    assert_close(m.predict(xp.asarray(X[TEST].copy())), expected.predict(X[TEST]))


def test_what_a_stream_refuses():
    m = model().partial_fit(X[:50], Y[:50])
    with pytest.raises(ValueError, match="y has 2 outputs, and had 1"):
        m.partial_fit(X[:50], np.stack([Y[:50], Y[:50]], axis=1))
    with pytest.raises(ValueError, match="X has 4 features"):
        m.partial_fit(X[:50, :4], Y[:50])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        model().partial_fit(X[:1], Y[:1])
