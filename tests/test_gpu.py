"""What the host stands in for elsewhere, on a GPU: ``pytest -m gpu``."""

import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_checks

from kaucus import (
    KernelKMeans,
    KMeansKernelClassifier,
    LSSVMClassifier,
    LSSVMRegressor,
    PatchKernelClassifier,
    SphericalKMeans,
)
from kaucus._array.blocks import parse_bytes, row_blocks
from kaucus._array.namespace import products_in
from kaucus._array.rows import HostRows, stream_blocks
from kaucus._base import fitted_arrays
from kaucus.kernels import Linear
from kaucus.preprocessing import PatchDictionary
from tests.arrays import assert_close
from tests.discovery import estimators, having, name_of, predictors

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

each_estimator = pytest.mark.parametrize("estimator", estimators(), ids=name_of)
each_with_device = pytest.mark.parametrize(
    "estimator", having(estimators(), "device"), ids=name_of
)
METHODS = ["decision_function", "predict", "predict_proba", "transform"]
# Products on a GPU add up in another order; float32 models may differ by more.
TOLERANCE = {"float64": 1e-6, "float32": 5e-3}


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3] + np.random.default_rng(0).normal(0, 0.01, X[::3].shape), y[::3]


def outputs(model, X):
    return {m: getattr(model, m)(X) for m in METHODS if hasattr(model, m)}


# ---- tensors in, tensors out -----------------------------------------------------


@each_estimator
def test_tensors_of_the_gpu_give_tensors_of_the_gpu(estimator, dtype, iris):
    X, y = iris
    X = X.astype(dtype)
    expected = outputs(clone(estimator).fit(X, y), X)
    Z = torch.tensor(X, device="cuda")
    model = clone(estimator).fit(Z, torch.tensor(y, device="cuda"))
    for name, value in fitted_arrays(model):
        assert value.device == Z.device, name
    for method, value in outputs(model, Z).items():
        assert value.device == Z.device
        assert_close(
            value, expected[method], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )


@each_with_device
def test_numpy_in_numpy_out(estimator, dtype, iris):
    X, y = iris
    X = X.astype(dtype)
    expected = outputs(clone(estimator).fit(X, y), X)
    model = clone(estimator).set_params(device="cuda").fit(X, y)
    assert all(isinstance(value, np.ndarray) for _, value in fitted_arrays(model))
    for method, value in outputs(model, X).items():
        assert isinstance(value, np.ndarray)
        assert_close(
            value, expected[method], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )


@pytest.mark.parametrize("estimator", predictors(), ids=name_of)
def test_scores_and_weights_of_the_gpu(estimator, iris):
    X, y = iris
    Z, t = torch.tensor(X, device="cuda"), torch.tensor(y, device="cuda")
    weight = torch.linspace(0.5, 2, len(y), device="cuda")
    model = clone(estimator).fit(Z, t, sample_weight=weight)
    assert isinstance(model.score(Z, t, sample_weight=weight), float)


@pytest.mark.filterwarnings("ignore:The covariance .* is singular")
@each_estimator
def test_scikit_learns_array_api_check(estimator):
    if os.environ.get("SCIPY_ARRAY_API") != "1":
        pytest.skip("SCIPY_ARRAY_API is not set")
    estimator_checks.check_array_api_input(
        name_of(estimator), clone(estimator), "torch", "cuda", "float64"
    )


# ---- models move -----------------------------------------------------------------


@each_estimator
def test_there_and_back(estimator, iris):
    X, y = iris
    model = clone(estimator).fit(X, y)
    expected = outputs(model, X)
    model.to_device("cuda")
    assert all(value.device.type == "cuda" for _, value in fitted_arrays(model))
    Z = torch.tensor(X, device="cuda")
    for method, value in outputs(model, Z).items():
        assert_close(value, expected[method], rtol=1e-6, atol=1e-6)
    for method, value in outputs(model.to_device("numpy"), X).items():
        assert_close(value, expected[method], rtol=1e-6, atol=1e-6)


