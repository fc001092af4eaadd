"""Laws of LSSVMClassifier and LSSVMRegressor."""

import importlib.util
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.utils.class_weight import compute_sample_weight

from kaucus import LSSVMClassifier, LSSVMRegressor
from kaucus.kernels import Gaussian, Polynomial
from kaucus.solvers._system import softmax
from tests.arrays import assert_to_rounding
from tests.reference.bordered import literal_eq_15, one_hot, rbf, solve_bordered

GAMMA = 0.4
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


@pytest.fixture
def three(rng):
    """Sixty rows of three classes."""
    X = rng.normal(size=(60, 4))
    return X, (X[:, 0] + 0.3 * rng.normal(size=60) > 0) + (X[:, 1] > 0.5).astype(int)


@pytest.fixture
def two(three):
    X, y = three
    return X, (y > 0).astype(int)


@pytest.fixture
def numbers(three, rng):
    X, _ = three
    return X, np.stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2], X.sum(axis=1)], axis=1)


def classifier(**params):
    return LSSVMClassifier(**{"gamma": GAMMA, "random_state": 0, **params})


def regressor(**params):
    return LSSVMRegressor(**{"gamma": GAMMA, "random_state": 0, **params})


def assert_same_model(a, b, X, rtol=1e-8, *, probabilities=True):
    assert_allclose(a.decision_function(X), b.decision_function(X), rtol, atol=1e-9)
    if probabilities:
        assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=1e-6, atol=1e-9)


# ---- the system ------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
def test_classifier_solves_the_bordered_system(three, C):
    X, y = three
    model = classifier(C=C).fit(X, y)
    A, b = solve_bordered(rbf(X, X, GAMMA), one_hot(y, [0, 1, 2], -1.0), C)
    assert_allclose(model.dual_coef_, A, rtol=1e-7, atol=1e-9)
    assert_allclose(model.intercept_, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
def test_regressor_solves_the_bordered_system(numbers, C):
    X, Y = numbers
    model = regressor(C=C).fit(X, Y)
    A, b = solve_bordered(rbf(X, X, GAMMA), Y, C)
    assert_allclose(model.dual_coef_, A, rtol=1e-7, atol=1e-8)
    assert_allclose(model.intercept_, b, rtol=1e-7, atol=1e-8)


def test_optimality_conditions(three):
    """Coefficients sum to zero, and residuals are a / C."""
    X, y = three
    model = classifier(C=3.0).fit(X, y)
    assert_allclose(model.dual_coef_.sum(axis=0), 0, atol=1e-10)
    residual = one_hot(y, [0, 1, 2], -1.0) - model.decision_function(X)
    assert_allclose(residual, model.dual_coef_ / 3.0, atol=1e-9)


def test_prediction_is_kernel_times_coefficients_plus_intercept(three, numbers, rng):
    new = rng.normal(size=(7, 4))
    X, y = three
    K = rbf(new, X, GAMMA)
    model = classifier().fit(X, y)
    expected = K @ model.dual_coef_ + model.intercept_
    assert_allclose(model.decision_function(new), expected, rtol=1e-9)
    assert_array_equal(model.predict(new), expected.argmax(axis=1))
    model = regressor().fit(*numbers)
    expected = K @ model.dual_coef_ + model.intercept_
    assert_allclose(model.predict(new), expected, rtol=1e-9)


# ---- classes ---------------------------------------------------------------------


def test_two_classes_have_one_column_whose_sign_is_the_second_class(two):
    X, y = two
    model = classifier(C=1e3).fit(X, y)
    assert model.dual_coef_.shape == (60, 1)
    assert model.intercept_.shape == (1,)
    values = model.decision_function(X)
    assert values.shape == (60,)
    assert_array_equal(model.predict(X), (values > 0).astype(int))
    assert np.corrcoef(values, y)[0, 1] > 0.9


def test_two_classes_are_half_of_the_system_of_two_columns(two):
    """The columns of one-vs-rest are f and −f: one of them is enough."""
    X, y = two
    A, b = solve_bordered(rbf(X, X, GAMMA), one_hot(y, [0, 1], -1.0), 1.0)
    model = classifier().fit(X, y)
    assert_allclose(A[:, 0], -A[:, 1], atol=1e-12)
    assert_allclose(model.dual_coef_[:, 0], A[:, 1], rtol=1e-7, atol=1e-10)
    assert_allclose(model.intercept_[0], b[1], rtol=1e-7)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["ant", "bee", "cat"]),
        np.array(["ant", "bee", "cat"], dtype=object),
        np.array([-5, 0, 7]),
        np.array([-1.0, 2.0, 3.0]),
        np.array([0, 1, 2], dtype=object),
    ],
    ids=lambda labels: f"{labels[0]}-{labels.dtype}",
)
def test_classes_are_sorted_labels_of_any_type(three, labels):
    X, y = three
    model = classifier().fit(X, labels[y])
    plain = classifier().fit(X, y)
    assert_array_equal(model.classes_, labels)
    assert_array_equal(model.predict(X), labels[plain.predict(X)])
    assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize("labels", [[False, True], [-1, 1], ["no", "yes"]])
