"""Models in files: every one of ours, nothing of a stranger's, the right version."""

import copy
import inspect
import io
import json
import os
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import kaucus
import kaucus.model
from kaucus import (
    ClusterRBFSVC,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LearnedMetric,
    LSSVMClassifier,
    LSSVMRegressor,
    PatchKernelClassifier,
    PatchKernelRegressor,
    TableClassifier,
    TableRegressor,
)
from kaucus.export import files
from kaucus.persistence import ModelFileError, describe, load, save, trusted_types
from kaucus.preprocessing import PatchDictionary, UnitNormalizer
from tests.arrays import assert_to_rounding
from tests.discovery import estimators, name_of

skops = pytest.importorskip("skops.io")

KERNELS = ["linear", "poly", "exponential", "cauchy", "sigmoid", "cosine", "laplacian"]
KERNELS += ["matern32", "matern52", "rational_quadratic"]
PICTURES = {"image_shape": (8, 8), "n_filters": 4, "random_state": 0}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3] + 0.01 * np.random.default_rng(0).random(X[::3].shape), y[::3]


@pytest.fixture(scope="module")
def model(iris):
    return LSSVMClassifier().fit(*iris)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.skops"


def outputs(model, X):
    names = ("predict", "predict_proba", "decision_function", "transform")
    return [getattr(model, name)(X) for name in names if hasattr(model, name)]


def assert_same_after_a_file(model, X, file, **options):
    save(model, file, **options)
    loaded = load(file, **options)
    assert type(loaded) is type(model)
    for ours, expected in zip(outputs(loaded, X), outputs(model, X), strict=True):
        assert_to_rounding(ours, expected)
    return loaded


# ---- every model of ours -----------------------------------------------------------


@pytest.mark.parametrize("estimator", estimators(), ids=name_of)
def test_every_estimator_comes_back_the_same(estimator, iris, file):
    model = clone(estimator).fit(*iris)
    loaded = assert_same_after_a_file(model, iris[0], file)
    assert loaded.get_params().keys() == model.get_params().keys()


@pytest.mark.parametrize(
    "estimator",
    [
        PatchKernelClassifier(**PICTURES),
        PatchKernelRegressor(**PICTURES),
        PatchDictionary(**PICTURES),
    ],
    ids=name_of,
)
def test_estimators_of_pictures_come_back_the_same(estimator, rng, file):
    X, y = rng.random((30, 64)), np.arange(30) % 2
    assert_same_after_a_file(estimator.fit(X, y), X, file)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_comes_back_the_same(kernel, iris, file):
    model = LSSVMRegressor(kernel=kernel, gamma=0.1, C=1e-3)
    assert_same_after_a_file(model.fit(*iris), iris[0], file)


@pytest.mark.parametrize("partition", ["gmm", "dpgmm", "linear"])
def test_every_partition_comes_back_the_same(partition, iris, file):
    model = ClusterRBFSVC(partition=partition, random_state=0).fit(*iris)
    assert_same_after_a_file(model, iris[0], file)


def test_a_tree_is_loaded_only_by_who_names_it(iris, file):
    model = ClusterRBFSVC(partition="tree", random_state=0).fit(*iris)
    with pytest.raises(ModelFileError, match=r"sklearn\.tree\._tree\.Tree"):
        save(model, file)
    tree = "sklearn.tree._classes.DecisionTreeClassifier"
    known = [tree, "sklearn.tree._tree.Tree"]
    assert_same_after_a_file(model, iris[0], file, trusted=known)


@pytest.mark.parametrize("estimator", [LearnedMetric, KMeansKernelClassifier])
def test_a_learned_metric_comes_back_the_same(estimator, iris, file):
    options = {"kernel": "rbf", "random_state": 0}  # a short search
    if estimator is KMeansKernelClassifier:
        options |= {"n_representatives": 3, "C": 1.0, "learn_metric": True}
    model = estimator(**options).fit(*iris)
    assert_same_after_a_file(model, iris[0], file)


@pytest.mark.parametrize("estimator", [KMeansKernelClassifier, KMeansKernelRegressor])
def test_a_stream_goes_on_after_a_file(estimator, iris, file):
    X, y = iris
    model = estimator(3, learn_metric=False, random_state=0)
    classes = {"classes": np.unique(y)} if estimator is KMeansKernelClassifier else {}
    model.partial_fit(X, y, **classes)
    loaded = assert_same_after_a_file(model, X, file)
    assert_to_rounding(
        loaded.partial_fit(X, y).predict(X), model.partial_fit(X, y).predict(X)
    )


def test_a_model_of_tensors_comes_back_as_tensors(iris, file):
    torch = pytest.importorskip("torch")
    model = LSSVMClassifier().fit(torch.tensor(iris[0]), iris[1])
    save(model, file)
    assert isinstance(load(file).X_fit_, torch.Tensor)


