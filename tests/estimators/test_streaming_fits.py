"""Data that does not fit on the device: the same results, block by block."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from kaucus import (
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LSSVMClassifier,
    LSSVMRegressor,
    SphericalKMeans,
    _base,
)
from kaucus._array import namespace
from kaucus._array import rows as _streaming
from kaucus._array.rows import HostRows
from kaucus.clustering import _kmeans
from kaucus.solvers import _columns
from kaucus.solvers._blocks import RANDOMIZED
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
        return torch.tensor(np.array(x))

    monkeypatch.setattr(namespace, "to_device", to_device)
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
    place, stream = _base.place_rows, _streaming.stream_blocks

    def few_rows(X, device, memory_budget):
        return place(X, device, 8 * 7 * X.shape[1] * 8)  # an eighth for seven rows

    def noted(rows, blocks):
        for part in stream(rows, blocks):
            seen.append(tuple(part.shape))
            assert isinstance(part, torch.Tensor)
            yield part

    monkeypatch.setattr(_base, "place_rows", few_rows)
    monkeypatch.setattr(_streaming, "stream_blocks", noted)
    got = output(model, X)
    assert isinstance(got, np.ndarray)
    assert [n for n, _ in seen] == [7] * 7 + [1]
    assert_close(got, expected, rtol=1e-7, atol=1e-9)


def keep_on_host(monkeypatch, numbers):
    """Let rows of the host stay there where there are so many of them."""
    fits = _streaming.on_device_if_it_fits

    def stay(rows, budget):
        stays = isinstance(rows, HostRows) and rows.shape[0] in numbers
        return rows if stays else fits(rows, budget)

    for module in (_streaming, _kmeans):
        monkeypatch.setattr(module, "on_device_if_it_fits", stay)


@pytest.mark.parametrize("fit_on", ["all", "representatives"])
@pytest.mark.parametrize("class_fits", [True, False])
def test_a_classifier_of_rows_that_do_not_fit(
    fit_on, class_fits, iris, there, monkeypatch
):
    X, y = iris
    model = KMeansKernelClassifier(
        n_representatives=6, fit_on=fit_on, random_state=0, learn_metric=False
    )
    expected = clone(model).fit(X, y)
    stays = (len(X),) if class_fits else range(len(X) + 1)
    keep_on_host(monkeypatch, stays)
    kinds = []
    sum_columns = _columns.sum_columns

    def noted(data, *arguments, **options):
        kinds.append(type(data.X))
        return sum_columns(data, *arguments, **options)

    monkeypatch.setattr(_columns, "sum_columns", noted)
    streamed = clone(model).set_params(device=there).fit(X, y)
    if fit_on == "all":
        assert kinds == [HostRows]
    assert isinstance(streamed.dual_coef_, np.ndarray)
    assert_close(streamed.representatives_, expected.representatives_, rtol=1e-9)
    assert_close(
        streamed.decision_function(X), expected.decision_function(X), atol=1e-7
    )


def test_parts_of_a_stream_that_do_not_fit(iris, there, monkeypatch):
    X, y = iris
    keep_on_host(monkeypatch, range(20, len(X) + 1))
    models = []
    for device in (None, there):
        model = KMeansKernelRegressor(
            12, random_state=0, learn_metric=False, device=device
        )
        for part in (slice(0, 25), slice(25, 50)):
            model.partial_fit(X[part], y[part])
        models.append(model)
    expected, streamed = models
    assert isinstance(streamed.representatives_, np.ndarray)
    assert_close(streamed.representatives_, expected.representatives_, rtol=1e-6)
    assert_close(streamed.predict(X), expected.predict(X), atol=1e-6)


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize(
    "model",
    [
        LSSVMRegressor(C=5.0, gamma=0.5),
        KMeansKernelRegressor(6, C=5.0, kernel="rbf", gamma=0.5, random_state=0),
    ],
    ids=name_of,
)
def test_intervals_of_rows_that_do_not_fit(model, fits, iris, there, monkeypatch):
    X, y = iris
    expected = clone(model).fit(X, y)
    keep_on_host(monkeypatch, () if fits else (len(X),))
    streamed = clone(model).set_params(device=there).fit(X, y)
    got = streamed.predict_interval(X[:9], [0.5, 0.9])
    assert isinstance(streamed._left_out_models().X, torch.Tensor if fits else HostRows)
    assert isinstance(got, np.ndarray)
    assert_close(got, expected.predict_interval(X[:9], [0.5, 0.9]), atol=1e-7)
    std = streamed.predict(X[:9], return_std=True)[1]
    assert_close(std, expected.predict(X[:9], return_std=True)[1], atol=1e-6)


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


# ---- machines of all rows --------------------------------------------------------


@pytest.fixture
def wide():
    """Rows of many features: there is room for their kernel matrix, not for them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4000))  # 1.5 MiB
    X[:, :3] *= 40
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)


