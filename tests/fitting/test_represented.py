"""fit_represented is a pure function, and the estimators are thin around it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from kaucus.clustering._kmeans import KMeansOptions
from kaucus.fitting import _represented
from kaucus.fitting._problem import ClassTargets, NumberTargets, Plan, Problem
from kaucus.fitting._represented import fit_represented
from kaucus.kernels import Gaussian
from tests.arrays import assert_to_rounding
from tests.reference.ls_svm import leave_one_out

DIGITS, LABELS = load_digits(return_X_y=True)
KERNELS = [[Gaussian(gamma=g) for g in (1e-4, 5e-4, 2e-3)]]
OPTIONS = KMeansOptions("euclidean", max_iter=100, tol=1e-4)


def class_problem(n=600, weight=None):
    targets = ClassTargets(LABELS[:n], 10, lambda weight, labels: weight)
    return Problem.of(DIGITS[:n], targets, weight)


def same(a, b):
    """Compare two models by all their numbers."""
    first, second = (
        (m.representatives.points, m.representatives.labels, *m.solution[:2])
        for m in (a, b)
    )
    for x, y in zip(first, second, strict=True):
        assert_to_rounding(x, y)
    assert (a.kernel, a.C) == (b.kernel, b.C)


@pytest.mark.parametrize("fit_on", ["all", "boundary", "representatives"])
@pytest.mark.parametrize("size", [[6] * 10, "fast"])
def test_it_depends_on_its_arguments_alone(fit_on, size):
    problem = class_problem()
    before = problem.rows.copy(), problem.targets.values.copy()
    plan = Plan(KERNELS, [1.0, 10.0], size, OPTIONS, fit_on=fit_on, calibrates=True)
    first, second = (
        fit_represented(problem, plan, np.random.default_rng(3)) for _ in range(2)
    )
    same(first, second)
    assert_array_equal(problem.rows, before[0])
    assert_array_equal(problem.targets.values, before[1])


def test_the_classifier_is_this_function():
    plan = Plan([[Gaussian(gamma=5e-4)]], [10.0], [6] * 10, OPTIONS, calibrates=True)
    model = fit_represented(class_problem(), plan, np.random.default_rng(0))
    m = KMeansKernelClassifier(6, kernel="rbf", gamma=5e-4, C=10.0, random_state=0)
    m.fit(DIGITS[:600], LABELS[:600])
    assert_to_rounding(m.representatives_, model.representatives.points)
    assert_to_rounding(m.dual_coef_, model.solution.dual_coef)


def test_the_regressor_is_this_function():
    Y = DIGITS[:600, 20:22] + 0.0
    targets = NumberTargets.of(Y, 5, None)
    problem = Problem.of(DIGITS[:600], targets, None)
    plan = Plan([[Gaussian(gamma=5e-4)]], [10.0], 60, OPTIONS)
    model = fit_represented(problem, plan, np.random.default_rng(0))
    m = KMeansKernelRegressor(60, kernel="rbf", gamma=5e-4, C=10.0, random_state=0)
    m.fit(DIGITS[:600], Y)
    assert_to_rounding(m.representatives_, model.representatives.points)
    restored = targets.unit.restored(model.solution)
    assert_to_rounding(m.dual_coef_, restored.dual_coef)
    assert_to_rounding(m.intercept_, restored.intercept)


def test_weights_of_the_whole_go_with_a_part():
    weight = np.linspace(0.5, 2, 600)
    some = np.array([3, 40, 41])
    part = class_problem(weight=weight).part(some)
    assert_array_equal(part.rows, DIGITS[some])
    assert_array_equal(part.targets.values, LABELS[some])
    assert_array_equal(part.fit_weight, weight[some])


def test_every_row_as_its_own_representative_is_the_machine_of_all_rows():
    Y = np.sin(DIGITS[:200, :1])
    problem = Problem.of(DIGITS[:200], NumberTargets(Y, 5), None)
    plan = Plan([[Gaussian(gamma=1e-3)]], [10.0], "fast", OPTIONS)
    model = fit_represented(problem, plan, np.random.default_rng(0))
    assert model.representatives.points.shape == (200, 64)
    K = model.kernel(DIGITS[:200], model.representatives.points)
    f = K @ model.solution.dual_coef + model.solution.intercept
    # a = C (y − f) of the LS-SVM, up to the order of the representatives.
    residuals = np.sort((Y - f)[:, 0] * 10.0)
    np.testing.assert_allclose(
        np.sort(model.solution.dual_coef[:, 0]), residuals, rtol=1e-6, atol=1e-9
    )


def test_c_of_many_rows_is_chosen_by_some_of_them(monkeypatch):
    """C does not depend on the number of rows: a part of them chooses it as well."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=800)
    model = KMeansKernelRegressor(kernel="rbf", learn_metric=False, random_state=0)
    by_all = clone(model).fit(X, y)
    monkeypatch.setattr(_represented, "_JUDGED", 420)
    by_some = clone(model).fit(X, y)
    assert len(by_some.representatives_) == 800
    results = by_some.search_results_
    assert results["n_columns"][results["chosen"]].tolist() == [420]
    assert results["C"][results["chosen"]].tolist() == [by_some.C_]
    assert abs(np.log10(by_some.C_ / by_all.C_)) <= 0.51


@pytest.mark.parametrize("moves_intercept", [False, True])
def test_every_row_may_be_left_out_of_a_fit_of_all_rows(moves_intercept):
    problem = class_problem(n=60)
    kernel, options = Gaussian(gamma=5e-4), {"moves_intercept": moves_intercept}
    options |= {"calibrates": True, "n_unseen": 60}
    plan = Plan([[kernel]], [10.0], [60] * 10, OPTIONS, **options)
    model = fit_represented(problem, plan, np.random.default_rng(0))
    unseen = model.unseen
    assert sorted(unseen.numbers) == list(range(60))
    assert unseen.labels.tolist() == LABELS[unseen.numbers].tolist()
    left_out = leave_one_out(kernel(problem.rows), problem.targets.columns(), 10.0)
    moved = unseen.values - left_out[unseen.numbers]
    assert np.ptp(moved, axis=0) == pytest.approx(np.zeros(10), abs=1e-9)


def test_a_fast_model_is_chosen_by_half_of_the_columns(rng):
    X = rng.normal(size=(1200, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=1200)
    columns = {}
    for size in ("fast", "balanced"):
        model = KMeansKernelRegressor(size, learn_metric=False, random_state=0)
        columns[size] = model.fit(X, y).search_results_["n_columns"].min()
    assert columns["balanced"] == 2 * columns["fast"]