@each_estimator
def test_a_pickle_comes_back_to_the_gpu(estimator, iris):
    X, y = iris
    Z = torch.tensor(X, device="cuda")
    model = clone(estimator).fit(Z, y)
    again = pickle.loads(pickle.dumps(model))
    assert all(value.device == Z.device for _, value in fitted_arrays(again))
    for method, value in outputs(again, Z).items():
        assert_close(value, outputs(model, Z)[method], rtol=0)


def test_a_pickle_is_loaded_where_there_is_no_gpu(iris, tmp_path):
    X, y = iris
    Z = torch.tensor(X, device="cuda")
    model = KMeansKernelClassifier(n_representatives=5, random_state=0, device="cuda")
    (tmp_path / "model").write_bytes(pickle.dumps(model.fit(Z, y)))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", model.predict(Z).cpu().numpy())
    program = f"""
import pathlib, pickle, warnings
import numpy as np, torch
assert not torch.cuda.is_available()
folder = pathlib.Path({str(tmp_path)!r})
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    model = pickle.loads((folder / "model").read_bytes())
assert "device='cuda', which is not here" in str(told[0].message)
X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
assert (model.predict(X) == y).all()
assert model.predict(torch.tensor(X)).device.type == "cpu"
"""
    blind = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-c", program], check=True, env=blind)


# ---- precision -------------------------------------------------------------------


def test_tf32_is_coarser_and_leaves_nothing_behind(rng):
    X = torch.tensor(rng.normal(size=(512, 512)), dtype=torch.float32, device="cuda")
    exact = X.double() @ X.double().T

    def error():
        return float((Linear()(X, X) - exact).abs().max() / exact.abs().max())

    before = error()
    with products_in("tf32"):
        rough = error()
    assert before < 1e-6 < 3e-6 < rough < 1e-2
    assert error() == before


def test_a_regressor_in_tf32(iris):
    X, y = iris
    Z = torch.tensor(X, device="cuda")
    model = LSSVMRegressor(precision="tf32").fit(Z, y)
    assert model.predict(Z).dtype == torch.float64  # targets have digits of their own
    assert_close(model.predict(Z), LSSVMRegressor().fit(X, y).predict(X), atol=2e-2)


# ---- rows that do not fit --------------------------------------------------------


def test_blocks_are_not_overwritten_while_the_gpu_works(rng):
    """Long work on each block, launched at once: copies must wait for it."""
    X = rng.normal(size=(40_000, 256)).astype(np.float32)
    W = torch.tensor(rng.normal(size=(256, 256)) / 16, dtype=torch.float32).cuda()
    blocks = list(row_blocks(len(X), 1, 1000))
    parts = []
    for block in stream_blocks(HostRows(X, W, 2**20), blocks):
        work = block
        for _ in range(30):
            work = work @ W
        parts.append(work + block)
    expected = torch.tensor(X).cuda()
    for s, part in zip(blocks, parts, strict=True):
        work = expected[s]
        for _ in range(30):
            work = work @ W
        assert torch.allclose(part, work + expected[s], rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def many_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 128)).astype(np.float32)  # 98 MiB
    y = (X[:, :3].sum(axis=1) > 0).astype(int) + (X[:, 3] > 0)
    return X, y