def test_two_labels_of_any_type(two, labels):
    X, y = two
    labels = np.array(labels)
    model = classifier().fit(X, labels[y])
    assert_array_equal(model.classes_, labels)
    assert model.predict(X).dtype == labels.dtype
    # Later in the order of classes_ is the positive side.
    assert_array_equal(model.predict(X) == labels[1], model.decision_function(X) > 0)


def test_relabelling_permutes_the_columns(three):
    X, y = three
    backwards = classifier().fit(X, 2 - y).decision_function(X)
    assert_allclose(
        backwards[:, ::-1], classifier().fit(X, y).decision_function(X), rtol=1e-8
    )


# ---- probabilities ---------------------------------------------------------------


@pytest.mark.parametrize("probability", ["softmax", "sum_exp"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_probabilities(three, n_classes, probability):
    X, y = three
    y = np.minimum(y, n_classes - 1)
    model = classifier(probability=probability).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (60, n_classes)
    assert (p >= 0).all()
    assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert_allclose(np.exp(model.predict_log_proba(X)), p, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_softmax_never_contradicts_predict(three, n_classes, rng):
    X, y = three
    new = rng.normal(size=(500, 4))
    model = classifier().fit(X, np.minimum(y, n_classes - 1))
    largest = model.classes_[model.predict_proba(new).argmax(axis=1)]
    assert_array_equal(largest, model.predict(new))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sum_exp_is_the_printed_formula_with_targets_0_and_1(three, n_classes, rng):
    X, y = three
    y = np.minimum(y, n_classes - 1)
    new = rng.normal(size=(9, 4))
    Y = one_hot(y, np.arange(n_classes), 0.0)
    A, b = solve_bordered(rbf(X, X, GAMMA), Y, 10.0)
    expected = literal_eq_15(rbf(new, X, GAMMA), A, b)
    model = classifier(C=10.0, probability="sum_exp").fit(X, y)
    assert_allclose(model.predict_proba(new), expected, rtol=1e-8)


def test_the_printed_formula_can_contradict_predict():
    """Why softmax is the default."""
    X, y = make_moons(300, noise=0.3, random_state=0)
    model = LSSVMClassifier(C=10, gamma=2.0, probability="sum_exp").fit(X, y)
    assert (model.predict_proba(X).argmax(axis=1) != model.predict(X)).any()


def test_probability_false_hides_the_methods(three):
    model = classifier(probability=False).fit(*three)
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(model, name)
    assert not hasattr(model, "temperature_")
    with pytest.raises(AttributeError, match="predict_proba"):
        _ = model.predict_proba


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_temperature_makes_probabilities_truer(n_classes, seed):
    """Log-loss on rows never seen is less than that of the plain softmax."""
    X, y = make_classification(
        1200, 10, n_informative=5, n_classes=n_classes, flip_y=0.1, random_state=seed
    )
    model = LSSVMClassifier(C=1.0, random_state=0).fit(X[:400], y[:400])
    values = model.decision_function(X[400:])
    if n_classes == 2:
        values = np.stack([-values / 2, values / 2], axis=1)
    plain = log_loss(y[400:], softmax(values, 1.0))
    assert log_loss(y[400:], model.predict_proba(X[400:])) < 0.95 * plain


def test_the_temperature_is_near_the_best_one():
    X, y = make_moons(1500, noise=0.25, random_state=0)
    model = LSSVMClassifier(C=10.0, random_state=0).fit(X[:500], y[:500])
    values = model.decision_function(X[500:])
    values = np.stack([-values / 2, values / 2], axis=1)
    grid = np.geomspace(0.01, 10, 200)
    losses = [log_loss(y[500:], softmax(values, t)) for t in grid]
    assert log_loss(y[500:], model.predict_proba(X[500:])) < 1.1 * min(losses)


# ---- weights ---------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [GAMMA, "scale"])
def test_a_weight_of_two_is_a_row_twice(three, gamma):
    X, y = three
    twice = np.r_[np.arange(60), np.arange(0, 60, 3)]
    weight = np.bincount(twice).astype(float)
    weighted = classifier(gamma=gamma).fit(X, y, sample_weight=weight)
    repeated = classifier(gamma=gamma).fit(X[twice], y[twice])
    assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-9
    )


@pytest.mark.parametrize("gamma", [GAMMA, "scale"])
def test_a_weight_of_zero_is_no_row(three, gamma):
    X, y = three
    weight = np.ones(60)
    weight[::4] = 0
    weighted = classifier(gamma=gamma).fit(X, y, sample_weight=weight)
    without = classifier(gamma=gamma).fit(X[weight > 0], y[weight > 0])
    assert_same_model(weighted, without, X)
    assert_array_equal(weighted.dual_coef_[::4], 0)


def test_regression_weights_are_repeats(numbers):
    X, Y = numbers
    weight = np.arange(60) % 3.0
    rows = np.repeat(np.arange(60), weight.astype(int))
    weighted = regressor().fit(X, Y, sample_weight=weight)
    assert_allclose(
        weighted.predict(X), regressor().fit(X[rows], Y[rows]).predict(X), atol=1e-9
    )


def test_weights_are_those_of_the_bordered_system(three, rng):
    X, y = three
    weight = rng.uniform(0.2, 3, size=60)
    model = classifier(C=2.0).fit(X, y, sample_weight=weight)
    K, Y = rbf(X, X, GAMMA), one_hot(y, [0, 1, 2], -1.0)
    A, b = solve_bordered(K, Y, 2.0, weight)
    assert_allclose(model.dual_coef_, A, rtol=1e-7, atol=1e-9)
    assert_allclose(model.intercept_, b, rtol=1e-7, atol=1e-9)


def test_all_weights_equal_is_another_C(three):
    X, y = three
    weighted = classifier(C=2.0).fit(X, y, sample_weight=np.full(60, 3.0))
    other = classifier(C=6.0).fit(X, y)
    assert_same_model(weighted, other, X, probabilities=False)


def test_class_weights_are_row_weights(three):
    """Decision values; a class weight says what errors cost, not how many rows."""
    X, y = three
    for class_weight in ({0: 2.0, 2: 0.5}, "balanced"):
        by_class = classifier(class_weight=class_weight).fit(X, y)
        by_row = classifier().fit(
            X, y, sample_weight=compute_sample_weight(class_weight, y)
        )
        assert_same_model(by_class, by_row, X, probabilities=False)


def test_class_weights_multiply_row_weights(three, rng):
    X, y = three
    weight = rng.uniform(0.5, 2, size=60)
    by_class = {0: 2.0, 1: 1.0, 2: 0.5}
    both = classifier(class_weight=by_class).fit(X, y, sample_weight=weight)
    product = weight * np.array([by_class[label] for label in y])
    by_row = classifier().fit(X, y, sample_weight=product)
    assert_same_model(both, by_row, X, probabilities=False)


def test_class_weights_by_label(three):
    X, y = three
    names = np.array(["a", "b", "c"])
    by_name = classifier(class_weight={"a": 5.0}).fit(X, names[y])
    by_number = classifier(class_weight={0: 5.0}).fit(X, y)
    assert_allclose(by_name.dual_coef_, by_number.dual_coef_, rtol=1e-12)


# ---- one kernel, many ways to say it ---------------------------------------------


def test_a_precomputed_matrix_is_the_kernel_by_name(three, numbers, rng):
    new = rng.normal(size=(7, 4))
    X, y = three
    K, K_new = rbf(X, X, GAMMA), rbf(new, X, GAMMA)
    named = classifier().fit(X, y)
    given = classifier(kernel="precomputed").fit(K, y)
    assert_allclose(given.decision_function(K_new), named.decision_function(new))
    assert_allclose(given.predict_proba(K_new), named.predict_proba(new), rtol=1e-6)
    assert given.kernel_ is None
    assert not hasattr(given, "X_fit_")
    assert_allclose(
        regressor(kernel="precomputed").fit(K, numbers[1]).predict(K_new),
        regressor().fit(*numbers).predict(new),
        rtol=1e-7,
    )


def test_sum_exp_of_a_precomputed_matrix(three):
    X, y = three
    K = rbf(X, X, GAMMA)
    given = classifier(kernel="precomputed", probability="sum_exp").fit(K, y)
    named = classifier(probability="sum_exp").fit(X, y)
    assert_allclose(given.predict_proba(K), named.predict_proba(X), rtol=1e-8)


def test_a_function_is_the_kernel_by_name(three):
    X, y = three
    named = classifier(kernel="laplacian").fit(X, y)

    def function(A, B):
        return laplacian_kernel(A, B, gamma=GAMMA)

    assert_same_model(classifier(kernel=function).fit(X, y), named, X)


def test_an_object_is_the_kernel_by_name(three):
    X, y = three
    pairs = [
        ({"kernel": Gaussian(gamma=GAMMA), "gamma": 99.0}, {"kernel": "rbf"}),
        (
            {"kernel": Polynomial(degree=2, gamma=GAMMA, coef0=1.0)},
            {"kernel": "poly", "degree": 2, "coef0": 1.0},
        ),
    ]
    for as_object, by_name in pairs:
        assert_same_model(
            classifier(**as_object).fit(X, y), classifier(**by_name).fit(X, y), X
        )


def test_gamma_scale_and_auto_are_those_of_scikit_learn(three):
    X, y = three
    assert classifier(gamma="scale").fit(X, y).kernel_.gamma == pytest.approx(
        1 / (4 * X.var())
    )
    assert classifier(gamma="auto").fit(X, y).kernel_.gamma == 0.25


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "cosine"])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_sparse_rows_are_dense_rows(three, numbers, kind, kernel, solver):
    X, y = three
    X = np.where(np.abs(X) > 0.8, X, 0)
    params = {"kernel": kernel, "gamma": "scale", "solver": solver, "tol": 1e-12}
    sparse = classifier(**params).fit(kind(X), y)
    dense = classifier(**params).fit(X, y)
    assert scipy.sparse.issparse(sparse.X_fit_)
    assert_same_model(sparse, dense, X, 1e-6)
    assert_allclose(sparse.decision_function(kind(X)), dense.decision_function(X), 1e-6)
    assert_allclose(
        regressor(**params).fit(kind(X), numbers[1]).predict(kind(X)),
        regressor(**params).fit(X, numbers[1]).predict(X),
        rtol=1e-6,
        atol=1e-8,
    )


