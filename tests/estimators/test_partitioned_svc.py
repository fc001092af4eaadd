"""Support vector classifiers on a partition: against SVC, and their own promises."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from kaucus import ClusterRBFSVC, LocalSVC
from kaucus.kernels import ClusterRBF, MahalanobisRBF
from tests.arrays import assert_to_rounding

BOTH = [ClusterRBFSVC(random_state=0), LocalSVC(random_state=0)]
each = pytest.mark.parametrize("model", BOTH, ids=lambda m: type(m).__name__)
COVARIANCES = ["full", "diag", "radial"]


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(160, noise=0.2, random_state=0)
    return X[:120], y[:120], X[120:], y[120:]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::2], y[::2], X[1::2], y[1::2]


def right_of(X):
    return (X[:, 0] > 0.5).astype(int)


@pytest.mark.parametrize("data", ["moons", "iris"])
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("normalization", ["unit", "determinant", "density"])
def test_cluster_rbf_svc_is_svc_with_the_kernel(
    request, data, covariance, normalization
):
    X, y, X_new, _ = request.getfixturevalue(data)
    model = ClusterRBFSVC(
        C=3.0,
        gamma=0.4,
        covariance=covariance,
        normalization=normalization,
        random_state=0,
    ).fit(X, y)
    assert isinstance(model.kernel_, ClusterRBF)
    assert (model.kernel_.gamma, model.kernel_.n_cells) == (0.4, 2)
    svc = SVC(C=3.0, kernel=model.kernel_).fit(X, y)
    assert_allclose(
        model.decision_function(X_new), svc.decision_function(X_new), atol=1e-6
    )
    assert_array_equal(model.predict(X_new), svc.predict(X_new))


def test_the_covariances_are_those_of_the_cells(moons):
    X, y, *_ = moons
    model = ClusterRBFSVC(partition=right_of).fit(X, y)
    for i in range(2):
        expected = np.cov(X[right_of(X) == i].T, ddof=0)
        assert_allclose(model.covariances_[i], expected, rtol=1e-12)
    assert not model.epsilon_.any()


def test_one_cell_is_the_mahalanobis_rbf(moons):
    X, y, X_new, _ = moons
    one = ClusterRBFSVC(C=2.0, gamma=0.6, n_clusters=1).fit(X, y)
    kernel = MahalanobisRBF(np.cov(X.T, ddof=0), gamma=0.3)
    svc = SVC(C=2.0, kernel=kernel).fit(X, y)
    assert_allclose(one.decision_function(X_new), svc.decision_function(X_new))
    local = LocalSVC(C=2.0, gamma=0.3, n_clusters=1).fit(X, y)
    assert_allclose(local.decision_function(X_new), svc.decision_function(X_new))


@pytest.mark.parametrize("data", ["moons", "iris"])
def test_local_svc_is_one_svc_in_each_cell(request, data):
    X, y, X_new, y_new = request.getfixturevalue(data)
    model = LocalSVC(C=3.0, gamma=0.4, partition=right_of, n_jobs=2)
    if data == "iris":
        model.set_params(partition="kmeans", random_state=0)
    model.fit(X, y)
    cells, cells_new = model.partition_(X), model.partition_(X_new)
    for i in range(2):
        inside, new = cells == i, cells_new == i
        labels = np.unique(y[inside])
        if len(labels) == 1:
            expected = np.full(new.sum(), labels[0])
        else:
            kernel = MahalanobisRBF(np.cov(X[inside].T, ddof=0), gamma=0.4)
            svc = SVC(C=3.0, kernel=kernel).fit(X[inside], y[inside])
            expected = svc.predict(X_new[new])
        assert_array_equal(model.predict(X_new[new]), expected)
    assert model.score(X_new, y_new) > 0.8


def test_a_cell_of_one_class_predicts_it():
    X, y = make_blobs(90, centers=[[0, 0], [9, 0], [10.5, 0]], random_state=0)
    model = LocalSVC(random_state=0, C=10.0).fit(X, y)
    [alone] = [m for m in model.svcs_ if isinstance(m, int)]
    assert alone == 0
    assert_array_equal(model.predict([[0.0, 0.0], [-3.0, 4.0]]), [0, 0])
    values = model.decision_function([[0.0, 0.0]])
    assert values.shape == (1, 3)
    # In the other cell the class it has not seen is never the largest.
    assert set(model.predict(X[y > 0])) == {1, 2}
    two = y < 2
    binary = LocalSVC(random_state=0).fit(X[two], y[two])
    assert_array_equal(binary.predict(X[two]), y[two])
    assert binary.decision_function(X[two]).shape == (two.sum(),)


# ---- weights ---------------------------------------------------------------------


@each
def test_a_weight_of_two_is_two_rows_and_of_zero_none(model, iris):
    X, y, X_new, _ = iris
    weight = np.arange(len(y)) % 3
    rows = np.repeat(np.arange(len(y)), weight)
    model = clone(model).set_params(partition=lambda X: (X[:, 2] > 2.5).astype(int))
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X[rows], y[rows])
    assert_allclose(weighted.covariances_, repeated.covariances_, rtol=1e-10)
    assert_array_equal(weighted.predict(X_new), repeated.predict(X_new))


@each
def test_class_weights_are_row_weights(model, moons):
    X, y, X_new, _ = moons
    model = clone(model).set_params(partition=right_of)
    heavy = clone(model).set_params(class_weight={0: 50.0}).fit(X, y)
    assert (heavy.predict(X_new) == 0).sum() > (
        clone(model).fit(X, y).predict(X_new) == 0
    ).sum()


@each
def test_a_class_without_weight_is_never_predicted(model, iris):
    X, y, X_new, _ = iris
    fitted = clone(model).fit(X, y, sample_weight=(y != 1).astype(float))
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.decision_function(X_new).shape == (len(X_new), 3)
    assert set(fitted.predict(X_new)) == {0, 2}


# ---- rows without labels ---------------------------------------------------------


@each
def test_rows_without_labels_shape_the_cells(model, moons):
    X, y, X_new, _ = moons
    alone = clone(model).fit(X, y)
    both = clone(model).fit(X, y, X_unlabeled=X_new)
    joined = np.r_[X, X_new]
    clusters = KMeans(2, n_init=10, random_state=0).fit(joined)
    expected = sorted(
        np.cov(joined[clusters.labels_ == i].T, ddof=0)[0, 0] for i in range(2)
    )
    assert_allclose(sorted(both.covariances_[:, 0, 0]), expected, rtol=1e-10)
    assert not np.allclose(alone.covariances_, both.covariances_)
    assert both.predict(X_new).shape == (len(X_new),)


@each
@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (np.ones((3, 1)), "X has 1 features, .*expecting 2"),
        (np.full((3, 2), np.nan), "contains NaN"),
    ],
)
def test_bad_rows_without_labels(model, moons, bad, match):
    X, y, *_ = moons
    with pytest.raises(ValueError, match=match):
        clone(model).fit(X, y, X_unlabeled=bad)


def test_a_cell_of_unlabelled_rows_only_predicts_the_most_frequent_class(moons):
    X, y, *_ = moons
    far = X + 100.0
    kept = np.r_[np.flatnonzero(y == 1), np.flatnonzero(y == 0)[:20]]
    model = LocalSVC(random_state=0).fit(X[kept], y[kept], X_unlabeled=far)
    assert set(model.predict(far)) == {1}


# ---- what the user is told -------------------------------------------------------


@each
def test_singular_covariances_are_told_once_and_answered(model, moons):
    X, y, *_ = moons
    flat = np.c_[X, np.where(X[:, 0] > 0.5, X[:, 1], 0.0)]
    model = clone(model).set_params(partition=right_of)
    with pytest.warns(LinAlgWarning, match=r"cells \[0, 1\] is singular") as told:
        model.fit(flat, y)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert_array_equal(model.epsilon_ > 0, [True, True])
    assert model.score(flat, y) > 0.8


@each
def test_too_few_steps_are_told_once(model, moons):
    X, y, *_ = moons
    model = clone(model).set_params(max_iter=3)
    with pytest.warns(ConvergenceWarning, match="max_iter=3 steps; increase") as told:
        model.fit(X, y)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert model.n_iter_ == 3


@each
def test_a_matrix_beyond_the_budget_is_refused_at_once(model, moons):
    X, y, *_ = moons
    small = clone(model).set_params(memory_budget="10kB")
    with pytest.raises(
        ValueError, match=r"are needed for a kernel matrix.*memory_budget allows "
    ):
        small.fit(X, y)


@each
def test_more_clusters_than_rows(model, moons):
    X, y, *_ = moons
    with pytest.raises(ValueError, match="n_samples=120 should be >= n_clusters=121"):
        clone(model).set_params(n_clusters=121).fit(X, y)


def test_gamma_scale_gives_the_exponent_that_it_has_in_svc():
    """On data whose covariance is a multiple of the identity both are the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X -= X.mean(axis=0)
    q, _ = np.linalg.qr(X)
    X = 3 * np.sqrt(60) * q  # covariance exactly 9 I
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    svc = SVC().fit(X, y).decision_function(X)
    for model in (ClusterRBFSVC(n_clusters=1), LocalSVC(n_clusters=1)):
        assert_allclose(model.fit(X, y).decision_function(X), svc, atol=1e-6)
    assert ClusterRBFSVC(gamma="auto").fit(X, y).kernel_.gamma == 1 / 3


# ---- in use ----------------------------------------------------------------------


@each
@pytest.mark.parametrize("partition", ["gmm", "dpgmm", "linear", "tree", right_of])
def test_every_partition_classifies(model, moons, partition):
    X, y, X_new, y_new = moons
    fitted = clone(model).set_params(partition=partition, C=10.0).fit(X, y)
    assert fitted.score(X_new, y_new) > 0.8
    assert fitted.n_cells_ == 2
    again = pickle.loads(pickle.dumps(fitted))
    assert_to_rounding(again.decision_function(X_new), fitted.decision_function(X_new))


@each
def test_probabilities_by_calibration(model, moons):
    X, y, X_new, y_new = moons
    calibrated = CalibratedClassifierCV(clone(model), cv=3).fit(X, y)
    assert calibrated.predict_proba(X_new).shape == (40, 2)
    assert calibrated.score(X_new, y_new) > 0.85
