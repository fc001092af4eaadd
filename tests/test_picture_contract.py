"""Estimators of pictures keep scikit-learn's contract, as far as pictures allow.

The checks bring tables of a few columns. Here each row is taken as a picture of one
line of pixels, with patches of two pixels: that is all that differs from the public
classes.
"""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from kaucus import PatchKernelClassifier, PatchKernelRegressor
from kaucus.preprocessing import PatchDictionary
from tests.arrays import array, assert_close
from tests.discovery import OF_PICTURES, name_of
from tests.interrupts import count_calls, interrupt
from tests.test_docstrings import entries, sections

SMALL = {
    "patch_sizes": ((1, 2),),
    "pooling": 1,
    "n_filters": 16,
    "precision": "float64",  # in float32 blocks of other sizes are rounded otherwise
    "random_state": 0,
}


class LineDictionary(PatchDictionary):
    """Guesses that a row is a picture of one line."""

    @staticmethod
    def _resolve_shape(image_shape, n_features):
        return (1, 1, n_features)


class LineClassifier(PatchKernelClassifier):
    _dictionary_class = LineDictionary


class LineRegressor(PatchKernelRegressor):
    _dictionary_class = LineDictionary


def estimators():
    return [
        LineDictionary(**SMALL),
        LineClassifier(**SMALL, threshold=0.0),
        LineRegressor(**SMALL, threshold=0.0),
    ]


def public(estimator):
    return type(estimator).__mro__[1]


each_estimator = pytest.mark.parametrize("estimator", estimators(), ids=name_of)


def test_every_estimator_of_pictures_is_here():
    assert {public(e).__name__ for e in estimators()} == OF_PICTURES


OF_TABLES = (
    "the check asks for a score on a table whose classes differ by their columns; "
    "patches are taken less their means and over their contrasts"
)

REPEATED_PICTURES = (
    "a picture of weight 2 and two equal pictures are different draws of patches, and "
    "leave-one-out, which chooses γ and C, leaves out one of two pictures; with the "
    "same filters, γ and C they are the same fit (tests/estimators/test_patch_weights)"
)


def excused(estimator):
    """Return the checks that cannot hold, with the reason."""
    checks = {
        "check_classifiers_train": OF_TABLES,
        "check_regressors_train": OF_TABLES,
    }
    if hasattr(estimator, "predict"):
        checks["check_sample_weight_equivalence_on_dense_data"] = REPEATED_PICTURES
    return checks


@parametrize_with_checks(estimators(), expected_failed_checks=excused)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# ---- on pictures ---------------------------------------------------------------------


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:120].astype(np.uint8), y[:120]


def of_digits():
    options = {"image_shape": (8, 8), "n_filters": 8, "random_state": 0}
    return [
        PatchDictionary(patch_sizes=3, **options),
        PatchKernelClassifier(patch_sizes=3, **options),
        PatchKernelRegressor(patch_sizes=3, **options),
    ]


each_model = pytest.mark.parametrize("model", of_digits(), ids=name_of)


def output(model, X):
    """Return whatever the estimator is for."""
    if hasattr(model, "transform"):
        return model.transform(X)
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


@each_model
def test_copies_give_the_same_output(model, digits):
    X, y = digits
    fitted = clone(model).fit(X, y)
    expected, file = output(fitted, X), io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    for again in (
        pickle.loads(pickle.dumps(fitted)),
        copy.deepcopy(fitted),
        joblib.load(file),
    ):
        assert_allclose(output(again, X), expected, rtol=1e-5, atol=1e-6)


@each_model
def test_a_clone_has_the_parameters_and_nothing_fitted(model, digits):
    copied = clone(clone(model).fit(*digits))
    assert copied.get_params() == model.get_params()
    assert not [name for name in vars(copied) if name.endswith("_")]


@each_model
def test_the_fitted_attributes_are_those_documented(model, digits):
    pandas = pytest.importorskip("pandas")
    X, y = digits
    frame = pandas.DataFrame(X, columns=[f"pixel{k}" for k in range(64)])
    fitted = clone(model).fit(frame, y)
    found = {name for name in vars(fitted) if name.endswith("_")}
    documented = {name for name, _ in entries(sections(type(model))["Attributes"])}
    assert found == documented
    assert_allclose(output(fitted, frame), output(clone(model).fit(X, y), X), rtol=1e-6)


@each_model
def test_a_fit_of_the_same_seed_is_the_same(model, digits):
    X, y = digits
    assert_array_equal(
        output(clone(model).fit(X, y), X), output(clone(model).fit(X, y), X)
    )


@each_model
def test_pictures_are_not_changed(model, digits):
    X, y = digits
    before = X.copy()
    output(clone(model).fit(X, y), X)
    assert_array_equal(X, before)


@each_model
def test_rows_of_another_library_give_results_of_theirs(model, digits, xp):
    X, y = digits
    expected = output(clone(model).fit(X, y), X)
    Z = array(xp, X)
    found = output(clone(model).fit(Z, y), Z)
    assert type(found) is type(Z)
    assert_close(found, expected, rtol=1e-3, atol=1e-3)
    # And of a model fitted on NumPy arrays.
    assert_close(output(clone(model).fit(X, y), Z), expected, rtol=1e-3, atol=1e-3)


@each_model
def test_a_model_moves_between_libraries(model, digits):
    torch = pytest.importorskip("torch")
    X, y = digits
    fitted = clone(model).fit(torch.asarray(X), y)
    expected = output(fitted, torch.asarray(X)).numpy()
    fitted.to_device("numpy")
    # Features are rounded to float32, otherwise in each library.
    rounding = 1e-4 * np.abs(expected).max()
    assert_allclose(output(fitted, X), expected, rtol=1e-3, atol=rounding)


BY_REPRESENTATIVES = PatchKernelClassifier(
    8, 3, image_shape=(8, 8), n_representatives=40, random_state=0
)


@pytest.mark.parametrize("model", [*of_digits(), BY_REPRESENTATIVES], ids=name_of)
def test_ctrl_c_is_raised_and_leaves_the_estimator_as_it_was(model, digits):
    X, y = digits
    fitted = clone(model)
    n_calls = count_calls(lambda: fitted.fit(X, y))
    for k in np.unique(np.linspace(2, n_calls, 5).astype(int)):
        # One that was fitted before holds no mix of old and new either.
        for again in (clone(model), fitted):
            interrupt(again, lambda again=again: again.fit(X, y), k)  # fails itself
    fitted.fit(X, y)
    assert np.isfinite(output(fitted, X)).all()


@each_model
def test_an_example_is_shown(model):
    assert ">>> " in sections(type(model))["Examples"]