# ---- precision -------------------------------------------------------------------


def test_float32_agrees_with_float64_and_stays_float32(three, numbers):
    X, y = three
    small = X.astype(np.float32)
    a, b = classifier().fit(small, y), classifier().fit(X, y)
    assert a.X_fit_.dtype == np.float32
    for method in ("decision_function", "predict_proba"):
        given = getattr(a, method)(small)
        assert given.dtype == np.float32
        assert_allclose(given, getattr(b, method)(X), atol=2e-5)
    a, b = regressor().fit(small, numbers[1]), regressor().fit(*numbers)
    assert a.predict(small).dtype == np.float64
    assert_allclose(a.predict(small), b.predict(X), atol=5e-5)


@pytest.mark.parametrize("probability", ["softmax", "sum_exp"])
def test_precisions_may_be_mixed(three, probability):
    X, y = three
    wide = classifier(probability=probability).fit(X, y)
    narrow = wide.predict_proba(X.astype(np.float32))
    assert narrow.dtype == np.float32
    assert_allclose(narrow, wide.predict_proba(X), atol=1e-5)
    small = classifier(probability=probability).fit(X.astype(np.float32), y)
    assert small.predict_proba(X).dtype == np.float64


def test_integers_are_numbers(three):
    X, y = three
    X = np.round(3 * X)
    a, b = classifier().fit(X.astype(np.int64), y), classifier().fit(X, y)
    assert_same_model(a, b, X)


