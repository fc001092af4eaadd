"""LS-SVMs by random blocks: the exact model, and what a user sees of the way to it."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from kaucus import LSSVMClassifier, LSSVMRegressor
from kaucus.solvers._blocks import RANDOMIZED

ITERATIVE = [solver for solver in RANDOMIZED if solver != "nystrom"]
each_solver = pytest.mark.parametrize("solver", RANDOMIZED)
each_iterative = pytest.mark.parametrize("solver", ITERATIVE)


@pytest.fixture
def three(rng):
    """Three classes that overlap, 90 rows."""
    X = rng.normal(size=(90, 3))
    y = np.repeat(["a", "b", "c"], 30)
    X[y == "b", 0] += 1.5
    X[y == "c", 1] += 1.5
    return X, y


def classifier(solver, **params):
    defaults = {"C": 5.0, "gamma": 1.0, "block_size": 45, "random_state": 0}
    return LSSVMClassifier(solver=solver, **{**defaults, **params})


def few_steps(solver, n, **params):
    """Make a model that is stopped, and does not warn of it."""
    return classifier(solver, callback=lambda step, state: step >= n, **params)


@each_iterative
def test_the_model_is_the_exact_one(three, solver):
    X, y = three
    exact = classifier("cholesky").fit(X, y)
    model = classifier(solver, tol=1e-10, max_iter=3000).fit(X, y)
    assert model.solver_ == solver
    assert_allclose(model.dual_coef_, exact.dual_coef_, atol=1e-6)
    assert_allclose(model.intercept_, exact.intercept_, atol=1e-6)
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-6)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    # Fitted on rows that are held out together, the same as for conjugate gradients.
    by_products = classifier("cg", tol=1e-10).fit(X, y)
    assert model.temperature_ == pytest.approx(by_products.temperature_, rel=1e-5)


@each_iterative
def test_a_regressor_of_two_outputs_with_weights(three, solver, rng):
    X, _ = three
    Y = np.stack([np.sin(X[:, 0]), X[:, 1] + 3], axis=1)
    weight = rng.choice([0.0, 1.0, 2.0], size=len(X))
    common = {"C": 5.0, "gamma": 1.0, "random_state": 0}
    exact = LSSVMRegressor(solver="cholesky", **common).fit(X, Y, weight)
    model = LSSVMRegressor(
        solver=solver, tol=1e-10, max_iter=3000, block_size=45, **common
    ).fit(X, Y, weight)
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-6)


def test_a_committee_of_one_with_all_rows_is_the_exact_model(three):
    X, y = three
    exact = classifier("cholesky").fit(X, y)
    model = classifier("nystrom", block_size=90).fit(X, y)
    assert_allclose(model.dual_coef_, exact.dual_coef_, atol=1e-8)


def test_a_committee_of_parts_is_near(three):
    X, y = three
    exact = classifier("cholesky", gamma=0.1).fit(X, y)
    model = classifier("nystrom", gamma=0.1, block_size=30).fit(X, y)
    assert model.n_iter_ == 3
    assert np.mean(model.predict(X) != exact.predict(X)) < 0.1


@each_solver
def test_sparse_and_single_precision_rows(three, solver):
    X, y = three
    X = np.where(X > 0, X, 0)
    dense = few_steps(solver, 2).fit(X, y)
    sparse = few_steps(solver, 2).fit(scipy.sparse.csr_array(X), y)
    assert_allclose(sparse.dual_coef_, dense.dual_coef_, atol=1e-9)
    single = few_steps(solver, 2).fit(X.astype("float32"), y)
    assert_allclose(
        single.decision_function(X.astype("float32")),
        dense.decision_function(X),
        atol=1e-3,
    )


# ---- what a user sees ------------------------------------------------------------


@pytest.mark.parametrize("solver", ["cg", *RANDOMIZED])
def test_history_has_the_validation_error(three, solver):
    X, y = three
    model = few_steps(solver, 2).fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
    history = model.history_
    assert {len(column) for column in history.values()} == {model.n_iter_}
    wrong = np.mean(model.predict(X[1::2]) != y[1::2])
    if solver != "block_descent":  # which keeps the best of its steps
        assert history["validation_error"][-1] == pytest.approx(wrong)


def test_validation_of_a_regressor_and_of_a_precomputed_kernel(three):
    X, y = three
    numbers = X[:, 0] ** 2
    model = LSSVMRegressor(solver="matching_pursuit", random_state=0)
    model.fit(X[::2], numbers[::2], X_val=X[1::2], y_val=numbers[1::2])
    error = np.sqrt(np.mean((model.predict(X[1::2]) - numbers[1::2]) ** 2))
    assert model.history_["validation_error"][-1] == pytest.approx(error)
    by_name = few_steps("matching_pursuit", 2, kernel="linear")
    given = few_steps("matching_pursuit", 2, kernel="precomputed")
    K = X @ X.T
    by_name.fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
    given.fit(K[::2, ::2], y[::2], X_val=K[1::2, ::2], y_val=y[1::2])
    assert given.history_["validation_error"] == by_name.history_["validation_error"]


def test_a_factorisation_has_no_history(three):
    assert classifier("cholesky").fit(*three).history_ == {}


def test_validation_rows_and_targets_go_together(three):
    X, y = three
    with pytest.raises(ValueError, match="y_val is missing"):
        classifier("kaczmarz").fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier("kaczmarz").fit(X, y, X_val=X, y_val=y[:3])
    with pytest.raises(ValueError, match="has 2 features"):
        classifier("kaczmarz").fit(X, y, X_val=X[:, :2], y_val=y)


@pytest.mark.parametrize("solver", ["cg", *ITERATIVE])
def test_a_callback_sees_the_model_and_stops_it(three, solver):
    X, y = three
    seen = []

    def callback(step, state):
        seen.append((step, state.dual_coef.shape, state.intercept.shape))
        return step == 2

    model = classifier(solver, callback=callback, tol=1e-12, C=1e3).fit(X, y)
    assert seen == [(1, (90, 3), (3,)), (2, (90, 3), (3,))]
    assert model.n_iter_ == 2
    assert model.solve_info_.stop == "callback"


def test_too_few_steps_are_told(three):
    with pytest.warns(ConvergenceWarning, match="kaczmarz stopped after 2 steps"):
        classifier("kaczmarz", max_iter=2, tol=1e-8).fit(*three)


def test_repeated_rows_are_told(three):
    X, y = three
    X[1], y[1] = X[0], y[0]
    with pytest.warns(LinAlgWarning, match="In 1 of 1 steps rows of the block repeat"):
        classifier("matching_pursuit", C=1e13, block_size=90).fit(X, y)


@each_iterative
def test_a_warm_start_goes_on(three, solver):
    X, y = three
    exact = classifier("cholesky").fit(X, y)
    model = few_steps(solver, 3, warm_start=True)
    distances = []
    for _ in range(4):
        model.fit(X, y)
        distances.append(np.linalg.norm(model.dual_coef_ - exact.dual_coef_))
    assert distances[-1] < 0.7 * distances[0]
    cold = few_steps(solver, 3).fit(X, y).fit(X, y)
    assert np.linalg.norm(cold.dual_coef_ - exact.dual_coef_) == distances[0]


def test_a_warm_start_needs_the_same_rows(three):
    X, y = three
    model = few_steps("kaczmarz", 1, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start=True, but .*\(90, 3\)"):
        model.fit(X[:60], y[:60])


@each_solver
def test_averaged_runs(three, solver):
    X, y = three
    exact = classifier("cholesky").fit(X, y)
    one, many = (
        few_steps(solver, 2, n_runs=k, random_state=1).fit(X, y) for k in (1, 6)
    )
    assert len(many.history_["run"]) == 6 * len(one.history_["run"])
    distance = [np.linalg.norm(m.dual_coef_ - exact.dual_coef_) for m in (one, many)]
    assert distance[1] < distance[0]


def test_runs_are_the_same_in_any_number_of_threads(three):
    from threadpoolctl import threadpool_limits

    X, y = three
    models = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            models.append(few_steps("matching_pursuit", 3, n_runs=3).fit(X, y))
    assert_allclose(models[0].dual_coef_, models[1].dual_coef_, rtol=1e-8, atol=1e-9)


def test_clone_and_pickle_keep_the_solver(three):
    X, y = three
    model = clone(classifier("block_descent", n_runs=2)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.gpu
@each_solver
def test_the_gpu_takes_the_same_steps(three, solver):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    X, y = three
    host, device = (
        few_steps(solver, 3, device=d).fit(X, y, X_val=X, y_val=y)
        for d in (None, "cuda")
    )
    assert isinstance(device.dual_coef_, np.ndarray)
    assert_allclose(device.dual_coef_, host.dual_coef_, atol=1e-7)
    assert device.history_["residual"] == pytest.approx(host.history_["residual"])


# ---- explain ---------------------------------------------------------------------


def test_explain_before_and_after(three):
    X, y = three
    model = classifier("auto")
    with pytest.raises(NotFittedError):
        model.explain()
    before = model.explain(X, y)
    assert before.startswith("solver='cholesky': 90 rows")
    assert not hasattr(model, "n_features_in_")
    after = model.fit(X, y).explain()
    assert after.startswith("solver='cholesky': 90 rows")
    assert after.endswith("its residual was not measured.")
    assert np.isnan(model.solve_info_.backward_error)
    forced = few_steps("kaczmarz", 2).fit(X, y).explain()
    assert "kaczmarz was asked for" in forced
    assert "2 steps, ended by: callback" in forced


def test_explain_follows_the_budget(three):
    X, y = three
    tight = classifier("auto", block_size=None, memory_budget=30_000)
    told = tight.explain(X, y)
    assert "memory_budget is 29.3 KiB" in told
    assert told.startswith(f"solver={tight.fit(X, y).solver_!r}")


# ---- a fit that was ended --------------------------------------------------------

WARM = ["kaczmarz", "matching_pursuit", "kaczmarz_mp", "block_descent"]


def stop_after(n_steps):
    """Return a callback that raises Ctrl-C after some steps."""

    def callback(step, state):
        if step == n_steps:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("n_runs", [1, 2])
@pytest.mark.parametrize("solver", WARM)
def test_a_warm_start_goes_on_from_the_best_iterate_of_an_ended_fit(
    three, solver, n_runs
):
    X, y = three
    options = {"warm_start": True, "n_runs": n_runs, "tol": 1e-12}
    model = classifier(solver, callback=stop_after(9), **options)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.set_params(callback=lambda step, state: step >= 2).fit(X, y)
    cold = few_steps(solver, 2, **options).fit(X, y)
    residuals = [np.mean(m.history_["residual"][:2]) for m in (model, cold)]
    assert residuals[0] < residuals[1]


def test_without_a_warm_start_nothing_is_kept_of_an_ended_fit(three):
    X, y = three
    model = classifier("kaczmarz", callback=stop_after(5))
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert vars(model) == before


def test_a_killed_fit_is_resumed_from_what_a_callback_saved(three, tmp_path):
    """The lines of docs/guide/interrupts.md."""
    X, y = three
    file = tmp_path / "fit.npz"

    def keep(step, state):
        np.savez(file, dual_coef=state.dual_coef, intercept=state.intercept)

    classifier("block_descent", callback=keep, max_iter=50, tol=1e-4).fit(X, y)
    resumed = few_steps("block_descent", 2, warm_start=True, tol=1e-12)
    with np.load(file) as last:
        resumed.dual_coef_, resumed.intercept_ = last["dual_coef"], last["intercept"]
    resumed.fit(X, y)
    cold = few_steps("block_descent", 2, tol=1e-12).fit(X, y)
    assert resumed.history_["residual"][0] < cold.history_["residual"][0]