def peak_of(function):
    """Return what a function returns, and the most GPU memory it took."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    value = function()
    return value, torch.cuda.max_memory_allocated() - before


def test_a_classifier_of_rows_that_do_not_fit(many_rows):
    X, y = many_rows
    model = KMeansKernelClassifier(
        n_representatives=20,
        kernel="rbf",
        gamma=1 / 128,
        C=10,
        kmeans_params={"max_iter": 5, "tol": 1e-2},
        random_state=0,
        device="cuda",
    )
    whole, needed = peak_of(lambda: clone(model).fit(X, y))
    tight = clone(model).set_params(memory_budget=X.nbytes)
    streamed, needed_streamed = peak_of(lambda: tight.fit(X, y))
    assert needed > X.nbytes
    assert needed_streamed < needed
    assert_close(streamed.representatives_, whole.representatives_, atol=1e-4)
    some = X[:5000]
    assert_close(
        streamed.decision_function(some), whole.decision_function(some), atol=1e-2
    )


def test_clusters_of_rows_that_do_not_fit(many_rows):
    X, _ = many_rows
    model = SphericalKMeans(
        16, init=X[:16], max_iter=5, tol=1e-9, random_state=0, device="cuda"
    )
    with pytest.warns(ConvergenceWarning):
        whole = clone(model).fit(X)
    tight = clone(model).set_params(memory_budget="64MiB")
    with pytest.warns(ConvergenceWarning):
        streamed, peak = peak_of(lambda: tight.fit(X))
    assert peak < X.nbytes
    assert np.mean(streamed.labels_ == whole.labels_) > 0.999
    assert_close(streamed.cluster_centers_, whole.cluster_centers_, atol=1e-3)


def test_rough_looks_at_rows_that_do_not_fit(many_rows):
    """So many centres that tf32 comes first: the labels are those of float32."""
    X, _ = many_rows
    model = SphericalKMeans(512, init=X[:512], max_iter=1, tol=1e-9, device="cuda")
    with pytest.warns(ConvergenceWarning):
        streamed = clone(model).set_params(memory_budget="64MiB").fit(X)
    Z = torch.tensor(X, device="cuda")
    Z = Z / Z.norm(dim=1, keepdim=True)
    centers = torch.tensor(streamed.cluster_centers_, device="cuda")
    exact = (Z.double() @ centers.double().T).argmax(dim=1).cpu().numpy()
    assert np.mean(streamed.labels_ == exact) > 0.9999


def test_predictions_of_rows_that_do_not_fit(many_rows):
    X, y = many_rows
    model = KMeansKernelClassifier(n_representatives=20, random_state=0)
    model = model.fit(X[:5000], y[:5000]).set_params(device="cuda")
    expected = model.decision_function(X)
    model.set_params(memory_budget="32MiB")
    got, peak = peak_of(lambda: model.decision_function(X))
    assert peak < X.nbytes
    assert_close(got, expected, atol=1e-3)


@pytest.fixture(scope="module")
def long_rows():
    """Three groups of rows that take more than a fit beside them: 229 MiB."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=2000)
    means = rng.normal(size=(3, 30_000)).astype(np.float32)
    noise = rng.normal(size=(2000, 30_000)).astype(np.float32)
    return means[y] + 2 * noise, y


def fitted_in_blocks(model, X, y, budget):
    """Return a model of rows that are moved, and one of rows that travel."""
    given = X[:3].copy()
    whole, needed = peak_of(lambda: clone(model).fit(X, y))
    tight = clone(model).set_params(memory_budget=budget)
    streamed, peak = peak_of(lambda: tight.fit(X, y))
    assert needed > X.nbytes > peak
    assert peak <= parse_bytes(budget)
    assert np.array_equal(X[:3], given)
    return whole, streamed