# ---- regression ------------------------------------------------------------------


def test_many_outputs_are_separate_fits(numbers):
    X, Y = numbers
    together = regressor().fit(X, Y).predict(X)
    alone = [regressor().fit(X, column).predict(X) for column in Y.T]
    assert together.shape == (60, 3)
    assert_allclose(together, np.stack(alone, axis=1), rtol=1e-8, atol=1e-10)


def test_the_shape_of_y_is_the_shape_of_the_prediction(numbers):
    X, Y = numbers
    assert regressor().fit(X, Y[:, 0]).predict(X).shape == (60,)
    assert regressor().fit(X, Y[:, :1]).predict(X).shape == (60, 1)


def test_a_constant_added_to_y_is_added_to_the_prediction(numbers):
    X, Y = numbers
    model, shifted = regressor().fit(X, Y), regressor().fit(X, Y + 1e3)
    assert_allclose(shifted.predict(X), model.predict(X) + 1e3, rtol=1e-9)
    assert_allclose(shifted.dual_coef_, model.dual_coef_, atol=1e-9)


def test_a_constant_is_learned_exactly(three):
    X, _ = three
    assert_allclose(regressor(C=1e-3).fit(X, np.full(60, 7.0)).predict(-X), 7.0)


# ---- solvers, memory, devices ----------------------------------------------------


