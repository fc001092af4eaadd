"""A metric learned from the targets: its formula, its honesty, and what it finds."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from kaucus._array.namespace import to_numpy
from kaucus.fitting import _search
from kaucus.fitting._problem import ClassTargets, NumberTargets, Problem
from kaucus.fitting._search import (
    Candidate,
    Family,
    Judge,
    MetricOptions,
    MetricSearch,
    Trial,
    falls_by,
    gradient_product,
    main_effects,
    scale_maps,
    search_metric,
)
from kaucus.kernels import Gaussian, RowMap
from kaucus.kernels._kernel import kernel_class
from tests.arrays import array, assert_close

CS = 10.0 ** np.arange(-1, 5)


def options(*names, **other):
    names = names or ("rbf",)
    other = {"powers": (1.0,), "max_steps": 2, **other}
    families = [Family(kernel_class(name)(), "tune") for name in names]
    return MetricOptions(families, CS, **other)


def numbers(X, y, weight=None):
    return Problem.of(X, NumberTargets(np.asarray(y, dtype=float)[:, None], 5), weight)


def labels(X, y, weight=None):
    targets = ClassTargets(y, int(y.max()) + 1, lambda weight, labels: weight)
    return Problem.of(X, targets, weight)


@pytest.fixture(scope="module")
def one_direction():
    """Rows whose target depends on one direction of the first two of six columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    return X, np.sin(X[:, 0] + X[:, 1]) + 0.05 * rng.normal(size=300)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
