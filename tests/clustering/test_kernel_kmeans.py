"""Laws of kernel k-means: what Algorithm 2 and eq. (7) promise."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kaucus._array.namespace import to_numpy
from kaucus.clustering import _kernel_kmeans
from kaucus.clustering._kernel_kmeans import (
    best_start,
    choose_landmarks,
    kernel_kmeans,
    kernel_kmeans_on_landmarks,
    labels_objective,
    make_gram,
    total_scatter,
)
from kaucus.kernels import (
    Exponential,
    Gaussian,
    KernelOperator,
    Linear,
    Polynomial,
    Precomputed,
)
from tests.arrays import array
from tests.reference import kernel_kmeans as naive
from tests.reference.kmeans import euclidean_lloyd


def rng_of(seed=0):
    return np.random.default_rng(seed)


def blobs(seed=0, n=120, d=3, k=4):
    rng = rng_of(seed)
    means = 3 * rng.normal(size=(k, d))
    return means[rng.integers(k, size=n)] + 0.7 * rng.normal(size=(n, d))


def random_kernel(seed, n, rank):
    """A positive semidefinite matrix whose diagonal is anything but 1."""
    F = rng_of(seed).normal(size=(n, rank)) * rng_of(seed + 1).uniform(0.1, 5, (n, 1))
    return F @ F.T


def given_matrix(K):
    kernel = Precomputed(K)
    return make_gram(kernel, kernel.row_numbers())


def cluster(gram, k, **options):
    options = {"init": "random", "rng": rng_of()} | options
    return best_start(kernel_kmeans(gram, k, **options))


def start(n, k, seed=0):
    """Random clusters, none of them empty."""
    return rng_of(seed).permutation(np.arange(n) % k)


# ---- eq. (7) and Algorithm 2 -------------------------------------------------------


@pytest.mark.parametrize("n_iter", [1, 2, 3, 10])
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_naive_reference_step_by_step(seed, n_iter):
    K, first = random_kernel(seed, 60, 4), start(60, 3, seed)
    expected = naive.lloyd(K, first, 3, n_iter=n_iter)
    result = cluster(given_matrix(K), 3, init=first, max_iter=n_iter)
    assert_array_equal(result.labels, expected)
    assert_allclose(result.inertia, naive.objective(K, expected, 3), rtol=1e-10)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(6, 40),
    k=st.integers(1, 4),
    n_iter=st.integers(1, 5),
)
def test_equals_the_naive_reference_on_any_kernel_and_weights(seed, n, k, n_iter):
    K, first = random_kernel(seed, n, 3), start(n, k, seed)
    weight = rng_of(seed).uniform(0.2, 3, n)
    labels = naive.lloyd(K, first, k, n_iter=n_iter, weight=weight)
    steps = [naive.lloyd(K, first, k, n_iter=i, weight=weight) for i in range(n_iter)]
    if any(len(np.unique(step)) < k for step in [*steps, labels]):
        return  # the reference cannot go on without rows
    result = cluster(
        given_matrix(K), k, init=first, max_iter=n_iter, sample_weight=weight
    )
    assert_array_equal(result.labels, labels)


def test_works_on_every_array_library_in_both_precisions(xp, dtype):
    X = array(xp, blobs(), dtype)
    result = cluster(make_gram(Gaussian(0.2), X), 4, init="k-means++")
    expected = cluster(make_gram(Gaussian(0.2), blobs()), 4, init="k-means++")
    assert_array_equal(to_numpy(result.labels), expected.labels)
    rtol = 1e-12 if dtype == "float64" else 1e-5
    assert_allclose(result.inertia, expected.inertia, rtol=rtol)
    assert type(result.labels) is type(xp.asarray([1]))


@pytest.mark.parametrize("n_iter", [1, 2, 5])
def test_a_linear_kernel_is_k_means_step_by_step(n_iter):
    X = blobs()
    first = ((X[:, None] - X[None, :4]) ** 2).sum(axis=2).argmin(axis=1)
    centers = np.array([X[first == c].mean(axis=0) for c in range(4)])
    _, expected = euclidean_lloyd(X, centers, n_iter=n_iter - 1)
    result = cluster(make_gram(Linear(), X), 4, init=first, max_iter=n_iter)
    assert_array_equal(result.labels, expected)


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3), Polynomial(2, 1.0, 1.0)])
def test_the_objective_never_rises(kernel):
    gram, first = make_gram(kernel, blobs(1)), start(120, 5)
    values = [
        cluster(gram, 5, init=first, max_iter=steps).inertia for steps in range(1, 15)
    ]
    assert all(b <= a for a, b in itertools.pairwise(values))
    assert values[-1] < 0.9 * values[0]


def test_an_indefinite_kernel_keeps_the_clusters_before_the_rise():
    A = rng_of(3).normal(size=(40, 40))
    K = A + A.T
    gram, seen = given_matrix(K), 0
    for seed in range(20):
        first = start(40, 3, seed)
        result = cluster(gram, 3, init=first)
        before = naive.objective(K, first, 3)
        assert result.inertia <= before + 1e-9
        assert_allclose(result.inertia, naive.objective(K, to_numpy(result.labels), 3))
        seen += result.rose
        assert result.rose != result.converged
    assert seen  # else this test shows nothing


@pytest.mark.parametrize("constant", [-2.5, 1e3])
def test_adding_a_constant_to_a_linear_kernel_changes_nothing(constant):
    X, first = blobs(2), start(120, 4)
    K = X @ X.T
    plain = cluster(given_matrix(K), 4, init=first)
    shifted = cluster(given_matrix(K + constant), 4, init=first)
    assert_array_equal(plain.labels, shifted.labels)
    assert_allclose(plain.inertia, shifted.inertia, rtol=1e-8)


@given(seed=st.integers(0, 10**6))
def test_permuting_the_rows_permutes_the_labels(seed):
    X, first = blobs(seed % 7), start(120, 4, seed)
    order = rng_of(seed).permutation(120)
    labels = cluster(make_gram(Gaussian(0.3), X), 4, init=first).labels
    permuted = cluster(make_gram(Gaussian(0.3), X[order]), 4, init=first[order]).labels
    assert_array_equal(labels[order], permuted)


def test_as_many_clusters_as_rows_cost_nothing():
    X = blobs(n=30)
    result = cluster(make_gram(Gaussian(0.3), X), 30, init="k-means++")
    assert_allclose(result.inertia, 0, atol=1e-12)
    assert len(np.unique(result.labels)) == 30


def test_the_scatter_is_the_objective_of_one_cluster():
    X = blobs()
    assert_allclose(
        total_scatter(make_gram(Linear(), X)), 120 * X.var(axis=0).sum(), rtol=1e-12
    )


# ---- weights -----------------------------------------------------------------------


def test_a_weight_of_two_is_two_equal_rows():
    X, first = blobs(), start(120, 4)
    weight = rng_of().integers(1, 4, size=120)
    twice = np.repeat(np.arange(120), weight)
    weighted = cluster(
        make_gram(Gaussian(0.3), X), 4, init=first, sample_weight=weight.astype(float)
    )
    repeated = cluster(make_gram(Gaussian(0.3), X[twice]), 4, init=first[twice])
    assert_array_equal(weighted.labels[twice], repeated.labels)
    assert_allclose(weighted.inertia, repeated.inertia, rtol=1e-10)


def test_rows_of_weight_zero_are_labelled_but_do_not_pull():
    X, first = blobs(), start(120, 4)
    weight = np.where(np.arange(120) < 90, 1.0, 0.0)
    some = cluster(make_gram(Gaussian(0.3), X), 4, init=first, sample_weight=weight)
    alone = cluster(make_gram(Gaussian(0.3), X[:90]), 4, init=first[:90])
    assert_array_equal(some.labels[:90], alone.labels)
    D = naive.distances(Gaussian(0.3)(X), to_numpy(some.labels), 4, weight + 1e-300)
    assert_array_equal(some.labels[90:], D[90:].argmin(axis=1))


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_normalised_cuts_come_out_of_weights_and_degrees(sigma):
    """Dhillon, Guan, Kulis (2004): the objective is the cut up to a constant."""
    A = Gaussian(2.0)(blobs(n=50))
    degrees = A.sum(axis=1)
    n, k = 50, 3
    K = sigma * np.diag(1 / degrees) + A / np.outer(degrees, degrees)
    gram = given_matrix(K)

    def normalised_cut(labels):
        parts = [labels == c for c in range(k)]
        return sum(A[m][:, ~m].sum() / degrees[m].sum() for m in parts)

    constant = np.trace(K @ np.diag(degrees)) - sigma * k - k
    for seed in range(5):
        labels = start(n, k, seed)
        value = labels_objective(gram, labels, k, degrees)
        assert_allclose(value, constant + normalised_cut(labels), rtol=1e-9)
        found = cluster(gram, k, init=labels, sample_weight=degrees)
        gain = normalised_cut(labels) - normalised_cut(to_numpy(found.labels))
        assert gain >= -1e-9
        if sigma == 0:  # a large σ makes every start a local minimum
            assert gain > 0.1
    best = cluster(gram, k, n_init=20, init="k-means++", sample_weight=degrees)
    cuts = [normalised_cut(start(n, k, seed)) for seed in range(50)]
    assert normalised_cut(to_numpy(best.labels)) < min(cuts)


# ---- empty clusters, starts, interruption ------------------------------------------


def test_empty_clusters_are_given_the_worst_rows_and_counted():
    X = blobs(n=60)
    result = cluster(make_gram(Gaussian(0.3), X), 5, init=np.zeros(60, dtype=int))
    assert len(np.unique(result.labels)) == 5
    assert result.n_reseeded == 4


def test_fewer_different_rows_than_clusters_leave_clusters_empty():
    X = np.repeat([[0.0], [1.0], [5.0]], 4, axis=0)
    result = cluster(make_gram(Gaussian(0.3), X), 5, init="k-means++")
    assert len(np.unique(result.labels)) == 3
    assert_allclose(result.inertia, 0, atol=1e-12)


def test_starts_side_by_side_equal_starts_one_by_one():
    gram = make_gram(Gaussian(0.3), blobs())
    options = {"init": "random", "n_init": 6}
    together = kernel_kmeans(gram, 4, rng=rng_of(), **options)
    alone = kernel_kmeans(gram, 4, rng=rng_of(), memory_budget=1, **options)
    for a, b in zip(together, alone, strict=True):
        assert_array_equal(a.labels, b.labels)
        assert a.n_iter == b.n_iter
    assert len({round(r.inertia, 9) for r in together}) > 1
    assert best_start(together).inertia == min(r.inertia for r in together)


def test_seeds_far_apart_begin_lower_than_random_clusters():
    gram = make_gram(Gaussian(0.3), blobs(k=8, n=200))
    first = {
        init: np.mean(
            [
                r.inertia
                for r in kernel_kmeans(
                    gram, 8, init=init, n_init=10, max_iter=1, rng=rng_of()
                )
            ]
        )
        for init in ("k-means++", "random")
    }
    assert first["k-means++"] < 0.9 * first["random"]


def test_sums_of_moved_rows_equal_full_products(monkeypatch):
    gram, first = make_gram(Gaussian(0.3), blobs(n=400)), start(400, 6)
    by_moves = cluster(gram, 6, init=first)
    monkeypatch.setattr(_kernel_kmeans, "_MANY", -1.0)  # always the whole product
    in_full = cluster(gram, 6, init=first)
    assert_array_equal(by_moves.labels, in_full.labels)
    assert_allclose(by_moves.inertia, in_full.inertia, rtol=1e-13)


def test_only_columns_of_moved_rows_are_read_at_the_end(monkeypatch):
    gram = make_gram(Gaussian(0.3), blobs(n=400))
    read = []
    original = KernelOperator.columns_matmul

    def counting(self, rows, V):
        read.append(rows.shape[0])
        return original(self, rows, V)

    monkeypatch.setattr(KernelOperator, "columns_matmul", counting)
    result = cluster(gram, 6, init=start(400, 6))
    assert result.n_iter > 4
    assert read
    assert max(read) <= 400 / 3
    assert read[-1] < 40


def test_tol_ends_early_with_a_higher_objective():
    gram, first = make_gram(Gaussian(0.3), blobs(n=400)), start(400, 6)
    early, late = (cluster(gram, 6, init=first, tol=tol) for tol in (0.1, 0.0))
    assert early.n_iter < late.n_iter
    assert early.inertia > late.inertia
    assert early.converged


def test_a_callback_sees_the_steps_and_may_end_them():
    seen = []

    def stop_after_two(step, share, made):
        seen.append((step, share, made().inertia))
        return step == 2

    result = cluster(
        make_gram(Gaussian(0.3), blobs()),
        4,
        init=start(120, 4),
        callback=stop_after_two,
    )
    assert [step for step, *_ in seen] == [1, 2]
    assert all(0 < share <= 1 for _, share, _ in seen)
    assert seen[0][-1] > seen[1][-1] == result.inertia
    assert result.n_iter == 2


# ---- what does not fit, and landmarks ----------------------------------------------


def test_a_streamed_matrix_gives_the_same_as_a_stored_one(xp, dtype):
    X = array(xp, blobs(n=300), dtype)
    stored = make_gram(Exponential(0.5), X)
    streamed = make_gram(Exponential(0.5), X, memory_budget=100_000)
    assert streamed.stored_share < stored.stored_share == 1
    a, b = (cluster(g, 5, n_init=2, init="k-means++") for g in (stored, streamed))
    assert_array_equal(to_numpy(a.labels), to_numpy(b.labels))
    assert_allclose(a.inertia, b.inertia, rtol=1e-12 if dtype == "float64" else 1e-6)


def on_landmarks(kernel, X, landmarks, **options):
    options = {"init": "random", "n_init": 3, "rng": rng_of()} | options
    return kernel_kmeans_on_landmarks(kernel, X, landmarks, 4, **options)


def test_all_rows_as_landmarks_are_exact(xp):
    X = array(xp, blobs())
    a = cluster(make_gram(Gaussian(0.3), X), 4, n_init=3)
    b = on_landmarks(Gaussian(0.3), X, X)
    assert_array_equal(to_numpy(a.labels), to_numpy(b.labels))
    assert_allclose(a.inertia, b.inertia, rtol=1e-6)


@pytest.mark.parametrize("method", ["k-means", "uniform", "rpcholesky"])
def test_an_approximate_objective_bounds_the_exact_one_from_above(method, dtype, xp):
    X = array(xp, blobs(n=150), dtype)
    kernel = Gaussian(0.2)
    landmarks = choose_landmarks(kernel, X, 30, method=method, rng=rng_of())
    assert landmarks.shape[0] <= 30
    result = on_landmarks(kernel, X, landmarks)
    exact = labels_objective(make_gram(kernel, X), result.labels, 4)
    best = cluster(make_gram(kernel, X), 4, n_init=3)
    assert exact <= result.inertia * (1 + 1e-5)
    assert best.inertia <= exact * (1 + 1e-5)
    assert exact <= 1.02 * best.inertia
    streamed = on_landmarks(kernel, X, landmarks, memory_budget=40_000)
    assert_allclose(streamed.inertia, result.inertia, rtol=1e-4)


def test_pivots_represent_better_than_random_rows():
    """One cluster of many rows and three far, small ones: chance misses those."""
    X = rng_of().normal(size=(1000, 2))
    X[:12] = 8.0 * np.repeat(np.eye(3, 2), 4, axis=0) + 8 + 0.1 * X[:12]
    kernel = Gaussian(0.5)
    errors = {}
    for method in ("rpcholesky", "uniform"):
        values = []
        for seed in range(5):
            L = choose_landmarks(kernel, X, 15, method=method, rng=rng_of(seed))
            C, K_mm = kernel(X, L), kernel(L) + 1e-10 * np.eye(len(L))
            values.append(1000 - np.sum(C * np.linalg.solve(K_mm, C.T).T))
        errors[method] = np.mean(values)
    assert errors["rpcholesky"] < 0.95 * errors["uniform"]