@pytest.fixture
def moved(there, monkeypatch):
    """Return how many rows came to the device at a time."""
    heights = []
    bring = _streaming._copied_ahead

    def noted(X, parts, like):
        for block in bring(X, parts, like):
            heights.append(block.shape[0])
            yield block

    monkeypatch.setattr(_streaming, "_copied_ahead", noted)
    return heights


def models_of_all_rows():
    for solver in ("auto", "cg", *RANDOMIZED):
        options = {"solver": solver, "max_iter": 8, "tol": 1e-2, "random_state": 0}
        if solver in RANDOMIZED:
            yield LSSVMClassifier(block_size=10, **options)
        else:
            yield LSSVMClassifier(**options)
            yield LSSVMRegressor(**options)
    yield LSSVMClassifier("auto", random_state=0)
    yield LSSVMRegressor("auto", random_state=0, max_samples=20)
    yield KernelKMeans(3, n_init=2, random_state=0)
    yield KernelKMeans(
        3, approximation="nystrom", n_landmarks=5, landmarks="uniform", random_state=0
    )


def solver_of(model):
    parameters = model.get_params()
    how = parameters.get("solver", parameters.get("approximation"))
    return f"{name_of(model)}-{how}"


@pytest.mark.filterwarnings("ignore:.* stopped after .* steps")
@pytest.mark.parametrize("model", list(models_of_all_rows()), ids=solver_of)
def test_a_machine_of_all_rows_that_do_not_fit(model, wide, there, moved):
    X, y = wide
    given = X.copy()
    expected = clone(model).fit(X, y)
    streamed = clone(model).set_params(device=there, memory_budget="1400KiB").fit(X, y)
    assert moved
    assert max(moved) <= len(X) // 10
    for name, value in vars(expected).items():
        if isinstance(value, np.ndarray):
            got = getattr(streamed, name)
            assert isinstance(got, np.ndarray)
            assert_close(got, value, rtol=1e-5, atol=1e-7)
    moved.clear()
    assert_close(output(streamed, X), output(expected, X), rtol=1e-5, atol=1e-7)
    assert max(moved) <= len(X) // 10
    assert np.array_equal(X, given)


def test_a_memory_map_that_does_not_fit(wide, there, moved, tmp_path):
    X, y = wide
    X.tofile(tmp_path / "X")
    stored = np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape)
    model = LSSVMClassifier(device=there, memory_budget="1400KiB", random_state=0)
    on_disk, in_memory = clone(model).fit(stored, y), clone(model).fit(X, y)
    assert max(moved) <= len(X) // 10
    assert np.shares_memory(on_disk.X_fit_, stored)
    assert np.array_equal(on_disk.dual_coef_, in_memory.dual_coef_)


def test_what_fits_is_moved_at_once(wide, there, moved):
    X, y = wide
    LSSVMClassifier(device=there, memory_budget=2 * X.nbytes).fit(X, y).predict(X)
    assert not moved


def test_rows_that_are_watched_need_not_fit(wide, there, moved):
    X, y = wide
    options = {"solver": "matching_pursuit", "block_size": 10, "max_iter": 3}
    model = LSSVMRegressor(random_state=0, tol=1e-9, **options)
    validation = {"X_val": X[::-1], "y_val": y[::-1]}
    histories = []
    for device in (None, there):
        model.set_params(device=device, memory_budget="2400KiB")
        with pytest.warns(ConvergenceWarning):
            histories.append(model.fit(X, y, **validation).history_)
    errors = [history["validation_error"] for history in histories]
    assert errors[0] == pytest.approx(errors[1])


def test_what_is_chosen_is_told_before_and_after(wide, there):
    X, y = wide
    model = LSSVMClassifier(device=there, memory_budget="200KiB", random_state=0)
    told = model.explain(X, y)
    assert "rows stay on the host and are copied in blocks" in told
    assert model.fit(X, y).explain().startswith(told.split(":")[0])


def test_a_given_matrix_goes_as_a_whole(wide, there, moved):
    X, _ = wide
    K = X @ X.T / X.shape[1]
    model = LSSVMClassifier(kernel="precomputed", device=there, memory_budget=K.nbytes)
    seen = model._kernel_and_rows(None, K)[0].matrix
    assert isinstance(seen, torch.Tensor)
    assert not isinstance(seen, HostRows)