def test_conjugate_gradients_find_the_same_model(three, numbers):
    X, y = three
    exact = classifier(solver="cholesky", C=10.0).fit(X, y)
    # The temperature is fitted on held-out rows there, on left-out ones here.
    steps = classifier(solver="cg", tol=1e-10, C=10.0).fit(X, y)
    assert_same_model(exact, steps, X, 1e-6, probabilities=False)
    assert (exact.solver_, steps.solver_) == ("cholesky", "cg")
    assert steps.n_iter_ >= 1
    assert_allclose(
        regressor(solver="cg", tol=1e-10).fit(*numbers).predict(X),
        regressor(solver="cholesky").fit(*numbers).predict(X),
        atol=1e-6,
    )


def test_a_small_memory_budget_means_conjugate_gradients(three):
    X, y = three
    needed = 8 * 60 * 60
    assert classifier(memory_budget=needed).fit(X, y).solver_ == "cholesky"
    streamed = classifier(memory_budget=needed - 1, tol=1e-5).fit(X, y)
    assert streamed.solver_ == "cg"
    exact = classifier().fit(X, y)
    assert_same_model(streamed, exact, X, 1e-3, probabilities=False)


def test_cholesky_beyond_the_budget_is_refused_before_work(three):
    with pytest.raises(MemoryError, match=r"28\.1 KiB.*1000 B; use solver='cg'"):
        classifier(solver="cholesky", memory_budget=1000).fit(*three)


