"""The names of a Gaussian process: evidence and draws of functions."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from kaucus import KMeansKernelRegressor, LSSVMRegressor
from tests.arrays import array, assert_close
from tests.reference.gaussian_process import log_evidence

GIVEN = {"kernel": "rbf", "gamma": 0.5, "C": 4.0}


@pytest.fixture
def waves(rng):
    X = rng.uniform(0, 6, size=(60, 2))
    return X, 5 + np.sin(X[:, 0]) * X[:, 1] + 0.2 * rng.normal(size=60)


def process_like(model, X, y, constant=0.0):
    """Return scikit-learn's process with the kernel, scale and noise of a model."""
    scale = float(model._left_out_models().scale[0])
    kernel = ConstantKernel(scale) * RBF(1.0) + ConstantKernel(constant or 1e-300)
    alpha = scale / GIVEN["C"]
    process = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None)
    return process.fit(X, y)


@pytest.mark.parametrize("kind", [LSSVMRegressor, KMeansKernelRegressor])
def test_evidence_of_all_rows_is_scikit_learns(waves, kind):
    X, y = waves
    options = {} if kind is LSSVMRegressor else {"n_representatives": 60}
    model = kind(**GIVEN, **options).fit(X, y)
    process = process_like(model, X, y - model.intercept_[0])
    expected = process.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("m", [5, 20])
@pytest.mark.parametrize("gamma", [0.5, 0.001])
def test_evidence_on_representatives_is_that_of_the_projected_process(
    waves, rng, m, gamma
):
    X, y = waves
    weight = rng.uniform(0.5, 2, size=60)
    weight[:5] = 0
    model = KMeansKernelRegressor(m, **(GIVEN | {"gamma": gamma}), random_state=0)
    model.fit(X, y, weight)
    some, Z = slice(5, None), model.representatives_
    K_nm, K_mm = model.kernel_(X[some], Z), model.kernel_(Z)
    expected = log_evidence(y[some], K_nm, K_mm, weight[some], 4.0)
    assert model.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-6)


def test_weights_of_an_exact_model(waves, rng):
    X, y = waves
    weight = rng.uniform(0.5, 2, size=60)
    weight[:5] = 0
    model = LSSVMRegressor(**GIVEN).fit(X, y, weight)
    K = model.kernel_(X[5:])
    expected = log_evidence(y[5:], K, K, weight[5:], 4.0)
    assert model.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-6)


def test_evidence_of_several_outputs_and_units(waves):
    X, y = waves
    both = LSSVMRegressor(**GIVEN).fit(X, np.c_[y, 100 * y])
    alone = LSSVMRegressor(**GIVEN).fit(X, y).log_marginal_likelihood_
    # A density of 100 y is a hundredth of that of y.
    expected = [alone, alone - 60 * np.log(100)]
    assert_close(both.log_marginal_likelihood_, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", [LSSVMRegressor, KMeansKernelRegressor])
def test_draws_have_the_mean_and_covariance_of_the_process(waves, kind):
    X, y = waves
    options = {} if kind is LSSVMRegressor else {"n_representatives": 15}
    model = kind(**GIVEN, **options, random_state=0).fit(X, y)
    # Rows far from all others and from each other share the intercept alone.
    new = np.concatenate([X[:2] + 0.3, [[100.0, 0.0], [0.0, 100.0]]])
    draws = model.sample_y(new, 40_000, random_state=1)
    mean, std = model.predict(new, return_std=True)
    assert draws.shape == (4, 40_000)
    assert_close(draws.mean(axis=1), mean, rtol=0, atol=0.03 * std.max())
    assert_close(draws.std(axis=1), std, rtol=0.02)
    if kind is LSSVMRegressor:  # with a flat prior of the intercept
        process = process_like(model, X, y, constant=1e6)
        _, covariance = process.predict(new, return_cov=True)
        assert covariance[2, 3] > 0.05 * covariance[2, 2]
        bound = 0.03 * covariance.max()
        assert_close(np.cov(draws), covariance, rtol=0, atol=bound)


def test_draws_at_one_row_twice_are_the_same_function(waves):
    X, y = waves
    model = KMeansKernelRegressor(15, **GIVEN, random_state=0).fit(X, y)
    draws = model.sample_y(np.r_[X[:2], X[:2]], 5)
    assert_close(draws[:2], draws[2:], rtol=0, atol=1e-5)
    assert_close(draws, model.sample_y(np.r_[X[:2], X[:2]], 5))


def test_draws_of_several_outputs_follow_the_rows(waves, xp):
    X, y = waves
    rows = array(xp, X)
    model = LSSVMRegressor(**GIVEN).fit(rows, np.c_[y, -y])
    draws = model.sample_y(rows[:4, :], 3)
    assert type(draws) is type(rows)
    assert tuple(draws.shape) == (4, 2, 3)


def test_errors(waves):
    X, y = waves
    model = LSSVMRegressor(**GIVEN).fit(X, y)
    with pytest.raises(ValueError, match="n_samples=0 must be"):
        model.sample_y(X, 0)
    with pytest.raises(MemoryError, match="covariances of 60 rows"):
        model.set_params(memory_budget="64KiB").sample_y(X)
    steps = LSSVMRegressor(**GIVEN, solver="cg").fit(X, y)
    assert not hasattr(steps, "log_marginal_likelihood_")
    with pytest.raises(AttributeError, match="approximates one model"):
        _ = steps.log_marginal_likelihood_
    K = LSSVMRegressor(C=4.0, kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="sample_y needs k"):
        K.sample_y(X @ X.T)
    assert np.isfinite(K.log_marginal_likelihood_)
