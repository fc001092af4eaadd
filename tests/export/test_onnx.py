"""Graphs of ONNX: onnxruntime gives what ``predict`` gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from kaucus import (
    ClusterRBFSVC,
    KernelKMeans,
    KernelOutlierDetector,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LearnedMetric,
    LocalSVC,
    LSSVMClassifier,
    LSSVMRegressor,
    PatchVotingClassifier,
    RepresentativeFeatures,
    SphericalKMeans,
    TableClassifier,
    TableRegressor,
)
from kaucus.kernels import (
    ClusterRBF,
    Gaussian,
    MahalanobisRBF,
    MappedKernel,
    NearestCenter,
)
from kaucus.onnx import NotExportableError, register_converters, to_onnx
from kaucus.preprocessing import FourierFeatures, GaussianWindow, UnitNormalizer
from tests.discovery import estimators, name_of

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")

# Of the largest value. Results in float32 are rounded to 6e-8 by themselves.
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}
METHODS = {
    "label": "predict",
    "prediction": "predict",
    "decision": "decision_function",
    "probabilities": "predict_proba",
    "transformed": "transform",
}
KERNELS = ["rbf", "linear", "poly", "exponential", "cauchy", "cosine", "laplacian"]
KERNELS += ["matern32", "matern52", "rational_quadratic"]
CELLS = {"random_state": 0, "n_clusters": 3}
MODELS = [
    *(LSSVMRegressor(kernel=kernel, gamma=0.2) for kernel in KERNELS),
    LSSVMRegressor(kernel="sigmoid", gamma=0.2, C=1e-3),
    LSSVMClassifier(),
    LSSVMClassifier(kernel="exponential", C=1e4),
    LSSVMClassifier(probability="sum_exp"),
    LSSVMClassifier(probability=False),
    LSSVMClassifier("auto"),
    LSSVMRegressor("auto"),
    KMeansKernelClassifier(3, learn_metric=False, random_state=0),
    KMeansKernelRegressor(6, learn_metric=False, random_state=0),
    KMeansKernelRegressor(
        6,
        learn_metric=False,
        loss="quantile",
        quantile=[0.9, 0.1, 0.45, 0.5, 0.55],
        random_state=0,
    ),
    ClusterRBFSVC(**CELLS),
    ClusterRBFSVC(partition="gmm", covariance="radial", **CELLS),
    ClusterRBFSVC(partition="tree", covariance="diag", **CELLS),
    LocalSVC(**CELLS),
    LocalSVC(partition="linear", **CELLS),
    SphericalKMeans(3, random_state=0),
    KernelKMeans(3, n_init=1, random_state=0),
    KernelKMeans(3, kernel="poly", n_init=1, random_state=0),
    KernelKMeans(3, approximation="nystrom", n_landmarks=8, random_state=0),
    KernelOutlierDetector(random_state=0),
    KernelOutlierDetector(4, kernel="rbf", gamma=0.1, contamination=0.2),
    LearnedMetric(max_steps=0, kernel="rbf", random_state=0),
    RepresentativeFeatures(5, gamma=0.2, random_state=0),
    RepresentativeFeatures(5, kernel="matern52", landmarks="uniform", random_state=0),
    UnitNormalizer(),
    GaussianWindow(image_shape=(2, 3)),
    FourierFeatures(),
    FourierFeatures(image_shape=(2, 3), power=1.0),
    FourierFeatures(image_shape=(2, 1, 3), fft="2d", concatenate=False),
]


def run(proto, X):
    """Return the outputs of onnxruntime by name."""
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


def assert_agrees(model, X, dtype):
    """Hold the graph of a model to its methods.

    These see the same numbers in float64: of float32 rows they are rounded themselves.
    """
    X = X.astype(dtype)
    found = run(to_onnx(model, dtype=dtype), X)
    assert found
    for name, values in found.items():
        expected = getattr(model, METHODS[name])(X.astype("float64"))
        assert values.shape == expected.shape, name
        if name == "label":
            assert_same_labels(values, expected, found, dtype)
        else:
            assert values.dtype == dtype
            scale = max(1.0, np.abs(expected).max())
            assert_allclose(values, expected, rtol=0, atol=TOLERANCE[dtype] * scale)


def assert_same_labels(labels, expected, found, dtype):
    """Labels are equal, but where two values are as good as equal."""
    columns = ("decision", "transformed", "probabilities")
    values = next(found[name] for name in columns if name in found)
    values = values[:, None] * [[-1, 1]] if values.ndim == 1 else values
    best = np.sort(values, axis=1)
    gap = np.minimum(best[:, -1] - best[:, -2], best[:, 1] - best[:, 0])
    clear = gap > 10 * TOLERANCE[dtype] * max(1.0, np.abs(values).max())
    assert_array_equal(labels[clear], expected[clear])


@st.composite
def tables(draw):
    """Rows of six columns in some classes, anywhere and of any size."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, n_classes = draw(st.integers(24, 50)), draw(st.integers(2, 4))
    labels = np.arange(n) % n_classes
    X = rng.normal(size=(n, 6)) + rng.normal(size=(n_classes, 6))[labels]
    # Of sizes that float32 holds: 0.01 to 100 wide, 0 to 10 times that from zero.
    X = X * 10.0 ** draw(st.integers(-2, 2))
    X = X + X.std() * draw(st.sampled_from([0.0, 1.0, 10.0]))
    names = draw(
        st.sampled_from([None, ["red", "green", "blue", "other"], [7, 5, 3, 1]])
    )
    return X, labels if names is None else np.array(names)[labels]


