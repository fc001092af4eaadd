"""A fitted model moves: between libraries and devices, and in a file."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline

from kaucus import KMeansKernelClassifier, LSSVMClassifier, PatchVotingClassifier
from kaucus._array import namespace
from kaucus._base import fitted_arrays
from kaucus.preprocessing import GaussianWindow, UnitNormalizer
from tests.arrays import assert_close, assert_to_rounding
from tests.discovery import estimators, having, name_of

torch = pytest.importorskip("torch")

each_estimator = pytest.mark.parametrize("estimator", estimators(), ids=name_of)
each_with_device = pytest.mark.parametrize(
    "estimator", having(estimators(), "device"), ids=name_of
)


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3] + np.random.default_rng(0).normal(0, 0.01, X[::3].shape), y[::3]


def output(model, X):
    return (model.predict if hasattr(model, "predict") else model.transform)(X)


def kinds(model):
    return {type(value) for _, value in fitted_arrays(model)}


# ---- to_device -------------------------------------------------------------------


@each_estimator
def test_to_numpy_and_back(estimator, iris):
    X, y = iris
    model = clone(estimator).fit(torch.tensor(X), torch.tensor(y))
    expected = output(model, X)
    assert model.to_device("numpy") is model
    assert kinds(model) <= {np.ndarray}
    assert_close(output(model, X), expected, rtol=1e-7)
    model.to_device("cpu")
    assert kinds(model) <= {np.ndarray}


@each_estimator
def test_every_array_moves(estimator, iris):
    """torch's "meta" device has no values, but shows where things are."""
    X, y = iris
    y = np.array(["a", "b", "c"])[y] if is_classifier(estimator) else y
    model = clone(estimator).fit(X, y)
    before = list(fitted_arrays(model))
    after = list(fitted_arrays(model.to_device("meta")))
    for (name, old), (_, new) in zip(before, after, strict=True):
        if old.dtype.kind == "U":
            assert new is old
        else:
            assert new.device.type == "meta", name
            assert tuple(new.shape) == old.shape
    if hasattr(model, "classes_"):
        assert isinstance(model.classes_, np.ndarray)


@each_with_device
def test_the_parameter_follows(estimator, iris):
    X, y = iris
    model = clone(estimator).fit(X, y)
    model.device = "cuda:3"  # as if it had been fitted there
    expected = output(clone(estimator).fit(X, y), X)
    assert_close(output(model.to_device("cpu"), X), expected, rtol=1e-7)
    assert model.device is None
    assert model.to_device("meta").device == "meta"


@each_estimator
def test_nothing_moves_to_a_device_that_is_not_there(estimator, iris, monkeypatch):
    X, y = iris
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = clone(estimator).fit(X, y)
    with pytest.raises(ValueError, match=r"device='cuda', but .* sees no CUDA device"):
        model.to_device("cuda")
    assert kinds(model) <= {np.ndarray}


def test_what_is_within_moves_too(iris):
    X, y = iris
    inner = make_pipeline(UnitNormalizer(), GaussianWindow(), LSSVMClassifier())
    model = PatchVotingClassifier(inner, patch_size=3).fit(torch.tensor(X), y)
    model.to_device("numpy")
    *_, window, machine = model.estimator_
    assert isinstance(window.window_, np.ndarray)
    assert isinstance(machine.dual_coef_, np.ndarray)


def test_other_peoples_estimators_within_stay(iris):
    from sklearn.linear_model import RidgeClassifier

    X, y = iris
    model = PatchVotingClassifier(RidgeClassifier(), patch_size=3).fit(X, y)
    coef = model.estimator_.coef_
    assert model.to_device("meta").estimator_.coef_ is coef


# ---- pickle ----------------------------------------------------------------------


@each_estimator
def test_a_copy_is_of_the_same_kind(estimator, iris):
    X, y = iris
    Z = torch.tensor(X)
    model = clone(estimator).fit(Z, y)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert kinds(again) == kinds(model)
        assert_to_rounding(output(again, Z), output(model, Z))


@pytest.fixture
def far_away(monkeypatch):
    """Tensors that say they are on a GPU that this machine has not."""
    monkeypatch.setattr(namespace, "place_of", lambda x: "cuda:99")


@each_estimator
def test_a_model_of_a_gpu_is_loaded_on_the_host(estimator, iris, far_away):
    X, y = iris
    Z = torch.tensor(X)
    model = clone(estimator).fit(Z, y)
    again = pickle.loads(pickle.dumps(model))
    assert all(value.device.type == "cpu" for _, value in fitted_arrays(again))
    assert_to_rounding(output(again, Z), output(model, Z))


@each_estimator
def test_no_tensor_is_in_the_file(estimator, iris):
    X, y = iris
    content = pickle.dumps(clone(estimator).fit(torch.tensor(X), y))
    assert b"torch._utils" not in content


@each_with_device
def test_a_device_that_is_not_here_is_forgotten_aloud(estimator, iris, monkeypatch):
    X, y = iris
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    model = clone(estimator).fit(X, y)
    model.device = "cuda"
    with pytest.warns(UserWarning, match=r"device='cuda', which is not here"):
        again = pickle.loads(pickle.dumps(model))
    assert again.device is None
    assert_to_rounding(output(again, X), output(model.set_params(device=None), X))


def test_loaded_without_torch(iris, tmp_path):
    X, y = iris
    Z = torch.tensor(X)
    model = KMeansKernelClassifier(n_representatives=5, random_state=0).fit(Z, y)
    (tmp_path / "model").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.asarray(model.predict(Z)))
    program = f"""
import pathlib, pickle, sys
import numpy as np
class NoTorch:  # as if it were not installed
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'")
sys.meta_path.insert(0, NoTorch())
folder = pathlib.Path({str(tmp_path)!r})
model = pickle.loads((folder / "model").read_bytes())
assert isinstance(model.dual_coef_, np.ndarray)
X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
assert (model.predict(X) == y).all()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
