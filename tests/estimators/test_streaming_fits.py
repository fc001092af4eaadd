"""Data that does not fit on the device: the same results, block by block."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from kaucus import KMeansKernelClassifier, SphericalKMeans
from kaucus.backend import _streaming
from kaucus.estimators import _kernel_input
from kaucus.representatives import _per_class
from kaucus.solvers import _low_rank
from tests.arrays import assert_close
from tests.discovery import estimators, having, name_of

torch = pytest.importorskip("torch")

each_with_device = pytest.mark.parametrize(
    "estimator", having(estimators(), "device"), ids=name_of
)


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3] + np.random.default_rng(0).normal(0, 0.01, X[::3].shape), y[::3]


@pytest.fixture
def there(monkeypatch):
    """A device that is not the host: tensors of the host."""

    def to_device(x, device):
        if device != "there" or isinstance(x, torch.Tensor):
            return x
        return torch.as_tensor(np.ascontiguousarray(x))

    for module in (_streaming, _kernel_input, _per_class):
        monkeypatch.setattr(module, "to_device", to_device)
    return "there"


def output(model, X):
    for method in ("decision_function", "transform", "predict"):
        if hasattr(model, method):
            return getattr(model, method)(X)


@each_with_device
def test_predictions_travel_in_blocks(estimator, iris, there, monkeypatch):
    X, y = iris
    model = clone(estimator).fit(X, y)
    expected = output(model, X)
    model.set_params(device=there)
    seen = []
    parts = _streaming.device_parts

    def few_rows(X, device, memory_budget):
        for part in parts(X, device, 8 * 7 * X.shape[1] * 8):
            seen.append(tuple(part.shape))
            assert isinstance(part, torch.Tensor)
            yield part

    monkeypatch.setattr(_kernel_input, "device_parts", few_rows)
    got = output(model, X)
    assert isinstance(got, np.ndarray)
    assert [n for n, _ in seen] == [7] * 7 + [1]
    assert_close(got, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("fit_on", ["all", "representatives"])
@pytest.mark.parametrize("class_fits", [True, False])
def test_a_classifier_of_rows_that_do_not_fit(
    fit_on, class_fits, iris, there, monkeypatch
):
    X, y = iris
    model = KMeansKernelClassifier(n_representatives=6, fit_on=fit_on, random_state=0)
    expected = clone(model).fit(X, y)
    fits = _streaming.rows_on_device

    def rows_on_device(rows, device, memory_budget=None):
        everything = rows.shape[0] == len(X)
        if device == there and (everything or not class_fits):
            return rows
        return fits(rows, device, memory_budget)

    kinds = []
    add = _low_rank.iter_device_blocks

    def noted(rows, blocks, like):
        kinds.append((type(rows), type(like)))
        return add(rows, blocks, like)

    monkeypatch.setattr(_kernel_input, "rows_on_device", rows_on_device)
    monkeypatch.setattr(_per_class, "rows_on_device", rows_on_device)
    monkeypatch.setattr(_low_rank, "iter_device_blocks", noted)
    streamed = clone(model).set_params(device=there).fit(X, y)
    if fit_on == "all":
        assert kinds == [(np.ndarray, torch.Tensor)]
    assert isinstance(streamed.dual_coef_, np.ndarray)
    assert_close(streamed.representatives_, expected.representatives_, rtol=1e-9)
    assert_close(
        streamed.decision_function(X), expected.decision_function(X), atol=1e-7
    )


@pytest.mark.parametrize("init", ["k-means++", "random", "given"])
def test_clusters_of_rows_that_do_not_fit(init, iris, there):
    X, _ = iris
    weight = np.linspace(0.5, 2, len(X))
    first = X[::20] if init == "given" else init
    model = SphericalKMeans(3, init=first, n_init=1, random_state=0)
    expected = clone(model).fit(X, sample_weight=weight)
    streamed = clone(model).set_params(device=there, memory_budget=X.nbytes)
    streamed.fit(X, sample_weight=weight)
    assert isinstance(streamed.cluster_centers_, np.ndarray)
    assert np.array_equal(streamed.labels_, expected.labels_)
    assert streamed.inertia_ == pytest.approx(expected.inertia_)
    assert streamed.n_iter_ == expected.n_iter_
