"""Laws of k-means in both geometries."""

import numpy as np
import pytest
import scipy.sparse
import threadpoolctl
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans

from kaucus._array.namespace import to_numpy
from kaucus.clustering import _kmeans
from kaucus.clustering._kernel_kmeans import best_start
from kaucus.clustering._kmeans import (
    Assigner,
    ClusterSums,
    KMeansResult,
    best_of_starts,
    block_scores,
    cluster_weights,
    kmeans,
    kmeans_plus_plus,
    make_centers,
    prepare_rows,
    random_seeds,
    reseed_empty,
)
from tests.reference.kmeans import euclidean_lloyd, spherical_lloyd

METRICS = ["cosine", "euclidean"]


def rng_of(seed=0):
    return np.random.default_rng(seed)


def blobs(seed=0, n=120, d=4, k=5):
    rng = rng_of(seed)
    means = 4 * rng.normal(size=(k, d))
    return means[rng.integers(k, size=n)] + 0.5 * rng.normal(size=(n, d))


def cost(X, result, metric):
    if metric == "cosine":
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
        return np.sum(1 - np.max(X @ result.centers.T, axis=1))
    return np.min(((X[:, None] - result.centers[None]) ** 2).sum(2), axis=1).sum()


@pytest.mark.parametrize("seed", range(5))
def test_cosine_equals_the_papers_steps(seed):
    X = rng_of(seed).normal(size=(60, 4))
    first = X[:6]
    centers, labels, n_iter = spherical_lloyd(X, first)
    result = kmeans(X, 6, init=first, rng=rng_of())
    assert_allclose(result.centers, centers, atol=1e-12)
    assert_array_equal(result.labels, labels)
    assert result.n_iter == n_iter


@pytest.mark.parametrize("n_iter", [1, 2, 5])
def test_euclidean_equals_lloyd_step_by_step(n_iter):
    X = blobs()
    first = X[:5]
    centers, labels = euclidean_lloyd(X, first, n_iter=n_iter)
    result = kmeans(
        X, 5, metric="euclidean", init=first, max_iter=n_iter, tol=1e-300, rng=rng_of()
    )
    assert_allclose(result.centers, centers, atol=1e-10)
    assert_array_equal(result.labels, labels)


def test_euclidean_ends_where_scikit_learn_ends():
    X = blobs()
    first = X[:5]
    ours = kmeans(X, 5, metric="euclidean", init=first, rng=rng_of(), tol=1e-12)
    theirs = KMeans(5, init=first, n_init=1, tol=0, algorithm="lloyd").fit(X)
    assert_allclose(ours.centers, theirs.cluster_centers_, atol=1e-9)
    assert_allclose(ours.inertia, theirs.inertia_, rtol=1e-10)


@pytest.mark.parametrize("metric", METRICS)
def test_every_library_and_precision_agrees(xp, dtype, metric):
    X = blobs()
    like = kmeans(X, 5, metric=metric, init=X[:5], rng=rng_of())
    rows = xp.asarray(X.astype(dtype))
    result = kmeans(rows, 5, metric=metric, init=rows[:5, :], rng=rng_of())
    assert_array_equal(to_numpy(result.labels), like.labels)
    tolerance = 1e-5 if dtype == "float32" else 1e-11
    assert_allclose(to_numpy(result.centers), like.centers, rtol=0, atol=tolerance * 10)
    assert str(result.centers.dtype).endswith(dtype)


@pytest.mark.parametrize("metric", METRICS)
@given(seed=st.integers(0, 1000), k=st.integers(1, 12))
def test_the_objective_never_rises(metric, seed, k):
    X = rng_of(seed).normal(size=(50, 3))
    inertias = [
        kmeans(
            X, k, metric=metric, init="random", max_iter=t, tol=1e-300, rng=rng_of(seed)
        ).inertia
        for t in range(1, 8)
    ]
    assert np.all(np.diff(inertias) <= 1e-9)


