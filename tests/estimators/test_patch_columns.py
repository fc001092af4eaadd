"""More pictures than a matrix has room for: least squares on columns, in blocks."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from kaucus import PatchKernelClassifier, PatchKernelRegressor
from kaucus.fitting import _pictures
from kaucus.fitting._problem import one_vs_rest_targets
from kaucus.kernels._patches import KeepingPatchKernel
from kaucus.preprocessing import PatchDictionary

FIXED = {
    "n_filters": 12,
    "patch_sizes": 3,
    "image_shape": (8, 8),
    "gamma": 0.5,
    "C": 20.0,
    "mirror": False,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400].astype(np.uint8), y[:400], X[400:500].astype(np.uint8), y[400:500]


@pytest.fixture
def few_columns(monkeypatch):
    """The budget has room for the columns of few pictures."""
    monkeypatch.setattr(_pictures, "columns_can_be_kept", lambda *_: False)
    monkeypatch.setattr(_pictures, "rows_of_kept_columns", lambda *_: 150)


@pytest.mark.parametrize("kind", [PatchKernelClassifier, PatchKernelRegressor])
def test_columns_of_all_pictures_are_the_exact_fit(kind, digits):
    X, y, X_test, _ = digits
    exact = kind(**FIXED).fit(X[:200], y[:200])
    model = kind(**FIXED, n_representatives=200).fit(X[:200], y[:200])
    assert model.solver_ == "cholesky"
    assert_allclose(model.predict(X_test), exact.predict(X_test), rtol=1e-6)


def test_columns_of_nearly_all_pictures_are_nearly_the_exact_fit(digits):
    X, y, X_test, _ = digits
    exact = PatchKernelClassifier(**FIXED).fit(X, y).decision_function(X_test)
    apart = []
    for m in (40, 360):
        model = PatchKernelClassifier(**FIXED, n_representatives=m).fit(X, y)
        apart.append(np.abs(model.decision_function(X_test) - exact).mean())
    assert apart[1] < 0.1 < apart[0]


@pytest.mark.parametrize("mirror", [False, True])
def test_hard_pictures_of_a_part_are_columns_for_all(digits, few_columns, mirror):
    X, y, X_test, y_test = digits
    options = {**FIXED, "mirror": mirror, "precision": "float64"}
    weight = 1 + np.arange(400) % 3
    model = PatchKernelClassifier(**options, n_representatives=60)
    model.fit(X, y, sample_weight=weight)
    assert model.solver_ == "normal_equations"
    assert 30 < len(model.X_fit_) <= 60  # hard ones too
    # The equations are those of all 400 pictures, not only of those looked at.
    K_nm, K_mm = model.kernel_(X, model.X_fit_), model.kernel_(model.X_fit_)
    residuals = one_vs_rest_targets(y, 10) - K_nm @ model.dual_coef_ - model.intercept_
    residuals *= weight[:, None]
    gradient = model.C_ * K_nm.T @ residuals - K_mm @ model.dual_coef_
    assert_allclose(residuals.sum(axis=0), 0, atol=1e-5)
    assert np.abs(gradient).max() < 0.02 * np.abs(K_mm @ model.dual_coef_).max()
    assert model.score(X_test, y_test) > 0.7


def test_with_few_columns_all_rows_are_fitted_once(digits, few_columns, monkeypatch):
    """The features of a picture that is not looked at are made in one pass."""
    X, y, *_ = digits
    X, calls = X.copy(), []
    plain = _pictures.solve_with_hard_rows

    def counted(data, *args, **options):
        calls.append(data.X.shape[0])
        return plain(data, *args, **options)

    monkeypatch.setattr(_pictures, "solve_with_hard_rows", counted)
    PatchKernelClassifier(**FIXED, n_representatives=60).fit(X, y)
    assert calls == [220, 400]  # three for each representative, and the unseen


def test_pictures_that_judge_are_no_representatives(digits, few_columns):
    X, y, *_ = digits
    X = X.copy()
    X[:, 0] = np.arange(400) % 17  # no two pictures are equal
    model = PatchKernelClassifier(**FIXED, n_representatives=60)
    found = model._learn
    models = []
    model._learn = lambda problem: models.append(found(problem)) or models[0]
    model.fit(X, y)
    assert not set(models[0].unseen_rows) & set(models[0].rows)
    assert_array_equal(X[models[0].rows], model.X_fit_)
    assert len(models[0].solution.loo_decision) == 40


def test_features_of_the_same_pictures_are_made_once(digits, monkeypatch):
    X, y, *_ = digits
    plain = PatchKernelClassifier(**FIXED).fit(X[:100], y[:100]).kernel_
    kernel = KeepingPatchKernel(plain.how, plain.parts, plain.gamma, 2**28)
    made = []
    monkeypatch.setattr(
        KeepingPatchKernel,
        "all_blocks_of",
        lambda self, Y, *args: made.append(len(Y)) or plain.all_blocks_of(Y, *args),
    )
    Y, Z = X[:60], X[60:90]
    for start in (100, 180, 260):
        block = X[start : start + 80]
        assert_allclose(kernel(block, Y), plain(block, Y), rtol=1e-5)
    assert_allclose(kernel(X[100:120], Z), plain(X[100:120], Z), rtol=1e-5)
    assert made == [60, 30]
    assert_allclose(kernel(Y), plain(Y), rtol=1e-5)


def test_a_memory_map_of_many_pictures_is_fitted_within_the_budget(tmp_path):
    """Features, and the matrix of all, have more bytes than the fit may take."""
    n, budget, shape = 3000, 8 * 2**20, (10, 10)
    y, rng = np.arange(n) % 2, np.random.default_rng(0)
    path = tmp_path / "pictures.npy"
    file = np.lib.format.open_memmap(path, "w+", np.uint8, shape=(n, 100))
    file[:] = rng.integers(0, 256, size=(n, 100))
    file.reshape(n, *shape)[y == 1, :, ::2] //= 8  # stripes
    X = np.load(path, mmap_mode="r")
    model = PatchKernelClassifier(
        64, 4, image_shape=shape, gamma=0.5, C=10.0, mirror=False,
        memory_budget=budget, random_state=0,
    )  # fmt: skip
    dictionary = PatchDictionary(64, 4, image_shape=shape, random_state=0).fit(X)
    model._dictionary_class = lambda *args, **kwargs: dictionary
    dictionary.fit = lambda X: dictionary  # the draw of patches is not measured
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.solver_ == "normal_equations"
    assert len(model.X_fit_) > 100
    assert 4 * n * 2 * 9 * 64 > 1.5 * budget
    assert peak < budget
    assert model.score(X[:200], y[:200]) > 0.95
