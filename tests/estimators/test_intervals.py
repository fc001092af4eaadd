"""Laws of prediction intervals: they are those of n refits."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from kaucus import (
    KMeansKernelRegressor,
    LSSVMRegressor,
    PatchKernelRegressor,
)
from tests.arrays import array, assert_close
from tests.conftest import namespace
from tests.reference import conformal as reference
from tests.reference import low_rank

LEVELS = [0.6, 0.8, 0.9]
LITERAL = {
    "plus": reference.jackknife_plus,
    "minmax": reference.jackknife_minmax,
    "naive": lambda models, e, level: reference.jackknife(models.all_rows, e, level),
}


def data(n=24, t=1, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.sin(2 * X[:, :1]) + 0.3 * rng.normal(size=(n, t))
    return X, (Y[:, 0] if t == 1 else Y), rng.normal(size=(5, d))


class Models(np.ndarray):
    """Predictions of leave-one-out models, and of the model of all rows."""

    all_rows = None


def refitted_intervals(predictions, f, own, Y, levels, method):
    """Return (b, 2, levels, t) from f⁽⁻ⁱ⁾(x) (n, b, t), f (b, t), f⁽⁻ⁱ⁾(xᵢ) (n, t)."""
    e = Y - own
    ends = np.empty((f.shape[0], 2, len(levels), f.shape[1]))
    for x, level, j in np.ndindex(f.shape[0], len(levels), f.shape[1]):
        models = predictions[:, x, j].view(Models)
        models.all_rows = f[x, j]
        ends[x, :, level, j] = LITERAL[method](models, e[:, j], levels[level])
    return ends


def by_refits(model, X, y, new, levels, method):
    """Fit the estimator n times, each time without a row."""
    n, Y = len(X), y.reshape(len(X), -1)
    fits = [
        clone(model).fit(np.delete(X, i, axis=0), np.delete(y, i, axis=0))
        for i in range(n)
    ]
    predictions = np.stack([fit.predict(new).reshape(len(new), -1) for fit in fits])
    own = np.stack([fits[i].predict(X[i : i + 1]).ravel() for i in range(n)])
    f = clone(model).fit(X, y).predict(new).reshape(len(new), -1)
    return refitted_intervals(predictions, f, own, Y, levels, method)


def by_least_squares(model, X, y, new, levels, method):
    """Solve the least squares on the model's representatives n times."""
    Z, Y = model.representatives_, y.reshape(len(X), -1)
    K, K_mm, K_new = model.kernel_(X, Z), model.kernel_(Z), model.kernel_(new, Z)

    def fit(weight):
        return low_rank.solve_on_representatives(K, K_mm, Y, model.C_, weight)

    ones = np.ones(len(X))
    fits = reference.left_out_models(fit, ones)
    predictions = np.stack([K_new @ a + b for a, b in fits])
    own = np.stack([K[i] @ a + b for i, (a, b) in enumerate(fits)])
    a, b = fit(ones)
    return refitted_intervals(predictions, K_new @ a + b, own, Y, levels, method)


# ---- equal to refits -----------------------------------------------------------------


@pytest.mark.parametrize("method", ["plus", "naive", "minmax"])
@pytest.mark.parametrize("t", [1, 2])
def test_intervals_are_those_of_refits(method, t):
    X, y, new = data(t=t)
    model = LSSVMRegressor(C=5.0, gamma=0.5).fit(X, y)
    expected = by_refits(model, X, y, new, LEVELS, method)
    got = model.predict_interval(new, LEVELS, method)
    assert got.shape == ((5, 2, 3) if t == 1 else (5, 2, 3, 2))
    assert_close(got.reshape(5, 2, 3, t), expected, atol=1e-9)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(9, 15),
    log_C=st.floats(-2, 3),
    gamma=st.floats(0.05, 5.0),
)
@settings(max_examples=15)
def test_any_small_problem(seed, n, log_C, gamma):
    X, y, new = data(n, seed=seed)
    model = LSSVMRegressor(C=10**log_C, gamma=gamma).fit(X, y)
    expected = by_refits(model, X, y, new, LEVELS, "plus")[..., 0]
    assert_close(model.predict_interval(new, LEVELS), expected, atol=1e-7)