@pytest.mark.parametrize("mapped", ["diagonal", "full"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_product_is_the_mean_of_outer_products(xp, rng, kind, mapped, weighted):
    """By differences of f(map(x)), row by row, in the scaled columns."""
    d, kernel = 3, Gaussian(gamma=0.4)
    T = rng.normal(size=d if mapped == "diagonal" else (d, d))
    zeros = np.zeros(d)
    row_map = RowMap(zeros, np.ones(d), np.inf, zeros, T)
    U, coef = rng.normal(size=(12, d)), rng.normal(size=(5, 2))
    weight = rng.uniform(0.5, 2.0, size=12) if weighted else np.ones(12)
    Z = row_map(U)

    def f(u):
        return kernel(row_map(u), Z[:5]) @ coef

    expected, step = np.zeros((d, d)), 1e-5
    for i in range(12):
        moves = step * np.eye(d)
        G = np.concatenate(
            [f(U[i : i + 1] + m) - f(U[i : i + 1] - m) for m in moves]
        ) / (2 * step)
        expected += weight[i] * G @ G.T / weight.sum()
    if kind == "diagonal":
        expected = np.diag(expected)
    found = gradient_product(
        kernel,
        array(xp, Z),
        array(xp, Z[:5]),
        array(xp, coef),
        array(xp, weight) if weighted else None,
        row_map,
        kind,
    )
    assert_close(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


def test_no_row_judges_a_metric_that_has_seen_its_label(one_direction):
    X, y = one_direction

    def search_of(y):
        return MetricSearch(
            numbers(X, y), options("rbf"), np.random.default_rng(0), None
        )

    search = search_of(y)
    judging = search.folds[0].numbers
    other = y.copy()
    other[judging] = np.random.default_rng(1).permutation(other[judging])
    again = search_of(other)
    assert np.array_equal(judging, again.folds[0].numbers)
    assert not np.intersect1d(judging, _learning(search, X)).size

    def product(search):
        base = search.maps["standard"]
        folded = search.folds[0].mapped(base, 100)
        # Targets are in units of their spread, which all of them give.
        kernel = folded.kernel(search.options.families[0], 1.0)
        coef = folded.models(kernel, [10.0]).coef[:, 0, :]
        M = folded.product(kernel, coef, "full")
        return M / np.trace(M)

    assert_close(product(search), product(again), rtol=1e-9, atol=1e-12)


def _learning(search, X):
    rows = to_numpy(search.folds[0].rows)
    return np.flatnonzero((X[:, None, 0] == rows[None, :, 0]).any(axis=1))


def test_a_direction_that_matters_is_found(one_direction):
    X, y = one_direction
    full = options(kinds=("full",))
    found = search_metric(numbers(X, y), full, np.random.default_rng(0))
    assert found.n_steps > 0
    M = found.row_map.metric()
    M /= np.trace(M)
    wanted = np.zeros(6)
    wanted[:2] = 0.5**0.5
    assert wanted @ M @ wanted > 0.8
    assert found.row_map.importances()[:2].sum() > 0.8


def test_columns_that_matter_are_weighed(rng):
    X = rng.normal(size=(400, 6))
    y = ((np.abs(X[:, 3]) + 0.3 * rng.normal(size=400)) > 0.7).astype(int)
    found = search_metric(labels(X, y), options(), np.random.default_rng(0))
    assert found.row_map.importances()[3] > 0.6


def test_noise_keeps_the_identity(rng):
    X, y = rng.normal(size=(200, 5)), rng.normal(size=200)
    every = options("exponential", "rbf", powers=(1.0, 0.5))
    found = search_metric(numbers(X, y), every, np.random.default_rng(0))
    assert found.n_steps == 0
    assert found.kind == "identity"


def test_units_do_not_matter_on_the_common_scale(one_direction):
    X, y = one_direction
    unit = np.array([1e-3, 1.0, 1e4, 10.0, 1.0, 1e-6])
    scaled = X * unit + 100 * unit
    maps = [
        search_metric(
            numbers(rows, y),
            options("rbf", scales=("standard",)),
            np.random.default_rng(0),
        ).row_map
        for rows in (X, scaled)
    ]
    assert_close(maps[0](X), maps[1](scaled), rtol=1e-4, atol=1e-4)


def test_a_constant_column_and_one_huge_value_do_no_harm(one_direction):
    X, y = one_direction
    hostile = np.column_stack([X, np.full(len(X), 7.0), X[:, 2]])
    hostile[5, 7] = 1e6
    clean = search_metric(numbers(X, y), options("rbf"), np.random.default_rng(0))
    found = search_metric(numbers(hostile, y), options("rbf"), np.random.default_rng(0))
    assert found.row_map.importances()[6] == 0
    assert np.isfinite(found.row_map(hostile)).all()
    assert found.results["score"].max() > 1.3 * clean.results["score"].max()


def test_rows_of_weight_zero_are_not_looked_at(one_direction):
    X, y = one_direction
    lies = np.concatenate([y, 50 + np.zeros(200)])
    rows = np.concatenate([X, X[:200]])
    weight = np.concatenate([np.ones(300), np.zeros(200)])
    found = search_metric(
        numbers(rows, lies, weight), options("rbf"), np.random.default_rng(0)
    )
    assert found.row_map.importances()[:2].sum() > 0.8


def test_many_columns_have_a_low_rank_root(rng, monkeypatch):
    monkeypatch.setattr("kaucus.fitting._search._FULL_COLUMNS", 4)
    X = rng.normal(size=(300, 6))
    y = np.sin(X[:, 0] + X[:, 1])
    found = search_metric(
        numbers(X, y), options("rbf", kinds=("full",)), np.random.default_rng(0)
    )
    assert found.row_map.importances()[:2].sum() > 0.8


def test_many_rows_are_refined_with_more_columns(rng, monkeypatch):
    monkeypatch.setattr("kaucus.fitting._search._REFINE_ROWS", 300)
    monkeypatch.setattr("kaucus.fitting._search._MORE_COLUMNS", 470)
    X = rng.normal(size=(2000, 6))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=2000)
    found = search_metric(
        numbers(X, y),
        options(max_samples=1600, max_steps=1, kinds=("diagonal",)),
        np.random.default_rng(0),
    )
    assert 470 in found.results["n_columns"]
    assert found.row_map.importances()[0] > 0.8


def test_many_rows_of_which_few_are_looked_at_judge_in_folds(rng, monkeypatch):
    monkeypatch.setattr("kaucus.fitting._search._REFINE_ROWS", 100)
    X = rng.normal(size=(600, 4))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=600)
    few = options(max_samples=200, max_steps=1, kinds=("diagonal",))
    found = search_metric(numbers(X, y), few, np.random.default_rng(0))
    assert found.row_map.importances()[0] > 0.6


def test_every_row_judges_where_few_rows_have_most_of_the_weight(rng):
    """One row in fifty with half of the weight: a third of them would judge alone."""
    X, y = rng.normal(size=(2000, 3)), rng.normal(size=2000)
    rare = np.arange(2000) % 50 == 0
    weight = np.where(rare, 25.0, 0.5)
    for given, n_judges in ((None, 667), (np.full(2000, 3.0), 667), (weight, 2000)):
        folds = MetricSearch(numbers(X, y, given), options(), rng, None).folds
        assert len(np.unique(np.concatenate([f.numbers for f in folds]))) == n_judges


@pytest.mark.parametrize("beyond", [False, True])
def test_c_is_one_of_those_to_choose_from_unless_it_may_leave_them(rng, beyond):
    X = rng.normal(size=(150, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1]  # no noise: the larger C the better
    few = replace(options(max_steps=0), Cs=[0.1, 1.0], beyond=beyond)
    found = search_metric(numbers(X, y), few, np.random.default_rng(0))
    assert (found.C > 1.0) if beyond else (found.C == 1.0)


@pytest.mark.parametrize("kinds", [("diagonal",), ("full",), ("diagonal", "full")])
def test_a_product_is_taken_once_for_all_kinds(one_direction, kinds):
    X, y = one_direction
    search = MetricSearch(numbers(X, y), options(), np.random.default_rng(0), None)
    first = search.best_scale()[0]
    trials = {}
    for some in (kinds, *zip(kinds)):
        search.options = replace(options(), kinds=some, powers=(1.0,))
        for trial in search._step(first, (1.0,)):
            trials.setdefault(trial.candidate.kind, []).append(trial.candidate)
    for both, alone in trials.values():
        for found, expected in zip(both.folds, alone.folds, strict=True):
            weights = (fold.row_map.weights for fold in (found, expected))
            assert_close(*weights, rtol=1e-9, atol=1e-12)


def test_a_step_is_along_the_gradients_of_the_fit_that_was_judged(one_direction):
    X, y = one_direction
    search = MetricSearch(numbers(X, y), options(), np.random.default_rng(0), None)
    for trial in search.best_scale():
        found = trial.candidate
        for fold, coef in zip(found.folds, trial.model, strict=True):
            models = fold.models(fold.kernel(found.family, found.factor), [trial.C])
            assert_close(coef, models.coef[:, 0, :], rtol=1e-7)


@pytest.mark.parametrize("name", ["rbf", "exponential", "laplacian", "linear"])
def test_sparse_rows_have_the_product_of_dense_ones(rng, name):
    dense = np.where(rng.random((60, 7)) < 0.3, rng.normal(size=(60, 7)), 0.0)
    rows, coef = scipy.sparse.csr_array(dense), rng.normal(size=(20, 2))
    kernel, row_map = kernel_class(name)(), RowMap.identity(7)
    found, expected = (
        gradient_product(kernel, Z, Z[:20, :], coef, None, row_map, "diagonal")
        for Z in (rows, dense)
    )
    assert_close(found, expected, rtol=1e-9)


def test_sparse_columns_explain_what_dense_ones_do(rng):
    dense = np.where(rng.random((200, 5)) < 0.3, rng.normal(size=(200, 5)), 0.0)
    Y = np.sin(3 * dense[:, :1])
    found = main_effects(scipy.sparse.csc_array(dense), Y)
    assert found[0] > 0
    assert_close(found, main_effects(dense, Y))


def test_sparse_rows_stay_sparse_in_a_search(rng):
    dense = np.where(rng.random((90, 60)) < 0.1, rng.normal(size=(90, 60)), 0.0)
    problem = numbers(scipy.sparse.csr_array(dense), dense[:, 0] + dense[:, 1])
    some = options(kinds=("diagonal",), scales=("standard",))
    search = MetricSearch(problem, some, np.random.default_rng(0), None)
    for trial in search.best_paths(search.best_scale()):
        assert all(scipy.sparse.issparse(fold.both) for fold in trial.candidate.folds)


def candidate(name, losses, factor=1.0, C=10.0):
    candidate = Candidate(Family(kernel_class(name)(), "tune"), factor, "standard", [])
    return Trial(candidate, C, float(np.mean(losses)), np.asarray(losses))


def test_kernels_that_more_columns_may_bring_ahead_are_refined(one_direction, rng):
    """Rough ones that are a little behind; not the Gaussian, nor those far behind."""
    X, y = one_direction
    search = MetricSearch(numbers(X, y), options(), rng, None)
    losses = rng.uniform(size=200)
    noise = rng.normal(size=200)
    noise -= noise.mean()
    near, far = losses + noise + 0.05, losses + noise + 0.5
    best = candidate("exponential", losses)
    others = [candidate("rbf", near), candidate("laplacian", near)]
    few = search.worth_refining([others[0], best, others[1]])
    assert [trial.candidate for trial in few] == [
        trial.candidate for trial in (best, others[1])
    ]
    assert len(search.worth_refining([best, candidate("laplacian", far)])) == 1
    assert search.worth_refining([candidate("rbf", losses)])[0].C == 10.0


@pytest.mark.parametrize("least", [0.2, 1.0, 5.0])
def test_a_climb_ends_at_the_least_loss_and_no_further(least):
    tried = []

    class Bowl(Judge):
        def work(self, job):
            tried.append(job[0])
            return 1 + np.log(job[0] / least) ** 2

        def trial(self, job, found):
            return Trial(job[0], job[1][0], found)

        def place(self, candidate):
            return round(candidate, 9)

    def moves(now):
        return [(now.candidate / 1.6, [now.C]), (now.candidate * 1.6, [now.C])]

    start = Trial(1.0, 10.0, 1 + np.log(least) ** 2)
    (found,) = Bowl().climb([start], moves, falls_by(0.002), 3)
    assert abs(np.log(found.candidate / least)) <= np.log(1.6) / 2
    assert len(tried) == len(set(tried)) <= 5
    assert found.C == start.C


def test_a_step_is_judged_by_every_second_c(one_direction):
    X, y = one_direction
    many = replace(options(), Cs=10.0 ** np.arange(-2, 4.1, 0.5))
    search = MetricSearch(numbers(X, y), many, np.random.default_rng(0), None)
    for C in many.Cs:
        _, Cs = search.coarse(candidate("rbf", [1.0], C=C))
        assert C in Cs
        assert_close(np.diff(np.log10(Cs)), np.ones(len(Cs) - 1))
        assert len(Cs) >= 6
    few = MetricSearch(numbers(X, y), options(), np.random.default_rng(0), None)
    assert few.coarse(candidate("rbf", [1.0]))[1] == list(CS)


@pytest.mark.parametrize("names", [("rbf",), ("exponential", "laplacian")])
def test_float32_chooses_as_float64_does(one_direction, rng, monkeypatch, names):
    """Where there is noise; without it, losses of many C are nearly the same."""
    X, y = one_direction
    y, found = y + 0.5 * rng.normal(size=len(y)), []
    for most in (0, 10**6):  # rows that are factored in float64
        monkeypatch.setattr("kaucus.fitting._search._FLOAT64_ROWS", most)
        seed = np.random.default_rng(0)
        found.append(search_metric(numbers(X, y), options(*names), seed))
    assert found[0].kernel.name == found[1].kernel.name
    for name in ("scale", "kind", "power", "n_steps"):
        assert getattr(found[0], name) == getattr(found[1], name)
    assert_close(found[0].C, found[1].C)
    assert_close(found[0].kernel.gamma, found[1].kernel.gamma, rtol=1e-4)
    best = [one.results["score"].max() for one in found]
    assert_close(best[0], best[1], rtol=1e-3)


def test_the_same_seed_gives_the_same_metric(one_direction):
    X, y = one_direction
    maps = [
        search_metric(numbers(X, y), options("rbf"), np.random.default_rng(3)).row_map
        for _ in range(2)
    ]
    assert_close(maps[0].metric(), maps[1].metric(), rtol=1e-6, atol=1e-9)


def test_the_common_scale_has_mean_zero_and_spread_one(rng):
    X = np.column_stack(
        [rng.normal(3, 9, 500), rng.exponential(size=500), np.ones(500)]
    )
    Z = scale_maps(X, None, rng)["standard"](X)
    assert_close(Z.mean(axis=0), np.zeros(3), rtol=0, atol=1e-12)
    assert_close(Z.std(axis=0), [1.0, 1.0, 0.0], rtol=1e-12, atol=1e-12)


def test_fits_in_threads_are_noted_as_fits_in_turn(one_direction, monkeypatch):
    """Same losses, in the same order, and the same metric."""
    X, y = one_direction
    found = []
    for n_threads in (1, 3):
        monkeypatch.setattr(_search, "n_workers", lambda _, n=n_threads: n)
        search = options("rbf", "exponential", "laplacian")
        found.append(search_metric(numbers(X, y), search, np.random.default_rng(0)))
    alone, beside = found
    for key in ("kernel", "C", "kind", "n_steps"):
        assert (alone.results[key] == beside.results[key]).all()
    assert_close(alone.results["score"], beside.results["score"], rtol=1e-9)
    assert_close(alone.row_map.weights, beside.row_map.weights, rtol=1e-7, atol=1e-12)


def test_no_more_fits_at_a_time_than_the_budget_holds(one_direction, monkeypatch):
    X, y = one_direction
    monkeypatch.setattr(_search, "n_workers", lambda _: 4)
    search = MetricSearch(numbers(X, y), options(), np.random.default_rng(0), "1GiB")
    (first, *_) = search.best_scale()
    used = []

    def map_blocks(function, jobs, *, workers, abandon):
        used.append(workers)
        return map(function, jobs)

    monkeypatch.setattr(_search, "map_blocks", map_blocks)
    fold = first.candidate.folds[0]
    one_fit = 8 * _search.COPIES * fold.rows.shape[0] * fold.columns.shape[0]
    for n_fits in (0.5, 2, 100):
        search.budget = n_fits * one_fit
        search.tried([(first.candidate, [1.0])] * 5)
    assert used == [1, 2, 4]