def test_device_cpu_is_device_none(three):
    X, y = three
    a, b = classifier(device="cpu").fit(X, y), classifier().fit(X, y)
    assert_same_model(a, b, X)
    assert isinstance(a.dual_coef_, np.ndarray)


@needs_torch
def test_a_device_that_is_not_there_is_named(three):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ValueError, match=r"device='cuda'.* sees no CUDA device; use"):
        classifier(device="cuda").fit(*three)


@needs_torch
def test_an_unknown_device_is_named(three):
    with pytest.raises(ValueError, match="device='abacus' is not a device"):
        classifier(device="abacus").fit(*three)


def test_a_device_without_torch_says_what_to_install(three, monkeypatch):
    import kaucus._array

    monkeypatch.delattr(kaucus._array, "on_torch", raising=False)
    monkeypatch.setitem(sys.modules, "kaucus._array.on_torch", None)
    with pytest.raises(ImportError, match=r"device='cuda' needs torch.*kaucus\[torch"):
        classifier(device="cuda").fit(*three)


def test_sparse_rows_stay_on_the_cpu(three):
    X, y = three
    with pytest.raises(ValueError, match=r"device='cuda' takes dense.*toarray"):
        classifier(device="cuda").fit(scipy.sparse.csr_array(X), y)


@pytest.mark.gpu
@needs_torch
def test_the_gpu_finds_the_same_model(three):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    X, y = three
    on_gpu, on_cpu = classifier(device="cuda").fit(X, y), classifier().fit(X, y)
    assert isinstance(on_gpu.dual_coef_, np.ndarray)
    assert_same_model(on_gpu, on_cpu, X, 1e-6)


# ---- randomness and noise --------------------------------------------------------


@pytest.mark.parametrize("seed", [0, np.random.RandomState, np.random.default_rng])
def test_the_same_seed_gives_the_same_bits(three, seed):
    X, y = three
    fits = [
        classifier(
            solver="cg", random_state=seed if isinstance(seed, int) else seed(3)
        ).fit(X, y)
        for _ in range(2)
    ]
    assert_to_rounding(fits[0].dual_coef_, fits[1].dual_coef_)
    assert fits[0].temperature_ == fits[1].temperature_


def test_the_global_generator_is_left_alone(three):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    classifier(random_state=None, solver="cg").fit(*three)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_verbose_writes_lines_into_a_log(three, solver, capsys):
    classifier(verbose=1, solver=solver).fit(*three)
    out, err = capsys.readouterr()
    assert out == ""
    *steps, told = err.splitlines()
    word = {"cholesky": "factored", "cg": "conjugate gradients"}[solver]
    assert told.startswith("[kaucus] 60 rows")
    assert word in told
    assert len(steps) == (solver == "cg")  # one for all of them
    assert "\r" not in err


def test_silent_by_default(three, capsys):
    classifier().fit(*three)
    assert capsys.readouterr() == ("", "")


def test_verbose_draws_a_bar_on_a_terminal(three, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    classifier(verbose=1, solver="cg").fit(*three)
    assert "\r[kaucus] █" in capsys.readouterr().err.replace("·", "█")


def test_too_few_steps_are_told(three):
    X, y = three
    with pytest.warns(ConvergenceWarning, match=r"cg stopped.*Increase max_iter"):
        model = classifier(solver="cg", C=1e6, max_iter=1, tol=1e-13).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_a_block_of_rows_without_weight_is_a_step(rng):
    """In blocks of one row, the second system begins with a row that is held out."""
    X = rng.normal(size=(60, 1))
    given = {"block_size": 1, "n_runs": 2, "max_iter": 1, "random_state": 0}
    model = LSSVMClassifier(solver="block_descent", **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, X[:, 0] > 0)
    assert np.isfinite(model.predict_proba(X)).all()