@pytest.mark.parametrize("method", ["plus", "naive", "minmax"])
@pytest.mark.parametrize("refine", [None, 4])
@pytest.mark.parametrize("t", [1, 2])
def test_intervals_on_representatives_are_those_of_refits(method, refine, t):
    X, y, new = data(60, t=t)
    model = KMeansKernelRegressor(
        6, refine=refine, C=5.0, kernel="rbf", gamma=0.5, random_state=0
    ).fit(X, y)
    assert model.solver_ == "normal_equations"
    expected = by_least_squares(model, X, y, new, LEVELS, method)
    got = model.predict_interval(new, LEVELS, method).reshape(5, 2, 3, t)
    assert_close(got, expected, atol=1e-7)


def test_rows_held_out_during_the_fit_count_in_the_end():
    X, y, new = data(400)
    model = KMeansKernelRegressor(
        20, refine="auto", C=5.0, kernel="rbf", gamma=2.0, random_state=0
    ).fit(X, y)
    expected = by_least_squares(model, X, y, new, LEVELS, "plus")[..., 0]
    assert_close(model.predict_interval(new, LEVELS), expected, atol=1e-5)


def test_a_model_of_every_row_is_the_ls_svm():
    X, y, new = data(30)
    options = {"C": 5.0, "kernel": "rbf", "gamma": 0.5}
    model = KMeansKernelRegressor(50, random_state=0, **options).fit(X, y)
    expected = LSSVMRegressor(**options).fit(X, y).predict_interval(new)
    assert_close(model.predict_interval(new), expected, atol=1e-8)


def test_a_search_has_the_intervals_of_what_it_chose():
    X, y, new = data(40)
    model = LSSVMRegressor("auto", gamma=0.5).fit(X, y)
    plain = LSSVMRegressor(C=model.C_, gamma=0.5).fit(X, y)
    assert_close(model.predict_interval(new), plain.predict_interval(new), atol=1e-8)


def test_a_learned_metric_has_intervals():
    X, y, new = data(80)
    model = KMeansKernelRegressor(8, C=5.0, kernel="rbf", learn_metric=True)
    model.set_params(random_state=0).fit(X, y)
    expected = by_least_squares(model, X, y, new, LEVELS, "plus")[..., 0]
    assert_close(model.predict_interval(new, LEVELS), expected, atol=1e-6)


# ---- kinds of rows -------------------------------------------------------------------


REGRESSORS = [
    LSSVMRegressor(C=5.0, gamma=0.5),
    LSSVMRegressor("auto", gamma=0.5),
    KMeansKernelRegressor(6, C=5.0, kernel="rbf", gamma=0.5, random_state=0),
]
each = pytest.mark.parametrize("model", REGRESSORS, ids=lambda m: type(m).__name__)


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_results_follow_X(model, library, dtype):
    xp = namespace(library)
    X, y, new = data(40, t=2)
    expected = clone(model).fit(X, y).predict_interval(new, LEVELS)
    fitted = clone(model).fit(array(xp, X, dtype), array(xp, y, dtype))
    got = fitted.predict_interval(array(xp, new, dtype), LEVELS)
    assert type(got) is type(array(xp, new))
    assert got.dtype == xp.float64
    assert_close(got, expected, atol=1e-4 if dtype == "float32" else 1e-9)
    mean, std = fitted.predict(array(xp, new, dtype), return_std=True)
    assert type(std) is type(mean)
    assert std.dtype == mean.dtype == xp.float64
    assert std.shape == mean.shape


@each
def test_rows_of_another_library_than_those_of_fit(model):
    xp = namespace("torch")
    X, y, new = data(40)
    fitted = clone(model).fit(X, y)
    got = fitted.predict_interval(array(xp, new))
    assert_close(got, fitted.predict_interval(new), atol=1e-9)


@each
def test_sparse_rows_are_as_good(model):
    X, y, new = data(40)
    expected = clone(model).fit(X, y).predict_interval(new)
    fitted = clone(model).fit(scipy.sparse.csr_array(X), y)
    got = fitted.predict_interval(scipy.sparse.csr_array(new))
    assert_close(got, expected, atol=1e-6)


