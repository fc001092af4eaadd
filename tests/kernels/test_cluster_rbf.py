"""Laws of the kernels that are shaped by covariances."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgWarning
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from kaucus import LSSVMClassifier
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.kernels import (
    Cauchy,
    ClusterRBF,
    Exponential,
    Gaussian,
    KernelOperator,
    Linear,
    MahalanobisRBF,
    NearestCenter,
    _kernel,
    gamma_path,
)
from kaucus.kernels._cells import matrices_of, regularise_covariances
from tests.arrays import EPS, array, assert_close, assert_to_rounding, same_bits
from tests.reference import cluster_rbf as reference
from tests.reference.kernels import matrix

D = 3
CENTERS = np.array([[-1.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.0, -2.0, 1.0]])
KINDS = ["full", "diag", "radial"]
NORMALIZATIONS = ["unit", "determinant", "density"]
TOLERANCE = {"float32": 3e-5, "float64": 1e-12}


def covariances_of(kind, rng, k=3, d=D):
    """Return random covariances of very different shapes."""
    if kind == "radial":
        return rng.uniform(0.2, 5.0, size=k)
    if kind == "diag":
        return rng.uniform(0.2, 5.0, size=(k, d))
    roots = rng.normal(size=(k, d, d)) * rng.uniform(0.3, 2.0, size=(k, 1, 1))
    return roots @ np.swapaxes(roots, 1, 2) + 0.1 * np.eye(d)


@pytest.fixture
def rows(rng):
    X, Y = (2 * rng.normal(size=(n, D)) for n in (31, 17))
    Y[3] = X[7]
    return X, Y


def kernel_of(kind, rng, normalization="unit", gamma=0.6):
    covariances = covariances_of(kind, rng)
    return ClusterRBF(NearestCenter(CENTERS), covariances, gamma, normalization)


# ---- the formula -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_equals_the_theorem(xp, dtype, rng, rows, kind, normalization):
    X, Y = rows[0][:12].astype(dtype), rows[1][:9].astype(dtype)
    kernel = kernel_of(kind, rng, normalization)

    def one_pair(x, y):
        return reference.cluster_rbf(
            x, y, kernel.partition, kernel.covariances, 0.6, normalization
        )

    expected = matrix(one_pair, X, Y)
    K = kernel(array(xp, X), array(xp, Y))
    assert dtype_name(K) == dtype
    assert_close(K, expected, rtol=0, atol=TOLERANCE[dtype] * expected.max())
    whole = to_numpy(kernel(array(xp, X)))
    assert np.array_equal(whole, whole.T)
    assert_close(kernel.diag(array(xp, X)), np.diag(whole), rtol=8 * EPS[dtype])


@pytest.mark.parametrize("d", [1, 2])
def test_is_the_integral_of_a_product_of_two_gaussians(rng, d):
    covariances = covariances_of("full", rng, k=2, d=d)
    X = rng.normal(size=(3, d))
    kernel = ClusterRBF(
        NearestCenter(X[:2]), covariances, gamma=0.7, normalization="density"
    )
    cells = kernel.partition(X)
    assert set(cells) == {0, 1}
    K = kernel(X)
    for i in range(3):
        for j in range(i + 1):
            shapes = (covariances[cells[i]], covariances[cells[j]])
            expected = reference.integral(X[i], X[j], *shapes, gamma=0.7)
            assert K[i, j] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_restrictions_are_the_full_kernel_of_the_same_matrices(rng, rows, kind):
    small = kernel_of(kind, rng)
    full = [reference.matrix_of(S, D) for S in small.covariances]
    wide = ClusterRBF(small.partition, np.stack(full), small.gamma)
    assert_close(small(*rows), wide(*rows), rtol=1e-11)


def test_with_identities_it_is_the_rbf_kernel(xp, dtype, rows):
    X, Y = (array(xp, A, dtype) for A in rows)
    expected = Gaussian(gamma=0.4)(X, Y)
    for identities in (np.stack([np.eye(D)] * 3), np.ones((3, D)), np.ones(3)):
        K = ClusterRBF(NearestCenter(CENTERS), identities, gamma=0.8)(X, Y)
        assert_close(K, expected, rtol=0, atol=20 * EPS[dtype])


@pytest.mark.parametrize("kind", KINDS)
def test_with_one_cell_it_is_the_mahalanobis_rbf(xp, dtype, rng, rows, kind):
    X, Y = (array(xp, A, dtype) for A in rows)
    [Sigma] = covariances_of(kind, rng, k=1)
    one = ClusterRBF(NearestCenter(CENTERS[:1]), [Sigma], gamma=0.8)
    expected = MahalanobisRBF(Sigma, gamma=0.4)(X, Y)
    assert_close(one(X, Y), expected, rtol=0, atol=50 * EPS[dtype])


@pytest.mark.parametrize("kind", KINDS)
def test_the_mahalanobis_rbf(xp, dtype, rng, rows, kind):
    [Sigma] = covariances_of(kind, rng, k=1)
    X, Y = (A.astype(dtype) for A in rows)
    kernel = MahalanobisRBF(Sigma, gamma=0.3)
    expected = matrix(lambda x, y: reference.mahalanobis(x, y, Sigma, 0.3), X, Y)
    K = to_numpy(kernel(array(xp, X), array(xp, Y)))
    assert_close(K, expected, rtol=0, atol=TOLERANCE[dtype])
    assert K[7, 3] == 1  # equal rows
    white = X @ np.linalg.inv(np.linalg.cholesky(reference.matrix_of(Sigma, D))).T
    assert_close(kernel(X), Gaussian(0.3)(white), rtol=0, atol=TOLERANCE[dtype])


# ---- positive semidefinite -------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 5), gamma=st.floats(1e-3, 1e3))
def test_positive_semidefinite_whatever_the_partition(kind, seed, k, gamma):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2)) * rng.uniform(0.1, 10)
    cells = rng.integers(k, size=20)  # not even connected
    covariances = covariances_of(kind, rng, k=k, d=2)
    for normalization in NORMALIZATIONS:
        kernel = ClusterRBF(lambda X: cells, covariances, gamma, normalization)
        K = kernel(X)
        assert np.linalg.eigvalsh(K)[0] >= -1e-12 * K.max() * len(X)


# ---- gamma -----------------------------------------------------------------------


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_another_gamma_equals_recomputation(rng, rows, kind, normalization):
    kernel = kernel_of(kind, rng, normalization)
    again = ClusterRBF(kernel.partition, kernel.covariances, 3.0, normalization)
    assert kernel.with_gamma(3.0) == again
    assert kernel.gamma == 0.6
    assert_to_rounding(kernel.with_gamma(3.0)(*rows), again(*rows))


@pytest.mark.parametrize("of_pair", [False, True])
def test_one_matrix_of_distances_gives_every_gamma(
    xp, dtype, rng, rows, of_pair, monkeypatch
):
    monkeypatch.setattr("kaucus.kernels._kernel.tile_shape", lambda *args: (17, 15))
    X, Y = (array(xp, A, dtype) for A in rows)
    arguments = (X, Y) if of_pair else (X,)
    kernels = [kernel_of(kind, rng, "determinant", gamma=5.0) for kind in KINDS]
    kernels += [kernel_of("full", rng, "density"), MahalanobisRBF(np.eye(D) + 0.5)]
    kernels += [Gaussian(), Exponential(), Cauchy()]
    for kernel in kernels:
        path = gamma_path(kernel, *arguments)
        before = to_numpy(path.distances).copy()
        for gamma in (1e-5, 1.0, 1e3):
            fresh = getattr(kernel, "with_gamma", type(kernel))(gamma)
            expected = to_numpy(fresh(*arguments))
            atol = TOLERANCE[dtype] * expected.max()
            assert_close(path.matrix(gamma), expected, rtol=0, atol=atol)
        assert same_bits(path.distances, before)


def test_a_path_needs_a_kernel_of_distances():
    with pytest.raises(ValueError, match="not a function of a distance and gamma"):
        gamma_path(Linear(), np.eye(2))


@pytest.mark.parametrize("of_pair", [False, True])
def test_kernels_that_share_distances_are_themselves(xp, dtype, rng, rows, of_pair):
    X, Y = (array(xp, A, dtype) for A in rows)
    arguments = (X, Y) if of_pair else (X,)
    kernels = [Gaussian(gamma=0.3), Linear(), Exponential(gamma=2.0), Cauchy()]
    kernels += [Gaussian(gamma=5.0), MahalanobisRBF(np.eye(D) + 0.5)]
    matrix = matrices_of(kernels, *arguments)
    for kernel in (*kernels, *kernels):  # in any order, as often as one likes
        expected = to_numpy(kernel(*arguments))
        atol = TOLERANCE[dtype] * abs(expected).max()
        assert_close(matrix(kernel), expected, rtol=0, atol=atol)


# ---- numbers of any size ---------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_sixty_dimensions_neither_under_nor_overflow(rng, scale):
    """det Σ is 1e-720 or 1e+720 at the ends: no number at all."""
    X = scale * rng.normal(size=(200, 60))
    cells = np.arange(200) % 2
    covariances = [np.cov(X[cells == i].T) for i in (0, 1)]
    with np.errstate(under="ignore", over="ignore"):
        assert scale == 1 or np.linalg.det(covariances[0]) in (0, np.inf)
    K = ClusterRBF(lambda X: cells, covariances, gamma=0.1)(X)
    assert np.all(np.diag(K) == 1)
    assert np.isfinite(K).all()
    within, across = K[0, 2], K[0, 1]
    assert 1e-5 < within < 1
    assert 0 < across < 1
    unscaled = [S / scale**2 for S in covariances]
    same = ClusterRBF(lambda X: cells, unscaled, gamma=0.1)(X / scale)
    assert_close(K, same, rtol=1e-9)


def test_a_factor_too_large_for_the_precision_is_refused(rng):
    X = 1e-3 * rng.normal(size=(200, 60))
    kernel = ClusterRBF(
        lambda X: np.zeros(len(X), int), [np.cov(X.T)], normalization="determinant"
    )
    assert np.isfinite(kernel(X)).all()
    with pytest.raises(ValueError, match=r"10\^1\d\d, beyond float32; use .*'unit'"):
        kernel(X.astype("float32"))


# ---- regularisation --------------------------------------------------------------


def test_a_good_covariance_is_left_alone(rng):
    covariances = covariances_of("full", rng)
    regular, epsilons = regularise_covariances(covariances)
    assert same_bits(regular, covariances)
    assert not epsilons.any()


def test_a_singular_covariance_is_mixed_with_that_of_all_rows(rng):
    X = rng.normal(size=(40, D))
    flat = X[:20] * [1, 1, 0]
    A = np.cov(np.r_[flat, X[20:]].T)
    given = np.stack([np.cov(flat.T), np.cov(X[20:].T)])
    before = given.copy()
    regular, epsilons = regularise_covariances(given, A)
    assert epsilons.tolist() == [1e-10, 0]
    assert_close(regular[0], (1 - 1e-10) * given[0] + 1e-10 * A, rtol=1e-14)
    assert same_bits(regular[1], given[1])
    assert same_bits(given, before)


@pytest.mark.parametrize("units", [1.0, 1e-8, 1e8])
def test_the_test_does_not_depend_on_units(rng, units):
    """A determinant of 1e-160 is no sign of a singular covariance."""
    scales = np.array([1.0, units, units**2])[:D]
    covariances = covariances_of("full", rng) * scales[:, None] * scales[None, :]
    _, epsilons = regularise_covariances(covariances)
    assert not epsilons.any()
    singular = covariances.copy()
    singular[1, 0], singular[1, :, 0] = 0, 0
    _, epsilons = regularise_covariances(singular)
    assert np.flatnonzero(epsilons).tolist() == [1]


def test_epsilon_grows_until_it_suffices():
    given = np.array([[[1.0, 0.0], [0.0, -3e-9]], np.eye(2)])
    regular, epsilons = regularise_covariances(given, np.eye(2))
    assert epsilons.tolist() == [pytest.approx(1e-8), 0]
    assert np.linalg.eigvalsh(regular[0])[0] > 0


def test_a_negative_covariance_is_refused():
    bad = np.array([[[1.0, 2.0], [2.0, 1.0]], np.eye(2)])
    with pytest.raises(
        NotPositiveDefiniteError, match="cell 0 has a negative variance"
    ):
        regularise_covariances(bad)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_tells_once_that_it_regularised(rng, rows, kind):
    covariances = covariances_of(kind, rng)
    covariances[1] = 0
    with pytest.warns(LinAlgWarning, match=r"the cells \[1\] is singular") as told:
        kernel = ClusterRBF(NearestCenter(CENTERS), covariances)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert np.isfinite(kernel(*rows)).all()  # and says nothing more
    assert np.isfinite(kernel.with_gamma(2.0)(*rows)).all()


def test_whole_columns_that_do_not_vary_are_no_harm(rng):
    X = np.c_[rng.normal(size=(30, 2)), np.ones(30)]
    with pytest.warns(LinAlgWarning, match="given is singular"):
        K = MahalanobisRBF(np.cov(X.T), gamma=0.5)(X)
    expected = MahalanobisRBF(np.cov(X[:, :2].T), gamma=0.5)(X[:, :2])
    assert_close(K, expected, rtol=1e-8)


# ---- cells -----------------------------------------------------------------------


def test_nearest_center_is_the_nearest_center(xp, dtype, rng):
    X = rng.normal(size=(5000, D)).astype(dtype)  # more than one block of rows
    cells = NearestCenter(CENTERS)(array(xp, X))
    distances = ((X[:, None, :] - CENTERS[None]) ** 2).sum(axis=2)
    assert np.array_equal(to_numpy(cells), distances.argmin(axis=1))


def test_partitions_that_are_functions_objects_and_clusterers(rows):
    clusterer = KMeans(3, n_init=1, random_state=0).fit(rows[0])
    covariances = np.stack([np.eye(D), 2 * np.eye(D), 3 * np.eye(D)])
    results = [
        ClusterRBF(partition, covariances)(*rows)
        for partition in (
            clusterer,
            clusterer.predict,
            NearestCenter(clusterer.cluster_centers_),
        )
    ]
    assert_to_rounding(results[1], results[0])
    assert_to_rounding(results[2], results[0])


@pytest.mark.parametrize("tile", [(1, 1), (4, 9), (50, 50)])
def test_tiles_of_any_shape_and_order_of_cells(rng, rows, tile, monkeypatch):
    kernel = kernel_of("full", rng)
    whole = kernel(*rows)
    monkeypatch.setattr(_kernel, "tile_shape", lambda *args: tile)
    assert_close(kernel(*rows), whole, rtol=1e-12)
    order = np.argsort(kernel.partition(rows[0]), kind="stable")
    assert_close(kernel(rows[0][order], rows[1]), whole[order], rtol=1e-12)


def test_an_operator_multiplies_without_the_matrix(rng, rows):
    kernel, X = kernel_of("full", rng), rows[0]
    V = rng.normal(size=(len(X), 2))
    operator = KernelOperator(kernel, X, memory_budget=20_000, keep=None)
    assert_close(operator.matmul(V), kernel(X) @ V, rtol=1e-10)
    assert_close(operator.diagonal(), np.ones(len(X)))


@pytest.mark.parametrize(
    ("cells", "match"),
    [
        (lambda X: np.full(len(X), 3), "cells from 3 to 3; expected 0 to 2"),
        (lambda X: np.full(len(X), -1), "cells from -1 to -1; expected 0 to 2"),
        (lambda X: np.zeros(len(X)), r"dtype float64 .*one whole number for each row"),
        (lambda X: 0, r"shape \(\) .* for 31 rows"),
        (lambda X: np.zeros((len(X), 1), int), r"shape \(31, 1\)"),
    ],
)
def test_what_a_partition_must_not_return(rows, cells, match):
    kernel = ClusterRBF(cells, np.ones(3))
    with pytest.raises(ValueError, match=match):
        kernel(rows[0])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((None, np.ones(3)), "partition=None is not callable and has no predict"),
        ((KMeans.predict, np.ones((2, 3, 4))), r"shape \(2, 3, 4\); expected \(n_ce"),
        ((KMeans.predict, np.ones(0)), r"shape \(0,\); expected"),
        ((KMeans.predict, [np.nan]), "NaN or infinity"),
        ((KMeans.predict, [[[1.0, 0.5], [0.0, 1.0]]]), "is not symmetric"),
        ((KMeans.predict, [1.0], 0.0), "gamma=0.0 must be a positive"),
        ((KMeans.predict, [1.0], "scale"), "gamma='scale' must be a positive"),
        ((KMeans.predict, [1.0], 1.0, "none"), "normalization='none' must be one of"),
    ],
)
def test_bad_parameters(arguments, match):
    with pytest.raises(ValueError, match=match):
        ClusterRBF(*arguments)


def test_rows_of_another_width_are_refused(rng):
    kernel = kernel_of("full", rng)
    for method in (kernel, kernel.diag, MahalanobisRBF(np.eye(D))):
        with pytest.raises(ValueError, match=r"X has 2 features, .*of 3"):
            method(np.ones((4, 2)))


# ---- as values -------------------------------------------------------------------


def test_equality_hash_pickle_copy_and_repr(rng, rows):
    Sigma = covariances_of("full", rng)
    kernels = [
        ClusterRBF(NearestCenter(CENTERS), Sigma),
        ClusterRBF(NearestCenter(CENTERS), Sigma, gamma=2.0),
        ClusterRBF(NearestCenter(CENTERS), Sigma, normalization="determinant"),
        ClusterRBF(NearestCenter(CENTERS + 1), Sigma),
        ClusterRBF(NearestCenter(CENTERS), 2 * Sigma),
        MahalanobisRBF(Sigma[0]),
        MahalanobisRBF(Sigma[1]),
        MahalanobisRBF(2.0),
    ]
    assert len(set(kernels)) == len(kernels)
    for kernel in kernels:
        for twin in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
            assert twin == kernel
            assert hash(twin) == hash(kernel)
            assert_to_rounding(twin(*rows), kernel(*rows))
        assert kernel != Gaussian()
        with pytest.raises(AttributeError):
            kernel.gamma = 3.0
        with pytest.raises((ValueError, TypeError, IndexError)):
            getattr(kernel, "covariances", kernel.__dict__.get("covariance"))[0] = 1.0
    assert repr(kernels[0]) == (
        "ClusterRBF(partition=NearestCenter(<3 centers of 3 features>), covariances="
        "<3 × 3 × 3>, gamma=1.0, normalization='unit')"
    )
    assert repr(kernels[5]) == "MahalanobisRBF(covariance=<3 × 3>, gamma=1.0)"
    assert repr(kernels[7]) == "MahalanobisRBF(covariance=2, gamma=1.0)"


# ---- inside classifiers ----------------------------------------------------------


@pytest.fixture
def iris_kernel():
    X, y = load_iris(return_X_y=True)
    clusterer = KMeans(2, n_init=1, random_state=0).fit(X)
    covariances = [np.cov(X[clusterer.labels_ == i].T) for i in (0, 1)]
    return X, y, ClusterRBF(clusterer, covariances, gamma=0.5)


def test_in_scikit_learns_svc(iris_kernel):
    X, y, kernel = iris_kernel
    model = SVC(C=10.0, kernel=kernel).fit(X, y)
    given = SVC(C=10.0, kernel="precomputed").fit(kernel(X), y)
    assert model.score(X, y) > 0.97
    assert_close(model.decision_function(X), given.decision_function(kernel(X)))


def test_in_an_ls_svm(iris_kernel):
    X, y, kernel = iris_kernel
    model = LSSVMClassifier(C=10.0, kernel=kernel).fit(X, y)
    given = LSSVMClassifier(C=10.0, kernel="precomputed").fit(kernel(X), y)
    assert model.score(X, y) > 0.97
    assert_close(
        model.decision_function(X), given.decision_function(kernel(X)), rtol=1e-6
    )
    streamed = LSSVMClassifier(C=10.0, kernel=kernel, solver="cg", tol=1e-10)
    streamed.set_params(memory_budget="256KiB", random_state=0).fit(X, y)
    assert_close(streamed.decision_function(X), model.decision_function(X), rtol=1e-5)