# ---- the law -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS, ids=name_of)
@settings(max_examples=2)
@given(table=tables(), dtype=st.sampled_from(["float32", "float64"]))
def test_onnxruntime_agrees_with_predict(model, table, dtype):
    X, y = table
    if not is_classifier(model) and y.dtype.kind == "U":
        y = np.unique(y, return_inverse=True)[1]
    assert_agrees(clone(model).fit(X, y), X, dtype)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    return X, np.array(["no", "perhaps", "yes"])[np.arange(60) % 3]


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_a_learned_metric_is_in_the_graph(rows, kind):
    X, _ = rows
    y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]
    metric = LearnedMetric(kind, power=1.0, kernel="rbf", random_state=0, max_steps=1)
    kernel = MappedKernel(Gaussian(0.1), metric.fit(X, y).row_map_)
    model = LSSVMRegressor(kernel=kernel).fit(X, y)
    for dtype in ("float32", "float64"):
        assert_agrees(metric, X, dtype)
        assert_agrees(model, X, dtype)


def test_several_outputs(rows):
    X, _ = rows
    model = LSSVMRegressor().fit(X, X[:, :2])
    assert_agrees(model, X, "float64")


@pytest.mark.parametrize(
    "kernel",
    [
        MahalanobisRBF(np.diag([1.0, 2.0, 3.0, 4.0]) + 0.5, gamma=0.3),
        MahalanobisRBF(2.0),
        ClusterRBF(NearestCenter(np.eye(4)[:2]), [1.0, 3.0], gamma=0.4),
        ClusterRBF(
            NearestCenter(np.eye(4)[:2]), [1.0, 3.0], normalization="determinant"
        ),
    ],
)
def test_kernel_objects(rows, kernel):
    X, y = rows
    assert_agrees(LSSVMClassifier(kernel=kernel).fit(X, y), X, "float64")


def test_a_given_kernel_matrix_stays_the_input(rows):
    X, y = rows
    K = X @ X.T
    model = LSSVMClassifier(kernel="precomputed").fit(K, y)
    assert_agrees(model, K, "float64")
    model = KernelKMeans(2, kernel="precomputed", random_state=0).fit(K)
    assert_array_equal(run(model.to_onnx(), K.astype("f"))["label"], model.predict(K))


def test_rows_of_a_sparse_matrix(rows):
    sparse = pytest.importorskip("scipy.sparse")
    X, y = rows
    model = LSSVMClassifier(kernel="cosine").fit(sparse.csr_array(X), y)
    assert_agrees(model, X, "float64")


def test_a_model_of_tensors(rows):
    torch = pytest.importorskip("torch")
    X, y = rows
    model = LSSVMClassifier().fit(torch.tensor(X), y)
    assert_agrees(model, X, "float64")