@each
def test_dask_rows_give_lazy_intervals(model):
    da = pytest.importorskip("dask.array")
    X, y, _ = data(40)
    new = np.random.default_rng(2).normal(size=(30, 2))
    fitted = clone(model).fit(X, y)
    lazy = fitted.predict_interval(da.from_array(new, chunks=(8, 2)), LEVELS)
    mean, std = fitted.predict(da.from_array(new, chunks=(8, 2)), return_std=True)
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (30, 2, 3)
    assert_close(lazy.compute(scheduler="sync"), fitted.predict_interval(new, LEVELS))
    expected = fitted.predict(new, return_std=True)
    assert_close(mean.compute(scheduler="sync"), expected[0])
    assert_close(std.compute(scheduler="sync"), expected[1])


def test_rows_of_a_dask_fit_can_be_left_out():
    da = pytest.importorskip("dask.array")
    X, y, new = data(60)
    model = REGRESSORS[2]
    expected = clone(model).fit(X, y).predict_interval(new)
    fitted = clone(model).fit(da.from_array(X, chunks=(20, 2)), y)
    assert_close(fitted.predict_interval(new), expected, atol=1e-6)


def test_some_rows_of_batches_are_left_out_of_a_model_of_all(monkeypatch):
    from kaucus.solvers import _left_out as core

    monkeypatch.setattr(core, "_SOURCE_ROWS", 25)
    X, y, new = data(60)
    weight = 1.0 + np.arange(60) % 3
    fitted = clone(REGRESSORS[2]).fit_batches(
        lambda: ((X[s], y[s], weight[s]) for s in (slice(0, 35), slice(35, 60)))
    )
    assert fitted.predict_interval(new).shape == (5, 2)
    some = fitted._left_out_models().left_out
    everyone = clone(REGRESSORS[2]).fit(X, y, sample_weight=weight)
    expected = everyone._left_out_models().left_out
    assert len(np.unique(some.numbers)) == 25
    assert_close(some.residuals, expected.residuals[some.numbers], atol=1e-6)


def test_a_given_matrix_has_intervals():
    X, y, new = data()
    rows = LSSVMRegressor(C=5.0, gamma=0.5).fit(X, y)
    matrix = LSSVMRegressor(C=5.0, kernel="precomputed").fit(rows.kernel_(X), y)
    got = matrix.predict_interval(rows.kernel_(new, X))
    assert_close(got, rows.predict_interval(new), atol=1e-9)
    with pytest.raises(ValueError, match="precomputed"):
        matrix.predict(rows.kernel_(new, X), return_std=True)


@each
def test_blocks_change_nothing(model, monkeypatch):
    from kaucus.estimators import _predict

    X, y, _ = data(40)
    new = np.random.default_rng(2).normal(size=(30, 2))
    fitted = clone(model).fit(X, y)
    expected = fitted.predict_interval(new, LEVELS)
    monkeypatch.setattr(_predict, "_BLOCK_BYTES", 20_000)
    assert_close(fitted.predict_interval(new, LEVELS), expected, atol=1e-12)
    monkeypatch.undo()
    small = clone(model).set_params(memory_budget="100KiB").fit(X, y)
    assert_close(small.predict_interval(new, LEVELS), expected, atol=1e-9)


# ---- standard deviations -------------------------------------------------------------


@pytest.mark.parametrize("t", [1, 2])
def test_standard_deviations_are_those_of_a_gaussian_process(t):
    """With an intercept whose prior is flat, and the scale of most likelihood."""
    X, y, new = data(30, t=t)
    C, gamma, flat = 5.0, 0.5, 1e5
    model = LSSVMRegressor(C=C, gamma=gamma).fit(X, y)
    kernel = RBF((2 * gamma) ** -0.5) + ConstantKernel(flat)
    process = GaussianProcessRegressor(kernel, alpha=1 / C, optimizer=None)
    process.fit(X, y.reshape(30, -1)[:, 0])
    mean, std = process.predict(new, return_std=True)
    Y = y.reshape(30, t)
    scale = np.sum(Y * model.dual_coef_, axis=0) / 30
    ours, deviations = model.predict(new, return_std=True)
    assert_close(ours.reshape(5, t)[:, 0], mean, atol=1e-3)
    expected = std[:, None] * np.sqrt(scale)
    assert_close(deviations.reshape(5, t), expected, rtol=1e-4)


@each
def test_far_away_nothing_is_known(model):
    X, y, new = data(40)
    fitted = clone(model).fit(X, y)
    _, near = fitted.predict(X, return_std=True)
    _, far = fitted.predict(new + 100, return_std=True)
    assert far.min() > near.max()