def test_a_pipeline_with_scikit_learns_parts(iris, file):
    model = make_pipeline(StandardScaler(), UnitNormalizer(), LSSVMClassifier())
    assert_same_after_a_file(model.fit(*iris), iris[0], file)


def test_text_dates_and_gaps_by_skrub(file):
    pandas, skrub = pytest.importorskip("pandas"), pytest.importorskip("skrub")
    rng, n = np.random.default_rng(0), 60
    frame = pandas.DataFrame(
        {
            "number": np.where(np.arange(n) % 7, rng.normal(size=n), np.nan),
            "kind": rng.choice(["x", "y", "z"], n),
            "text": [f"word {i} {rng.integers(999)}" for i in range(n)],
            "day": pandas.date_range("2024-02-27", periods=n).astype(str),
        }
    )
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    model = make_pipeline(skrub.TableVectorizer(), numbers, LSSVMClassifier())
    assert_same_after_a_file(model.fit(frame, np.arange(n) % 2), frame, file)


@pytest.fixture(scope="module")
def table():
    pandas = pytest.importorskip("pandas")
    rng, n = np.random.default_rng(0), 260
    frame = pandas.DataFrame(
        {
            "number": np.where(np.arange(n) % 7, rng.normal(size=n), np.nan),
            "kind": rng.choice(["x", "y", "z", None], n),
            "shop": [f"shop {i}" for i in rng.integers(0, 40, n)],
            "day": pandas.date_range("2024-02-27", periods=n),
        }
    )
    return frame, np.nan_to_num(frame["number"]) + (frame["kind"] == "x").to_numpy()


@pytest.mark.parametrize("kind", [TableClassifier, TableRegressor])
def test_a_committee_of_tables(kind, table, file):
    X, y = table
    y = np.where(y > 0.5, "up", "down") if kind is TableClassifier else y
    model = kind(effort="fast", random_state=0).fit(X, y)
    loaded = assert_same_after_a_file(model, X, file)
    assert loaded.explain() == model.explain()
    ask = "predict_set" if kind is TableClassifier else "predict_interval"
    assert_to_rounding(getattr(loaded, ask)(X) * 1.0, getattr(model, ask)(X) * 1.0)


def test_trees_of_a_file_that_point_outside_of_it_are_not_loaded(table, file):
    model = TableRegressor(effort="fast", members=["trees"], random_state=0).fit(*table)
    nodes = model.trees_[0].nodes
    nodes["left"][0] = 10**6
    save(model, file)
    with pytest.raises(ModelFileError, match="trees of this file are damaged"):
        load(file)


def test_it_is_a_file_of_skops(model, iris, file):
    save(model, file)
    loaded = skops.load(file, trusted=trusted_types())
    assert_array_equal(loaded.predict(iris[0]), model.predict(iris[0]))


def test_every_trusted_name_is_a_type_that_there_is():
    for name in trusted_types():
        module, _, attribute = name.rpartition(".")
        if module.startswith("skrub"):
            pytest.importorskip("skrub")
        assert hasattr(__import__(module, fromlist=[attribute]), attribute), name


# ---- nothing of a stranger's -------------------------------------------------------