# ---- precision ---------------------------------------------------------------------


def computes_in_float64(proto):
    kinds = {constant.data_type for constant in proto.graph.initializer}
    return onnx.TensorProto.DOUBLE in kinds


def test_float32_is_used_where_it_suffices_and_float64_where_it_does_not(rows):
    X, y = rows
    smooth = LSSVMClassifier(kernel="rbf", gamma=0.1, C=0.1).fit(X, y == "yes")
    assert not computes_in_float64(smooth.to_onnx())
    cancelling = LSSVMClassifier(kernel="exponential", C=1e6).fit(X, y == "yes")
    assert computes_in_float64(cancelling.to_onnx())
    assert_agrees(cancelling, X, "float32")


# ---- pipelines ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), LSSVMClassifier()),
        make_pipeline(
            StandardScaler(), UnitNormalizer(), LSSVMClassifier(probability=False)
        ),
        make_pipeline(MinMaxScaler(), KMeansKernelClassifier(3, C=1, gamma=0.1)),
        make_pipeline(LearnedMetric(max_steps=0), LogisticRegression()),
        make_pipeline(StandardScaler(), ClusterRBFSVC(random_state=0)),
    ],
    ids=lambda model: type(model[-1]).__name__,
)
def test_pipelines_with_scikit_learns_parts(model, rows, dtype):
    X, y = rows
    assert_agrees(clone(model).fit(X, y), X, dtype)


def test_skl2onnx_itself_takes_our_estimators(rows):
    skl2onnx = pytest.importorskip("skl2onnx")
    X, y = rows
    register_converters()
    model = LSSVMClassifier().fit(X, y)
    proto = skl2onnx.to_onnx(model, X[:1].astype(np.float32))
    assert_array_equal(run(proto, X.astype("f"))["label"], model.predict(X))


@pytest.fixture(scope="module")
def frame():
    pandas = pytest.importorskip("pandas")
    rng, n = np.random.default_rng(0), 200
    return pandas.DataFrame(
        {
            "number": np.where(np.arange(n) % 7, rng.normal(size=n), np.nan),
            "count": rng.integers(0, 9, n),
            "label": rng.choice(["x", "y", "z"], n),
            "two": rng.choice(["p", "q"], n),
            "shop": rng.choice([f"shop {i}" for i in range(50)], n),
            "gaps": np.where(np.arange(n) % 5, rng.choice(["u", "v"], n), None),
            "empty": np.nan,
        }
    )