@each
def test_predict_without_std_is_as_before(model):
    X, y, new = data(40)
    fitted = clone(model).fit(X, y)
    assert isinstance(fitted.predict(new), np.ndarray)
    assert np.array_equal(fitted.predict(new), fitted.predict(new, return_std=True)[0])
    with pytest.raises(ValueError, match="return_std='yes'"):
        fitted.predict(new, return_std="yes")


# ---- split ---------------------------------------------------------------------------


@each
@pytest.mark.parametrize("t", [1, 2])
def test_split_is_a_quantile_of_residuals_of_rows_held_out(model, t):
    X, y, new = data(60, t=t)
    fitted = clone(model).fit(X[:40], y[:40]).conformalize(X[40:], y[40:])
    got = fitted.predict_interval(new, LEVELS, "split").reshape(5, 2, 3, t)
    f, e = fitted.predict(new), y[40:] - fitted.predict(X[40:])
    f, e = f.reshape(5, t), e.reshape(20, t)
    for x, level, j in np.ndindex(5, 3, t):
        expected = reference.jackknife(f[x, j], e[:, j], LEVELS[level])
        assert_close(got[x, :, level, j], expected)


def test_split_needs_rows_and_a_fit_forgets_them():
    X, y, new = data()
    model = LSSVMRegressor().fit(X, y)
    with pytest.raises(ValueError, match="conformalize"):
        model.predict_interval(new, method="split")
    model.conformalize(X, y).predict_interval(new, method="split")
    with pytest.raises(ValueError, match="conformalize"):
        model.fit(X, y).predict_interval(new, method="split")


@each
@pytest.mark.parametrize("t", [1, 2])
def test_split_takes_predictions_of_another_model(model, t):
    X, y, new = data(60, t=t)
    other = clone(model).fit(X[:40], y[:40])
    fitted = clone(model).fit(X, y)
    fitted.conformalize(X[40:], y[40:], other.predict(X[40:]))
    got = fitted.predict_interval(new, LEVELS, "split")
    widths = other.conformalize(X[40:], y[40:]).predict_interval(new, LEVELS, "split")
    f = fitted.predict(new) - other.predict(new)
    assert_close(got, widths + f.reshape(5, 1, 1, *([t] if t > 1 else [])))


def test_predictions_given_for_split_are_finite_and_fit():
    X, y, _ = data()
    model = LSSVMRegressor().fit(X, y)
    assert not model.is_conformalized_
    with pytest.raises(ValueError, match=r"\[nan\] in row 3"):
        model.conformalize(X, y, np.where(np.arange(len(y)) == 3, np.nan, y))
    with pytest.raises(ValueError, match="and the predictions 5 and 1"):
        model.conformalize(X, y, y[:5])
    assert model.conformalize(X, y, y).is_conformalized_
    assert not model.fit(X, y).is_conformalized_


def test_rows_held_out_have_as_many_outputs():
    X, y, _ = data(t=2)
    model = LSSVMRegressor().fit(X, y)
    with pytest.raises(ValueError, match="1 outputs"):
        model.conformalize(X, y[:, 0])


# ---- where there are none ------------------------------------------------------------


def iterative(solver):
    def fit(X, y):
        return LSSVMRegressor(solver=solver, random_state=0).fit(X, y)

    return fit


def compressed(X, y):
    return clone(REGRESSORS[2]).fit(X, y).compress(0.01)


def loaded(X, y):
    return pickle.loads(pickle.dumps(clone(REGRESSORS[2]).fit(X, y)))


@pytest.mark.parametrize(
    ("fit", "reason"),
    [
        (iterative("cg"), "solver='cg'"),
        (iterative("block_descent"), "solver='block_descent'"),
        (lambda X, y: clone(REGRESSORS[2]).partial_fit(X, y), "partial_fit"),
        (compressed, "compressed"),
        (loaded, "training rows"),
    ],
)
def test_models_without_leave_one_out_say_what_to_do(fit, reason):
    X, y, new = data(60)
    model = fit(X, y)
    for ask in (
        lambda: model.predict_interval(new),
        lambda: model.predict(new, return_std=True),
    ):
        with pytest.raises(ValueError, match=reason) as error:
            ask()
        assert "method='split'" in str(error.value)
    model.conformalize(X, y)
    assert model.predict_interval(new, method="split").shape == (5, 2)