@pytest.mark.parametrize(
    "solver", ["cholesky", "cg", "block_descent", "matching_pursuit"]
)
def test_a_kernel_machine_of_rows_that_do_not_fit(solver, long_rows):
    X, y = long_rows
    options = {} if solver in ("cholesky", "cg") else {"block_size": 200}
    model = LSSVMClassifier(
        solver=solver,
        tol=1e-2,
        max_iter=12,
        random_state=0,
        device="cuda",
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole, streamed = fitted_in_blocks(model, X, y, "288MiB")
    assert streamed.solver_ == whole.solver_ == solver
    assert abs(streamed.n_iter_ - whole.n_iter_) <= 1
    some = X[:100]
    got, peak = peak_of(lambda: streamed.decision_function(some))
    assert peak < X.nbytes
    assert_close(got, whole.decision_function(some), atol=1e-2)


def test_conjugate_gradients_of_many_rows_that_do_not_fit(many_rows):
    """Neither the rows nor their kernel matrix: everything travels for each step."""
    X, y = many_rows
    X, y = X[:20_000], X[:20_000, :3].sum(axis=1)
    model = LSSVMRegressor(
        C=1e-2,
        kernel="poly",
        degree=2,
        gamma=1 / 128,
        coef0=1.0,
        solver="cg",
        tol=1e-3,
        random_state=0,
        device="cuda",
    )
    expected = clone(model).fit(X, y).predict(X[:500])
    streamed = clone(model).set_params(memory_budget="18MiB").fit(X, y)
    assert "are copied in blocks" in streamed.explain()
    assert_close(streamed.predict(X[:500]), expected, atol=5e-2)


@pytest.mark.parametrize("approximation", [None, "nystrom"])
def test_kernel_clusters_of_rows_that_do_not_fit(approximation, long_rows):
    X, _ = long_rows
    model = KernelKMeans(
        3,
        approximation=approximation,
        landmarks="uniform",
        n_landmarks=50,
        n_init=3,
        random_state=0,
        device="cuda",
    )
    whole, streamed = fitted_in_blocks(model, X, None, "288MiB")
    assert np.array_equal(streamed.labels_, whole.labels_)
    assert streamed.inertia_ == pytest.approx(whole.inertia_, rel=1e-4)
    assert np.array_equal(streamed.predict(X[:100]), whole.predict(X[:100]))


# ---- pictures ------------------------------------------------------------------------


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("n_representatives", [None, 60])
def test_pictures_on_a_gpu_are_as_good_as_on_the_host(mirror, n_representatives):
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.uint8)
    model = PatchKernelClassifier(
        64, 3, image_shape=(8, 8), gamma=0.5, C=30.0, mirror=mirror,
        n_representatives=n_representatives, random_state=0,
    )  # fmt: skip
    host = clone(model).fit(X[:300], y[:300])
    there = clone(model).set_params(device="cuda").fit(X[:300], y[:300])
    assert there.kernel_.how.precision == "float16"
    values = there.decision_function(X[300:])
    assert isinstance(values, np.ndarray)
    assert np.mean(values.argmax(1) == host.predict(X[300:])) > 0.95
    again = pickle.loads(pickle.dumps(there)).to_device("numpy")
    assert np.abs(again.decision_function(X[300:]) - values).max() < 0.05


def test_features_on_a_gpu_are_those_of_the_host(dtype):
    X, _ = load_digits(return_X_y=True)
    model = PatchDictionary(32, 3, image_shape=(8, 8), precision=dtype, random_state=0)
    expected = model.fit(X).transform(X)
    found = model.set_params(device="cuda").transform(X)
    assert_close(found, expected, rtol=0, atol=TOLERANCE[dtype])
    half = model.set_params(precision="float16").transform(X)
    assert_close(half, expected, rtol=0, atol=0.02)


@pytest.mark.parametrize("placed", ["tensors", "device"])
@pytest.mark.parametrize("estimator", having(predictors(), "device"), ids=name_of)
def test_intervals_and_sets_on_the_gpu(estimator, placed, iris):
    X, y = iris
    on_host, model = clone(estimator).fit(X, y), clone(estimator)
    rows = torch.tensor(X, device="cuda") if placed == "tensors" else X
    if placed == "device":
        model.set_params(device="cuda")
    model.fit(rows, y)
    # Not the training rows: their scores tie with their own, and rounding decides.
    new = X + np.random.default_rng(0).normal(scale=0.1, size=X.shape)
    given = torch.tensor(new, device="cuda") if placed == "tensors" else new
    for method in ("predict_interval", "predict_set"):
        if hasattr(model, method):
            value = getattr(model, method)(given, [0.5, 0.9])
            assert type(value) is type(rows)
            expected = getattr(on_host, method)(new, [0.5, 0.9])
            assert_close(value, expected, rtol=1e-6, atol=1e-6)
