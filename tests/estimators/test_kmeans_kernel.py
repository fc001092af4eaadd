"""KMeansKernelClassifier: what it stores, what it equals, what it says."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from kaucus import KMeansKernelClassifier, LSSVMClassifier
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus.fitting import _represented as base
from kaucus.kernels import Gaussian
from kaucus.preprocessing import UnitNormalizer

DIGITS, LABELS = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 1000), slice(1000, None)
FIT_ON = ["all", "representatives"]


def model(n=20, **params):
    params = {"C": 1.0, "kernel": "rbf", "gamma": "scale", **params}
    return KMeansKernelClassifier(n, random_state=0, **params)


@pytest.fixture(scope="module")
def fitted():
    return {
        on: model(fit_on=on, C=100).fit(DIGITS[TRAIN], LABELS[TRAIN]) for on in FIT_ON
    }


@pytest.mark.parametrize("fit_on", FIT_ON)
def test_what_is_stored(fitted, fit_on):
    m = fitted[fit_on]
    assert m.representatives_.shape == (200, 64)
    assert_array_equal(m.representative_labels_, np.repeat(np.arange(10), 20))
    assert m.representative_weights_.sum() == 1000
    assert m.dual_coef_.shape == (200, 10)
    assert m.intercept_.shape == (10,)


@pytest.mark.parametrize("fit_on", FIT_ON)
def test_the_decision_is_a_kernel_expansion_of_the_representatives(fitted, fit_on):
    m = fitted[fit_on]
    K = m.kernel_(DIGITS[TEST], m.representatives_)
    assert_allclose(
        m.decision_function(DIGITS[TEST]), K @ m.dual_coef_ + m.intercept_, rtol=1e-9
    )
    assert m.score(DIGITS[TEST], LABELS[TEST]) > 0.93


def test_all_rows_are_better_than_representatives_alone(fitted):
    scores = {on: m.score(DIGITS[TEST], LABELS[TEST]) for on, m in fitted.items()}
    assert scores["all"] > scores["representatives"]


@pytest.mark.parametrize("fit_on", FIT_ON)
def test_with_every_row_a_representative_it_is_the_ls_svm(fit_on):
    X, y = DIGITS[:150], LABELS[:150]
    exact = LSSVMClassifier(C=3.0).fit(X, y)
    m = model(1000, fit_on=fit_on, C=3.0).fit(X, y)
    assert_allclose(
        m.decision_function(X), exact.decision_function(X), rtol=1e-5, atol=1e-6
    )
    assert m.temperature_ == pytest.approx(exact.temperature_, rel=1e-2)


def test_fit_on_representatives_is_the_ls_svm_of_the_representatives(fitted):
    m = fitted["representatives"]
    exact = LSSVMClassifier(C=100, kernel=m.kernel_)
    exact.fit(m.representatives_, m.representative_labels_)
    assert_allclose(m.dual_coef_, exact.dual_coef_, rtol=1e-6, atol=1e-8)


def test_a_number_for_each_class():
    X, y = make_blobs(200, centers=3, random_state=0)
    names = np.array(["a", "b", "c"])[y]
    m = model({"a": 2, "b": 5, "c": 1}).fit(X, names)
    found, counts = np.unique(m.representative_labels_, return_counts=True)
    assert dict(zip(found, counts, strict=True)) == {"a": 2, "b": 5, "c": 1}
    assert m.score(X, names) > 0.9


@pytest.mark.parametrize("fit_on", FIT_ON)
@pytest.mark.parametrize("clustering", ["kmeans", "spherical"])
def test_sparse_rows_are_their_dense_ones(fit_on, clustering):
    X, y = DIGITS[:400], LABELS[:400]
    dense = model(10, fit_on=fit_on, clustering=clustering).fit(X, y)
    sparse = model(10, fit_on=fit_on, clustering=clustering).fit(
        scipy.sparse.csr_array(X), y
    )
    assert_allclose(
        sparse.decision_function(scipy.sparse.csr_array(X[:50])),
        dense.decision_function(X[:50]),
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize("fit_on", FIT_ON)
def test_float32_stays_float32_and_agrees(fit_on):
    X, y = DIGITS[TRAIN], LABELS[TRAIN]
    wide = model(fit_on=fit_on).fit(X, y)
    narrow = model(fit_on=fit_on).fit(X.astype(np.float32), y)
    values = narrow.decision_function(DIGITS[TEST].astype(np.float32))
    assert narrow.representatives_.dtype == values.dtype == np.float32
    assert np.abs(values - wide.decision_function(DIGITS[TEST])).max() < 0.02


@pytest.mark.parametrize("fit_on", FIT_ON)
def test_probabilities_are_better_than_without_a_temperature(fitted, fit_on):
    m = fitted[fit_on]
    loss = log_loss(LABELS[TEST], m.predict_proba(DIGITS[TEST]))
    raw = clone(m).set_params(probability="softmax").fit(DIGITS[TRAIN], LABELS[TRAIN])
    raw.temperature_ = 1.0
    assert loss < log_loss(LABELS[TEST], raw.predict_proba(DIGITS[TEST]))


def test_the_memory_budget_changes_nothing_but_rounding(fitted):
    small = model(C=100, memory_budget="4MiB").fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert_allclose(
        small.decision_function(DIGITS[TEST]),
        fitted["all"].decision_function(DIGITS[TEST]),
        rtol=1e-6,
        atol=1e-8,
    )


def test_a_class_weight_moves_the_boundary():
    X, y = make_blobs(400, centers=2, cluster_std=4.0, random_state=0)
    for fit_on in FIT_ON:
        plain = model(fit_on=fit_on).fit(X, y)
        tilted = model(fit_on=fit_on, class_weight={1: 20.0}).fit(X, y)
        assert (tilted.predict(X) == 1).sum() > (plain.predict(X) == 1).sum()


def test_the_papers_pipeline():
    digits = make_pipeline(
        UnitNormalizer(),
        model(
            30,
            clustering="spherical",
            fit_on="representatives",
            kernel="poly",
            degree=4,
            gamma=1,
            C=1e6,
        ),
    )
    assert digits.fit(DIGITS[TRAIN], LABELS[TRAIN]).score(DIGITS, LABELS) > 0.97


# ---- streams ----------------------------------------------------------------------


def test_the_first_part_of_a_stream_is_a_fit():
    m = model().partial_fit(DIGITS[:300], LABELS[:300], classes=np.arange(10))
    whole = model().fit(DIGITS[:300], LABELS[:300])
    assert_allclose(m.dual_coef_, whole.dual_coef_, rtol=1e-9)


def test_a_part_with_one_class_only_is_welcome():
    zeros = LABELS[TRAIN] == 0
    m = model().partial_fit(
        DIGITS[TRAIN][zeros], LABELS[TRAIN][zeros], classes=np.arange(10)
    )
    assert (m.predict(DIGITS[TEST]) == 0).all()


@pytest.mark.parametrize(
    ("classes", "labels", "match"),
    [
        (None, LABELS[:50], r"partial_fit needs classes=.*np\.unique"),
        ([0, 1], LABELS[:50], r"labels \[2, 3, 4, 5, 6\], which are not among"),
        ([0], np.zeros(50, int), r"classes=\[0\]; .*at least two"),
    ],
)
def test_what_a_stream_refuses(classes, labels, match):
    with pytest.raises(ValueError, match=match):
        model().partial_fit(DIGITS[:50], labels, classes=classes)


def test_classes_that_change_in_a_stream_are_refused():
    m = model().partial_fit(DIGITS[:50], LABELS[:50], classes=np.arange(10))
    with pytest.raises(ValueError, match=r"is not what it was at the first call"):
        m.partial_fit(DIGITS[:50], LABELS[:50], classes=np.arange(11))


# ---- what it says -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_representatives": 0}, "n_representatives=0 must be a whole number, 1"),
        ({"n_representatives": 2.5}, "n_representatives=2.5 must be .*or a dict"),
        ({"n_representatives": {0: 3}}, r"keys \[0\]; expected one for each class"),
        (
            {"n_representatives": dict.fromkeys(range(10), -1)},
            r"n_representatives\[0\]=-1 must be a whole number",
        ),
        ({"clustering": "gmm"}, r"clustering='gmm' must be one of"),
        ({"fit_on": "some"}, r"fit_on='some' must be one of \['all', 'boun"),
        ({"kmeans_params": {"init": "pca"}}, r"\['init'\]='pca' must be one of"),
        ({"kmeans_params": {"n_init": 0}}, r"\['n_init'\]=0 must be"),
        ({"kernel": "precomputed"}, r"no rows to cluster; pass the rows"),
    ],
)
def test_parameters_that_are_refused(params, match, monkeypatch):
    def reached(*args, **kwargs):
        pytest.fail("k-means was reached with a bad parameter")

    monkeypatch.setattr("kaucus.clustering._kmeans.kmeans", reached)
    with pytest.raises(ValueError, match=match):
        model().set_params(**params).fit(DIGITS[:100], LABELS[:100])


def test_too_few_steps_of_k_means_are_told():
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 steps.*increase max_iter"):
        model(kmeans_params={"max_iter": 1, "tol": 1e-9}).fit(
            DIGITS[TRAIN], LABELS[TRAIN]
        )


@pytest.mark.parametrize("precision", [None, "float32"])
def test_what_is_singular_in_float32_is_solved_in_float64(monkeypatch, precision):
    real = base.solve_on_representatives

    def singular_in_float32(data, Z, **kwargs):
        solution = real(data, Z, **kwargs)
        jitter = 1e-3 if Z.dtype == np.float32 else 0.0
        info = solution.info._replace(jitter=jitter, relative_jitter=jitter)
        return solution._replace(info=info)

    monkeypatch.setattr(base, "solve_on_representatives", singular_in_float32)
    X, m = DIGITS[:300].astype(np.float32), model(precision=precision)
    if precision is None:
        assert m.fit(X, LABELS[:300]).solve_info_.precision == "float64"
        assert m.representatives_.dtype == np.float32
    else:  # which was asked for
        with pytest.warns(LinAlgWarning, match="singular in float32"):
            m.fit(X, LABELS[:300])


@pytest.mark.parametrize("precision", [None, "float32"])
def test_what_is_indefinite_in_float32_is_solved_in_float64(monkeypatch, precision):
    real = base.solve_on_representatives

    def indefinite_in_float32(data, Z, **kwargs):
        if Z.dtype == np.float32:
            raise NotPositiveDefiniteError
        return real(data, Z, **kwargs)

    monkeypatch.setattr(base, "solve_on_representatives", indefinite_in_float32)
    X, m = DIGITS[:300].astype(np.float32), model(precision=precision)
    if precision is None:
        assert m.fit(X, LABELS[:300]).solve_info_.precision == "float64"
    else:  # which was asked for
        with pytest.raises(ValueError, match="indefinite at C=1"):
            m.fit(X, LABELS[:300])


def test_a_large_jitter_is_told(monkeypatch):
    real = base.solve_on_representatives

    def singular(*args, **kwargs):
        solution = real(*args, **kwargs)
        info = solution.info._replace(jitter=1.0, relative_jitter=1e-3)
        return solution._replace(info=info)

    monkeypatch.setattr(base, "solve_on_representatives", singular)
    with pytest.warns(LinAlgWarning, match=r"singular in float64 at C=1;.*Lower C"):
        model().fit(DIGITS[:300], LABELS[:300])


def test_an_indefinite_kernel_is_an_error_with_a_remedy(monkeypatch):
    def indefinite(*args, **kwargs):
        raise NotPositiveDefiniteError

    monkeypatch.setattr(base, "solve_on_representatives", indefinite)
    with pytest.raises(ValueError, match=r"indefinite at C=1.*Use a positive semi"):
        model().fit(DIGITS[:300], LABELS[:300])


def test_a_budget_too_small_says_how_many_representatives_are_too_many():
    with pytest.raises(MemoryError, match=r"200 representatives need .*use fewer"):
        model(memory_budget="100KiB").fit(DIGITS[TRAIN], LABELS[TRAIN])


def test_verbose_shows_progress_on_a_terminal_and_in_a_log(capsys, monkeypatch):
    model(verbose=1).fit(DIGITS[:200], LABELS[:200])
    err = capsys.readouterr().err
    assert "class 10 of 10" in err
    assert "\r" not in err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    model(verbose=1).fit(DIGITS[:200], LABELS[:200])
    err = capsys.readouterr().err
    assert "class 10 of 10" in err
    assert "row 200 of 200 in " in err


def test_a_kernel_object_and_its_text_are_the_same(fitted):
    by_object = model(C=100, kernel=Gaussian(gamma=fitted["all"].kernel_.gamma))
    by_object.fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert_array_equal(by_object.dual_coef_, fitted["all"].dual_coef_)