def fed(proto, frame, dtype):
    """Return the outputs for the columns of a frame."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    feeds = {}
    for wanted in session.get_inputs():
        column = frame[wanted.name.removesuffix("_in")]
        if wanted.type == "tensor(string)":
            values = column.fillna("").to_numpy(dtype=object)
        else:
            values = column.to_numpy(dtype=dtype)
        feeds[wanted.name] = values[:, None]
    assert {"number", "label_in"} <= feeds.keys()
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@pytest.mark.parametrize(
    ("effort", "members"),
    [
        *(("fast", "auto"), ("balanced", "auto")),
        *(("fast", ["trees"]), ("balanced", ["kernel"])),
    ],
)
@pytest.mark.usefixtures("few_rounds")
@pytest.mark.filterwarnings("ignore:Columns without any value")
def test_tables_with_categories_and_gaps(frame, effort, members):
    options = {"effort": effort, "members": members, "random_state": 0}
    dtypes = ("float32", "float64")
    # Trees compare numbers as they are given.
    frame = frame.astype({"number": np.float32})
    new = frame.assign(label=["new", *frame["label"][1:]])  # an unknown category
    new["gaps"] = ["w", None, *frame["gaps"][2:]]
    new["shop"] = ["elsewhere", None, *frame["shop"][2:]]
    y = frame["count"] + (frame["label"] == "x")
    model = TableRegressor(**options).fit(frame, y)
    # Trees give float32.
    assert "trees" not in members or any(t.n_bitsets.sum() for t in model.trees_)
    for dtype in dtypes:
        found = fed(to_onnx(model, dtype=dtype), new, dtype)["prediction"]
        assert_allclose(found, model.predict(new), rtol=0, atol=1e-5 * np.abs(y).max())
    for labels, threshold in ((np.where(y > 4, "up", "down"), 0.3), (y % 3, None)):
        model = TableClassifier(threshold=threshold, **options).fit(frame, labels)
        P = model.predict_proba(new)
        for dtype in dtypes:
            found = fed(to_onnx(model, dtype=dtype), new, dtype)
            assert_allclose(found["probabilities"], P, rtol=0, atol=1e-5)
            assert (found["label"] == model.predict(new)).mean() > 0.95


def test_a_table_without_names_is_one_input(rows):
    X, y = rows
    model = TableClassifier(effort="fast", random_state=0).fit(X, y)
    found = run(to_onnx(model, dtype="float64"), X)["probabilities"]
    assert_allclose(found, model.predict_proba(X), rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Columns without any value")
def test_dates_of_a_table_are_a_clear_error(frame):
    days = np.datetime64("2024-01-01") + np.arange(len(frame))
    model = TableRegressor(effort="fast", random_state=0)
    model.fit(frame.assign(day=days), frame["count"])
    with pytest.raises(NotExportableError, match="'day' has dates, which ONNX cannot"):
        to_onnx(model)


def test_a_clusterer_in_the_middle_is_refused(rows):
    X, y = rows
    model = make_pipeline(SphericalKMeans(3), LogisticRegression()).fit(X, y)
    with pytest.raises(NotExportableError, match="before the last step"):
        to_onnx(model)


# ---- what the graph is -------------------------------------------------------------


def test_operators_are_plain(rows):
    X, y = rows
    for kernel in KERNELS:
        proto = LSSVMClassifier(kernel=kernel).fit(X, y).to_onnx()
        assert {node.domain for node in proto.graph.node} == {""}


def test_any_number_of_rows(rows):
    X, y = rows
    model = LSSVMClassifier(kernel="laplacian").fit(X, y)
    proto = model.to_onnx(dtype="float64")
    for n in (1, 2, 60):
        assert run(proto, X[:n])["probabilities"].shape == (n, 3)


def test_columns_and_version_are_told(rows):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    frame = pandas.DataFrame(X, columns=list("abcd"))
    for model in (
        LSSVMClassifier(),
        make_pipeline(StandardScaler(), LSSVMClassifier()),
    ):
        proto = to_onnx(model.fit(frame, y))
        about = {entry.key: entry.value for entry in proto.metadata_props}
        assert about["columns"].split("\n") == list("abcd")
        assert about["kaucus"]


def test_every_estimator_has_the_method_or_is_refused(rows):
    without = [e for e in estimators() if not hasattr(e, "to_onnx")]
    assert {"PatchVotingClassifier", "ImagePatches"} <= set(map(name_of, without))
    for estimator in without:
        with pytest.raises(NotExportableError, match="cannot be exported to ONNX"):
            to_onnx(clone(estimator).fit(*rows))


@pytest.mark.parametrize(
    "kernel", [chi2_kernel, lambda X, Y: X @ Y.T], ids=["named", "lambda"]
)
def test_a_function_as_kernel_is_a_clear_error(rows, kernel):
    X, y = rows
    model = LSSVMClassifier(kernel=kernel).fit(np.abs(X), y)
    with pytest.raises(
        NotExportableError, match="cannot be exported to ONNX; use 'linear'"
    ):
        model.to_onnx()


def test_a_function_as_partition_is_a_clear_error(rows):
    X, y = rows
    model = LocalSVC(partition=lambda X: (X[:, 0] > 0).astype(int)).fit(X, y)
    with pytest.raises(NotExportableError, match="use partition='kmeans'"):
        model.to_onnx()


def test_an_estimator_without_a_form_is_a_clear_error(rows):
    X, y = rows
    voting = PatchVotingClassifier(LSSVMClassifier(), image_shape=(2, 2), patch_size=2)
    with pytest.raises(
        NotExportableError, match="PatchVotingClassifier cannot be exported"
    ):
        to_onnx(voting.fit(X, y))


def test_another_precision_is_a_clear_error(rows):
    with pytest.raises(ValueError, match="dtype='float16' must be one of"):
        LSSVMClassifier().fit(*rows).to_onnx(dtype="float16")