@pytest.mark.parametrize("metric", METRICS)
@given(seed=st.integers(0, 1000), k=st.integers(1, 12))
def test_inertia_is_the_cost_of_the_best_centres(metric, seed, k):
    X = rng_of(seed).normal(size=(50, 3))
    result = kmeans(X, k, metric=metric, rng=rng_of(seed))
    assert_allclose(result.inertia, cost(X, result, metric), atol=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_as_many_centres_as_rows_cost_nothing(metric):
    X = rng_of().normal(size=(30, 3))
    assert kmeans(X, 30, metric=metric, rng=rng_of()).inertia < 1e-12


def test_cosine_does_not_see_the_length_of_rows():
    X = blobs()
    lengths = rng_of(1).uniform(0.1, 10, size=(len(X), 1))
    a = kmeans(X, 5, init=X[:5], rng=rng_of())
    b = kmeans(X * lengths, 5, init=X[:5], rng=rng_of())
    assert_array_equal(a.labels, b.labels)


@pytest.mark.parametrize("metric", METRICS)
def test_the_order_of_rows_does_not_matter(metric):
    X = blobs()
    order = rng_of(3).permutation(len(X))
    a = kmeans(X, 5, metric=metric, init=X[:5], rng=rng_of())
    b = kmeans(X[order], 5, metric=metric, init=X[:5], rng=rng_of())
    assert_array_equal(a.labels[order], b.labels)


@pytest.mark.parametrize("metric", METRICS)
def test_a_weight_of_two_is_a_repeated_row(metric):
    X = blobs()
    weight = rng_of(1).integers(0, 4, size=len(X)).astype(float)
    weighted = kmeans(
        X, 5, metric=metric, init=X[:5], sample_weight=weight, rng=rng_of()
    )
    repeated = np.repeat(X, weight.astype(int), axis=0)
    plain = kmeans(repeated, 5, metric=metric, init=X[:5], rng=rng_of())
    assert_allclose(weighted.centers, plain.centers, atol=1e-10)
    assert_allclose(weighted.inertia, plain.inertia, atol=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_sparse_rows_are_the_same_rows(metric):
    X = blobs(d=8)
    X[np.abs(X) < 2] = 0
    X[:, 0] += 1
    a = kmeans(X, 5, metric=metric, init="k-means++", rng=rng_of())
    rows = scipy.sparse.csr_array(X)
    b = kmeans(rows, 5, metric=metric, init="k-means++", rng=rng_of())
    assert_array_equal(a.labels, b.labels)
    assert_allclose(a.centers, b.centers, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_threads_do_not_change_a_bit(metric, init, monkeypatch):
    monkeypatch.setattr(_kmeans, "_BLOCK_ROWS", 16)
    X = rng_of().normal(size=(200, 6)).astype(np.float32)
    results = []
    for n_threads in (1, 2, 4):
        with threadpoolctl.threadpool_limits(n_threads, user_api="blas"):
            results.append(kmeans(X, 9, metric=metric, init=init, rng=rng_of()))
    for other in results[1:]:
        assert_array_equal(other.labels, results[0].labels)
        assert_array_equal(other.centers, results[0].centers)


@pytest.mark.parametrize("metric", METRICS)
def test_memory_for_the_scores_only_saves_time(metric):
    X = rng_of().normal(size=(300, 6))
    kept = kmeans(X, 20, metric=metric, rng=rng_of())
    streamed = kmeans(X, 20, metric=metric, rng=rng_of(), memory_budget=1000)
    assert_array_equal(kept.labels, streamed.labels)
    assert_allclose(kept.centers, streamed.centers, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@given(
    seed=st.integers(0, 1000),
    steps=st.lists(st.integers(0, 7), min_size=1, max_size=6),
)
def test_only_moved_centres_need_new_scores(metric, seed, steps):
    rng = rng_of(seed)
    rows = prepare_rows(rng.normal(size=(40, 3)), metric)
    centres = prepare_rows(rng.normal(size=(7, 3)), metric)
    assigner = Assigner(rows, 7, budget=10**6)
    assigner.assign(make_centers(centres, metric))
    for n_moved in steps:  # of seven: few, many and then few again
        centres = centres.copy()
        moved = np.sort(rng.permutation(7)[:n_moved])
        centres[moved] = prepare_rows(rng.normal(size=(n_moved, 3)), metric)
        step = assigner.assign(make_centers(centres, metric), moved)
        fresh = Assigner(rows, 7, budget=10**6).assign(make_centers(centres, metric))
        assert_array_equal(step.labels, fresh.labels)
        assert_allclose(step.scores, fresh.scores, atol=1e-12)


def test_scores_are_kept_from_the_first_step_in_which_few_centres_move(rng):
    X = rng.normal(size=(50, 3))
    centers, scored = make_centers(X[:10], "euclidean"), []
    assigner = Assigner(X, 10, budget=10**6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            _kmeans,
            "block_scores",
            lambda X, centers, *out: (
                scored.append(len(centers.values)) or block_scores(X, centers, *out)
            ),
        )
        for n_moved in (None, 6, 5, 5, 0, 1, 10, 2):
            moved = None if n_moved is None else np.arange(n_moved)
            assigner.assign(centers, moved)
    assert scored == [10, 10, 10, 5, 1, 10, 10]


def cut_to_tf32(X):
    """Cut off all but ten bits of each number's fraction, as tensor cores may do."""
    bits = np.ascontiguousarray(X, dtype=np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.fixture
def rough_device(monkeypatch):
    """A device with fast products of few digits, whatever the size of the data."""
    monkeypatch.setattr(_kmeans, "rough_error", lambda X: 2.0**-9)
    monkeypatch.setattr(
        _kmeans,
        "rough_inner_products",
        lambda X, Y: cut_to_tf32(X) @ cut_to_tf32(Y).T,
    )
    monkeypatch.setattr(_kmeans, "_MANY_SCORES", 0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("distance", [0.0, 1e-4, 1e-2, 1.0])
def test_rough_products_change_no_label(rough_device, metric, distance):
    rng = rng_of()
    rows = prepare_rows(rng.normal(size=(500, 20)).astype(np.float32), metric)
    near = rng.normal(size=20) + distance * rng.normal(size=(30, 20))
    centers = make_centers(prepare_rows(near.astype(np.float32), metric), metric)
    assigner = Assigner(rows, 30, budget=10**6)
    found = assigner.assign(centers)
    scores = block_scores(rows, centers)
    rounding = 1e-5 * np.abs(scores).max()  # ties of float32 itself
    best = scores[np.arange(500), found.labels]
    assert np.all(best >= scores.max(axis=1) - rounding)
    assert_allclose(assigner.exact_scores(found, centers), best, atol=rounding)


@pytest.mark.parametrize("metric", METRICS)
def test_rough_products_lead_to_the_same_clusters(rough_device, monkeypatch, metric):
    X = blobs(n=400).astype(np.float32)
    rough = kmeans(X, 6, metric=metric, rng=rng_of())
    monkeypatch.undo()
    exact = kmeans(X, 6, metric=metric, rng=rng_of())
    assert_array_equal(rough.labels, exact.labels)
    assert_allclose(rough.inertia, exact.inertia, rtol=1e-5)


def test_many_doubtful_rows_end_rough_products(rough_device, monkeypatch):
    """Where every row needs a second look, the first one is left out."""
    X = np.ones((50, 4), dtype=np.float32)
    assigner = Assigner(X, 3, budget=10**6)
    centers = make_centers(X[:3], "cosine")
    assigner.assign(centers)

    def fail(X, Y):
        raise AssertionError("rough products again")

    monkeypatch.setattr(_kmeans, "rough_inner_products", fail)
    assert_array_equal(assigner.assign(centers).labels, 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_cluster_sums_are_sums(xp, dtype, weighted):
    rng = rng_of()
    X, w = rng.normal(size=(50, 3)), rng.uniform(size=50)
    labels = rng.integers(4, size=50)
    weight = xp.asarray(w) if weighted else None
    w = w if weighted else np.ones(50)
    rows = xp.asarray(X.astype(dtype))
    sums, later = ClusterSums(6, rows), ClusterSums(6, rows)
    for part, s in ((sums, slice(0, 20)), (later, slice(20, 50))):
        w_part = None if weight is None else weight[s]
        part.add(rows[s, :], xp.asarray(labels[s]), w_part)
    sums.merge(later)
    weights = cluster_weights(xp.asarray(labels), weight, 6)
    member = labels[:, None] == np.arange(6)
    tolerance = 1e-6 if dtype == "float32" else 1e-12
    expected = (member * w[:, None]).T @ X
    assert_allclose(to_numpy(sums.values), expected, atol=tolerance)
    assert_allclose(to_numpy(weights), (member * w[:, None]).sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_moved_rows_lead_to_the_same_centres(monkeypatch, metric, weighted):
    X = rng_of().normal(size=(400, 5))
    weight = rng_of(1).uniform(size=400) if weighted else None
    results = []
    for refresh in (0, 10**6):  # all rows in every step, and never after the first
        monkeypatch.setattr(_kmeans, "_REFRESH", refresh)
        monkeypatch.setattr(_kmeans, "_MANY", 1.0)
        results.append(
            kmeans(X, 12, metric=metric, sample_weight=weight, tol=0.0, rng=rng_of())
        )
    whole, moved = results
    assert whole.n_iter == moved.n_iter > 5
    assert_array_equal(whole.labels, moved.labels)
    assert_allclose(moved.centers, whole.centers, atol=1e-13)


def test_an_empty_cluster_takes_the_worst_represented_row():
    labels = np.array([0, 0, 0, 2, 2])
    costs = np.array([0.1, 0.9, 0.2, 0.5, 0.0])
    new, n_reseeded = reseed_empty(labels, costs, np.ones(5, bool), 4)
    assert_array_equal(new, [0, 1, 0, 3, 2])
    assert n_reseeded == 2
    assert_array_equal(labels, [0, 0, 0, 2, 2])  # the caller's


def test_a_row_alone_in_its_cluster_is_not_taken():
    costs = np.array([0.9, 0.1, 0.2])
    new, _ = reseed_empty(np.array([0, 1, 1]), costs, np.ones(3, bool), 3)
    assert_array_equal(new, [0, 1, 2])


@pytest.mark.parametrize("metric", METRICS)
def test_no_cluster_stays_empty(metric):
    X = blobs(n=60)
    first = np.concatenate([X[:2], 1e3 * np.ones((3, X.shape[1]))])
    result = kmeans(X, 5, metric=metric, init=first, rng=rng_of())
    assert len(np.unique(result.labels)) == 5
    assert result.n_reseeded > 0
    assert result.converged


def test_zero_rows_do_not_keep_the_sphere_from_coming_to_rest():
    X = np.zeros((12, 3))
    X[:4] = np.eye(4, 3) + 0.1
    result = kmeans(X, 6, init="random", rng=rng_of())
    assert result.converged
    assert np.isfinite(result.centers).all()


def test_kmeans_plus_plus_prefers_far_rows():
    X = np.concatenate([np.zeros((50, 2)), [[10.0, 0.0]], [[0.0, 10.0]]])
    X += 1e-3 * rng_of().normal(size=X.shape)
    for seed in range(20):
        chosen = kmeans_plus_plus(
            X, 3, metric="euclidean", weight=np.ones(52), rng=rng_of(seed)
        )
        assert {50, 51} < set(chosen.tolist())


@pytest.mark.parametrize("metric", METRICS)
def test_kmeans_plus_plus_never_draws_weight_zero_or_a_row_twice(metric):
    X = prepare_rows(rng_of().normal(size=(40, 3)), metric)
    weight = np.r_[np.zeros(20), np.ones(20)]
    for seed in range(10):
        chosen = kmeans_plus_plus(X, 15, metric=metric, weight=weight, rng=rng_of(seed))
        assert len(set(chosen.tolist())) == 15
        assert chosen.min() >= 20


def test_kmeans_plus_plus_with_equal_rows_still_gives_enough():
    chosen = kmeans_plus_plus(
        np.ones((6, 2)), 4, metric="euclidean", weight=np.ones(6), rng=rng_of()
    )
    assert len(set(chosen.tolist())) == 4


@given(seed=st.integers(0, 1000))
def test_random_seeds_are_different_rows_of_positive_weight(seed):
    weight = np.r_[np.zeros(5), np.ones(7)]
    chosen = random_seeds(12, 7, weight, rng_of(seed))
    assert sorted(chosen.tolist()) == list(range(5, 12))


def test_more_starts_are_never_worse():
    X = blobs(k=9)
    one = kmeans(X, 9, init="random", n_init=1, rng=rng_of(4))
    ten = kmeans(X, 9, init="random", n_init=10, rng=rng_of(4))
    assert ten.inertia <= one.inertia


def test_the_callers_arrays_are_not_changed():
    X, first, weight = blobs(), blobs(1)[:5], np.ones(120)
    before = [a.copy() for a in (X, first, weight)]
    kmeans(X, 5, init=first, sample_weight=weight, rng=rng_of())
    for array, copy in zip((X, first, weight), before, strict=True):
        assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("inertias", "kept"),
    [([3.0, 1.0, 2.0], 1), ([1.0 + 1e-12, 1.0, 1.0], 0), ([-1.0, -2.0], 1)],
)
def test_the_first_of_equal_starts_is_kept(inertias, kept):
    """Rounding, which differs between machines, does not choose the start."""
    results = [
        KMeansResult(k, None, inertia, 1, True, 0, None, None)
        for k, inertia in enumerate(inertias)
    ]
    best = best_of_starts(lambda rng: results[rng], range(len(results)))
    assert best.centers == kept
    assert best_start(results).centers == kept