class Stranger:
    """What a pickle would run as soon as it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("it-ran",)


def with_schema(data, change):
    """Return a model file whose schema a stranger has changed."""
    old, new = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(new, "w") as archive:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                content = json.dumps(change(json.loads(content)))
            archive.writestr(name, content)
    return new.getvalue()


def call_at_load(schema):
    return schema | {
        "__module__": "os",
        "__class__": "mkdir",
        "content": schema["content"],
    }


def call_by_constructor(schema):
    argument = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
    argument |= {"content": '"it-ran"', "is_json": True}
    arguments = {"__class__": "tuple", "__module__": "builtins"}
    arguments |= {"__loader__": "TupleNode", "content": [argument]}
    called = {"__module__": "os", "__class__": "mkdir", "content": arguments}
    return schema | called | {"__loader__": "ConstructorFromReduceNode"}


@pytest.mark.parametrize("change", [call_at_load, call_by_constructor])
def test_a_changed_file_runs_nothing(change, model, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(model, file)
    file.write_bytes(with_schema(file.read_bytes(), change))
    with pytest.raises(ModelFileError, match=r"os\.mkdir, which kaucus does not know"):
        load(file)
    assert not os.path.exists("it-ran")


def test_a_pickle_is_no_model_file(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file.write_bytes(pickle.dumps(Stranger()))
    with pytest.raises(ModelFileError, match="is not a model that kaucus has saved"):
        load(file)
    assert not os.path.exists("it-ran")


def test_a_function_is_loaded_only_by_who_names_it(iris, file):
    model = LSSVMClassifier(kernel=chi2_kernel).fit(*iris)
    name = "sklearn.metrics.pairwise.chi2_kernel"
    with pytest.raises(ModelFileError, match=f"trusted=.'{name}'. to save"):
        save(model, file)
    assert not file.exists()
    save(model, file, trusted=[name])
    with pytest.raises(ModelFileError, match=f"trusted=.'{name}'. to load"):
        load(file)
    assert_array_equal(
        load(file, trusted=[name]).predict(iris[0]), model.predict(iris[0])
    )


def test_a_function_without_a_name_is_refused_when_it_is_saved(iris, file):
    model = LSSVMClassifier(kernel=lambda X, Y: X @ Y.T).fit(*iris)
    with pytest.raises(ModelFileError, match="define it in a module"):
        save(model, file)


def test_what_skops_cannot_save_is_our_error(file):
    with pytest.raises(ModelFileError, match="cannot be saved"):
        save(FunctionTransformer(i for i in range(3)), file)


# ---- what the file tells -----------------------------------------------------------


def test_version_columns_and_remarks_are_in_the_file(iris, file):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(iris[0], columns=list("abcd"))
    model = make_pipeline(StandardScaler(), LSSVMClassifier()).fit(frame, iris[1])
    save(model, file, about={"rows": 50, "target": "kind"})
    told = describe(file)
    assert told.estimator == "LSSVMClassifier"
    assert told.version == kaucus.__version__
    assert told.columns == ("a", "b", "c", "d")
    assert told.about == {"rows": 50, "target": "kind"}
    assert told.versions["numpy"] == np.__version__


@pytest.mark.parametrize("format", [0, 99])
def test_another_format_is_refused_with_a_remedy(format, model, file, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(kaucus, "__version__", "7.8.9")
        other.setattr(files, "FORMAT", format)
        save(model, file)
    assert describe(file).format == format
    expected = f"format {format}, of kaucus 7.8.9.*pip install kaucus==7.8.9"
    with pytest.raises(ModelFileError, match=expected):
        load(file)


def test_every_release_of_the_format_reads_the_file(model, file, monkeypatch):
    save(model, file)
    monkeypatch.setattr(kaucus, "__version__", "7.8.9")
    assert isinstance(load(file), LSSVMClassifier)


def test_a_file_names_types_by_names_that_do_not_move(iris, file):
    model = KMeansKernelClassifier(3, kernel="rbf", C=1.0, learn_metric=True)
    save(model.fit(*iris), file)
    with zipfile.ZipFile(file) as archive:
        text = archive.read("schema.json").decode()
    assert '"kaucus.model"' in text
    assert set(re.findall(r"kaucus\.[\w.]+", text)) == {"kaucus.model"}


def test_records_are_those_of_the_format():
    """Who changes a record raises ``FORMAT``, and writes this file anew."""
    known = json.loads((Path(__file__).parent / "records.json").read_text("utf-8"))
    fields = {cls.__name__: names_of(cls) for cls in kaucus.model.RECORDS}
    assert {"format": files.FORMAT, "records": fields} == known


def names_of(record):
    """Return what a record holds: its fields, or what its constructor takes."""
    if hasattr(record, "_fields"):
        return list(record._fields)
    return list(inspect.signature(record).parameters)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip"])
def test_what_is_no_model_file_is_one_error(content, file):
    file.write_bytes(content)
    for read in (describe, load):
        with pytest.raises(ModelFileError, match="not a model that kaucus has saved"):
            read(file)


def test_a_damaged_file_is_one_error(model, file):
    save(model, file)
    data = bytearray(file.read_bytes())
    data[60:120] = bytes(60)
    file.write_bytes(data)
    with pytest.raises(ModelFileError, match="cannot be read"):
        load(file)


@pytest.mark.parametrize("name", ["X_fit_", "dual_coef_", "intercept_", "classes_"])
def test_arrays_that_do_not_belong_together_are_not_loaded(name, model, iris, file):
    changed = copy.deepcopy(model)
    for bad in (getattr(model, name)[:-1], getattr(model, name)[None]):
        setattr(changed, name, bad)
        save(changed, file)
        with pytest.raises(ModelFileError, match=r"shapes .*do not belong together"):
            load(file)
    if name == "classes_":
        return
    setattr(changed, name, np.full_like(getattr(model, name), np.nan))
    save(changed, file)
    with pytest.raises(ValueError, match="row 0 of X is"):
        load(file).predict(iris[0])


def test_a_damaged_description_is_one_error(model, file):
    save(model, file)
    data = bytearray(file.read_bytes())
    start = data.index(b"kaucus.json") + len(b"kaucus.json")
    data[start + 20 : start + 30] = bytes(range(200, 210))
    file.write_bytes(data)
    for read in (describe, load):
        with pytest.raises(ModelFileError):
            read(file)


def test_no_file_is_said_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nothing\.skops"):
        load(tmp_path / "nothing.skops")


def test_an_old_file_stays_where_writing_fails(model, file, monkeypatch):
    save(model, file)
    before = file.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save(LSSVMClassifier(), file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]
