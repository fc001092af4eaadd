"""Metrics learned in cells, in place of covariances: ``covariance="gradient"``."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from kaucus import ClusterRBFSVC, LocalSVC
from kaucus.backend import to_numpy
from kaucus.estimators import cell_kernels, sees_labels
from kaucus.kernels import Gaussian
from kaucus.machines import (
    ClassTargets,
    Family,
    MetricOptions,
    Problem,
    gradient_covariances,
    search_metric,
)
from kaucus.machines._cell_metrics import _SHARE, cell_metric
from tests.arrays import array


def left_or_right(X):
    return (np.asarray(X)[:, 3] > 0).astype(int)


@pytest.fixture(scope="module")
def two_cells():
    """Rows whose label depends on column 0 in one cell and on column 1 in the other."""
    X = np.random.default_rng(0).normal(size=(400, 4))
    cells = left_or_right(X)
    y = (np.take_along_axis(X, cells[:, None], axis=1)[:, 0] > 0).astype(int)
    return X[:300], y[:300], X[300:], y[300:]


def model(**params):
    defaults = {"covariance": "gradient", "partition": left_or_right, "random_state": 0}
    return ClusterRBFSVC(**{"C": 10.0, **defaults, **params})


@pytest.fixture(scope="module")
def fitted(two_cells):
    X, y, *_ = two_cells
    return model().fit(X, y)


def metrics_of(fitted):
    return [np.linalg.inv(S) for S in to_numpy(fitted.covariances_)]


def test_each_cell_counts_the_column_on_which_its_labels_depend(two_cells, fitted):
    X, y, X_new, y_new = two_cells
    for cell, M in enumerate(metrics_of(fitted)):
        others = np.delete(np.diag(M), cell)
        assert M[cell, cell] > 2 * others.max()
    assert fitted.learned_cells_.tolist() == [True, True]
    plain = clone(fitted).set_params(covariance="full").fit(X, y)
    assert fitted.score(X_new, y_new) > plain.score(X_new, y_new) + 0.05


def test_it_is_an_svc_with_the_kernel_of_these_cells(two_cells, fitted):
    X, y, X_new, _ = two_cells
    svc = SVC(C=10.0, kernel=fitted.kernel_).fit(X, y)
    assert_allclose(
        fitted.decision_function(X_new), svc.decision_function(X_new), atol=1e-6
    )


def test_one_cell_has_the_metric_of_the_first_step(two_cells):
    """Of rows whose covariance is the identity, mixed with a share of the identity."""
    X, y, *_ = two_cells
    centred = X - X.mean(axis=0)
    white = np.linalg.solve(np.linalg.cholesky(np.cov(X.T, ddof=0)), centred.T).T
    y = (np.sin(2 * white[:, 0] + white[:, 1]) > 0).astype(int)
    found = cell_metric(white, y, np.ones(len(y)), np.random.default_rng(3))
    targets = ClassTargets(y, 2, lambda weight, labels: weight)
    options = MetricOptions(
        [Family(Gaussian(), "tune")],
        10.0 ** np.arange(-1, 5.1, 0.5),
        beyond=True,
        kinds=("full",),
        powers=(1.0,),
        max_steps=1,
        scales=("given",),
    )
    step = search_metric(
        Problem.of(white, targets, np.ones(len(y))), options, np.random.default_rng(3)
    )
    assert (step.kind, step.n_steps) == ("full", 1)
    M = step.row_map.weights @ step.row_map.weights.T
    M *= 4 / np.trace(M)
    mixed = (1 - _SHARE) * M + _SHARE * np.eye(4)
    assert_allclose(found, mixed / np.linalg.det(mixed) ** 0.25, atol=1e-6)


def test_rows_that_are_mapped_linearly_have_metrics_mapped_with_them(two_cells):
    X, y, *_ = two_cells
    # Labels with noise have a C at which rounding decides nothing.
    y = np.where(np.arange(len(y)) % 7 == 0, 1 - y, y)
    A = np.random.default_rng(1).normal(size=(4, 4)) + 2 * np.eye(4)
    cells, weight = left_or_right(X), np.ones(len(y))

    def found(rows):
        Sigmas = [np.cov(rows[cells == i].T, ddof=0) for i in range(2)]
        rng = np.random.default_rng(0)
        return gradient_covariances(
            rows, y, cells, np.stack(Sigmas), weight, rng
        ).covariances

    for S, mapped in zip(found(X), found(X @ A.T + 100.0), strict=True):
        assert_allclose(mapped, A @ S @ A.T, rtol=1e-5, atol=1e-6 * np.abs(S).max())


def test_mean_distances_are_those_in_units_of_the_covariance(two_cells):
    """So that ``gamma="scale"`` means the same."""
    X, y, *_ = two_cells
    S, Sigma = (
        ClusterRBFSVC(n_clusters=1, covariance=c, random_state=0)
        .fit(X, y)
        .covariances_[0]
        for c in ("gradient", "full")
    )
    assert np.linalg.det(S) == pytest.approx(np.linalg.det(Sigma))


def test_cells_with_too_few_labels_keep_their_covariance_and_say_so(two_cells):
    X, y, *_ = two_cells
    cells = left_or_right(X)
    one_class = np.where(cells == 1, 1, y)
    few = np.flatnonzero((cells == 0) | (np.cumsum(cells) < 40))
    for rows, labels in [(slice(None), one_class), (few, y)]:
        with pytest.warns(UserWarning, match=r"cells \[1\] have fewer than 50"):
            kept = model().fit(X[rows], labels[rows])
        assert kept.learned_cells_.tolist() == [True, False]
        inside = X[rows][left_or_right(X[rows]) == 1]
        assert_allclose(kept.covariances_[1], np.cov(inside.T, ddof=0))


def test_three_classes_constant_columns_and_rows_without_labels(two_cells):
    X, y, X_new, _ = two_cells
    y = y + (X[:, 2] > 1)
    X, X_new = (np.column_stack([rows, np.ones(len(rows))]) for rows in (X, X_new))
    values = model().fit(X, y, X_unlabeled=X_new).decision_function(X_new)
    assert values.shape == (len(X_new), 3)
    assert np.isfinite(values).all()


def test_weights_of_zero_are_rows_that_are_not_there(two_cells):
    X, y, X_new, _ = two_cells
    weight = (np.arange(len(y)) % 4 > 0).astype(float)
    weighted = model().fit(X, y, sample_weight=weight)
    without = model().fit(X[weight > 0], y[weight > 0])
    assert_allclose(weighted.covariances_, without.covariances_)
    assert_array_equal(weighted.predict(X_new), without.predict(X_new))


def test_every_library_has_the_same_cells(xp, two_cells):
    X, y, X_new, _ = two_cells
    ours = model(partition="kmeans").fit(array(xp, X), y)
    host = model(partition="kmeans").fit(X, y)
    assert_allclose(to_numpy(ours.covariances_), host.covariances_, rtol=1e-6)
    found = to_numpy(ours.decision_function(array(xp, X_new)))
    assert_allclose(found, host.decision_function(X_new), atol=1e-5)


def test_local_machines_have_the_metrics_too(two_cells, fitted):
    X, y, X_new, y_new = two_cells
    local = LocalSVC(
        C=10.0, partition=left_or_right, covariance="gradient", random_state=0
    ).fit(X, y)
    assert_allclose(local.covariances_, fitted.covariances_)
    assert local.score(X_new, y_new) > 0.85


def test_a_model_is_the_same_each_time_and_survives_pickling(two_cells, fitted):
    X, y, X_new, _ = two_cells
    second = clone(fitted).fit(X, y)
    values = fitted.decision_function(X_new)
    assert_array_equal(values, second.decision_function(X_new))
    copied = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(values, copied.decision_function(X_new))


def test_the_metric_of_a_fold_has_not_seen_the_labels_it_is_judged_by(two_cells):
    X, y, *_ = two_cells
    assert sees_labels(model())
    assert not sees_labels(model(covariance="full"))
    train = np.arange(200)
    others = np.where(np.arange(len(y)) < 200, y, 1 - y)
    [[kernel, _]], [[same, _]] = (
        cell_kernels(model(), X, labels, train) for labels in (y, others)
    )
    assert_array_equal(kernel.covariances, same.covariances)
    [[other, _]] = cell_kernels(model(), X, y, train[:150])
    assert not np.allclose(kernel.covariances, other.covariances)


@pytest.mark.slow
def test_the_rules_of_scikit_learn_hold():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells of few rows keep their covariance
        check_estimator(ClusterRBFSVC(covariance="gradient", n_clusters=1, tol=1e-9))