def test_many_training_rows_are_not_kept_from_being_freed(monkeypatch):
    X, y, new = data(60)
    monkeypatch.setattr("kaucus.estimators._predict._MOST_KEPT", X.nbytes - 1)
    model = clone(REGRESSORS[2]).fit(X, y)
    assert model._training is None
    with pytest.raises(ValueError, match=r"training rows take .* keeps no more than"):
        model.predict_interval(new)


def test_a_file_of_a_model_is_as_small_as_before():
    X, y, new = data(500)
    model = clone(REGRESSORS[2]).fit(X, y)
    before = len(pickle.dumps(model))
    model.predict_interval(new)
    assert len(pickle.dumps(model)) == before < X.nbytes


def test_a_loaded_ls_svm_has_its_intervals():
    X, y, new = data()
    model = LSSVMRegressor(gamma=0.5).fit(X, y, sample_weight=np.arange(24) % 3)
    expected = model.predict_interval(new)
    loaded = pickle.loads(pickle.dumps(model))
    assert_close(loaded.predict_interval(new), expected, atol=1e-12)


# ---- arguments -----------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1, 1.5, "0.9", [], [0.5, 2], np.nan, None])
def test_levels_are_between_0_and_1(level):
    X, y, new = data()
    with pytest.raises(ValueError, match="confidence_level="):
        LSSVMRegressor().fit(X, y).predict_interval(new, level)


@each
def test_an_estimator_must_be_fitted(model):
    for ask in (
        lambda new: clone(model).predict_interval(new),
        lambda new: clone(model).predict(new, return_std=True),
        lambda new: clone(model).conformalize(new, new[:, 0]),
    ):
        with pytest.raises(NotFittedError):
            ask(data()[2])


@each
def test_rows_are_checked_before_the_models_are_made(model):
    X, y, new = data(40)
    fitted = clone(model).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        fitted.predict_interval(new[:, :1])
    assert fitted._left_out is None


def test_targets_may_change_after_the_fit():
    X, y, new = data()
    expected = LSSVMRegressor(gamma=0.5).fit(X, y).predict_interval(new)
    weight, own = np.ones(24), y.copy()
    model = LSSVMRegressor(gamma=0.5).fit(X, own, sample_weight=weight)
    own[:], weight[:] = 0.0, 5.0
    assert_close(model.predict_interval(new), expected, atol=1e-12)


def test_methods_are_named():
    X, y, new = data()
    with pytest.raises(ValueError, match="method='base' must be one of"):
        LSSVMRegressor().fit(X, y).predict_interval(new, method="base")


@pytest.mark.parametrize("method", ["plus", "naive", "minmax", "split"])
def test_a_level_needs_rows(method):
    X, y, new = data(18)
    model = LSSVMRegressor(gamma=0.5).fit(X, y).conformalize(X, y)
    model.predict_interval(new, 0.94, method)
    with pytest.raises(ValueError, match="at least 19 rows"):
        model.predict_interval(new, 0.95, method)


def test_intervals_of_higher_levels_hold_those_of_lower():
    X, y, new = data(60)
    model = LSSVMRegressor(gamma=0.5).fit(X, y)
    for method in ("plus", "naive", "minmax"):
        ends = model.predict_interval(new, [0.5, 0.7, 0.9], method)
        assert (np.diff(ends[:, 0], axis=1) <= 0).all()
        assert (np.diff(ends[:, 1], axis=1) >= 0).all()


def test_pictures_have_no_intervals_yet():
    assert not hasattr(PatchKernelRegressor, "predict_interval")


def test_the_intervals_are_those_of_mapie():
    mapie = pytest.importorskip("mapie.regression")
    from sklearn.model_selection import LeaveOneOut

    X, y, new = data(40)
    model = LSSVMRegressor(C=5.0, gamma=0.5).fit(X, y)
    for method in ("plus", "minmax"):
        theirs = mapie.CrossConformalRegressor(
            clone(model), confidence_level=LEVELS, cv=LeaveOneOut(), method=method
        ).fit_conformalize(X, y)
        _, expected = theirs.predict_interval(new)
        assert_close(model.predict_interval(new, LEVELS, method), expected, atol=1e-9)
