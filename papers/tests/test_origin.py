"""Sets from their sources: every form is read, and another version is refused."""

import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from papers.datasets import _fetch, _loaders, _origin, load_uci
from papers.datasets._origin import content_sha256, fetch_origin
from papers.datasets._readers import Table, read_csv, read_libsvm, read_text
from papers.datasets._registry import DATASETS, Dataset, Origin

X = np.array([[1.0, -2.5], [0.0, 1e-3], [3.0, 4.0]])
Y = np.array(["a", "b", "a"])


def dataset(form, n_samples=(3,), **origin):
    tables = [Table(X, Y, [])]
    facts = {"urls": ("https://example.org/tiny",), "content": content_sha256(tables)}
    return Dataset(
        name="tiny",
        title="Tiny",
        loader="load_tiny",
        files=(),
        n_samples=n_samples,
        n_features=2,
        n_classes=2,
        source="the source",
        homepage="https://example.org/",
        licence="none",
        origin=Origin(form=form, **(facts | origin)),
    )


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Put files in place of what is downloaded."""

    def use(*contents):
        paths = []
        for i, content in enumerate(contents):
            paths.append(tmp_path / str(i))
            paths[-1].write_bytes(content)
        monkeypatch.setattr(_origin, "_download", lambda *args: paths)

    return use


@pytest.mark.parametrize(
    "text",
    [
        b"1,-2.5,a\n0,0.001,b\n3,4,a\n",
        b" 1   -2.5\ta\r\n\n 0\t\t1e-3 b \n3.0 4.00 a",
        b"% a comment\n@relation x\n@data\n1,-2.5,'a'\n0,.001,'b'\n3,4,'a'\n",
        b"first second label\n3 4 a\n1 -2.5 a\n0 0.001 b\n",
        b"1,-2.5,a\n7,?,b\n0,0.001,b\n3,4,a\n",
    ],
    ids=["commas", "blanks", "arff", "names, another order", "missing"],
)
def test_texts_of_every_kind_are_read(source, text):
    source(text)
    (table,) = fetch_origin(dataset("text"), "float32")
    assert table.X.dtype == np.float32
    order = np.lexsort(table.X.T)
    assert_array_equal(table.X[order], X.astype(np.float32)[np.lexsort(X.T)])
    assert sorted(table.y) == sorted(Y)


def test_columns_labels_and_names_are_those_of_the_registry(source):
    source(b"17,1,-2.5,1\n18,0,0.001,2\n", b"19,3,4,1\n")
    facts = {"drop": (0,), "labels": {"1": "a", "2": "b"}, "feature_names": ("u", "v")}
    (table,) = fetch_origin(dataset("text", **facts), "float64")
    assert_array_equal(table.X, X)
    assert_array_equal(table.y, Y)
    assert table.feature_names == ["u", "v"]


@pytest.mark.parametrize(
    "text",
    [b"1,-2.5,a\n0,0.001,b\n3,4,b\n", b"1,-2.5,a\n0,0.001,b\n", b"1,2,a\n3,4,b\n0,0,a"],
    ids=["label", "rows", "value"],
)
def test_another_version_is_refused(source, text):
    source(text)
    with pytest.raises(ValueError, match=r"sha256 of its rows is .*expected .*Get"):
        fetch_origin(dataset("text"), "float64")


def test_the_checksum_counts_repeated_rows_and_signs():
    one, two = Table(X, Y, []), Table(np.repeat(X, 2, 0), np.repeat(Y, 2), [])
    assert content_sha256([one]) != content_sha256([two])
    assert content_sha256([one]) != content_sha256([Table(-X, Y, [])])
    assert content_sha256([Table(0 * X, Y, [])]) == content_sha256(
        [Table(-0.0 * X, Y, [])]
    )


def test_a_source_that_cannot_be_reached_says_both(monkeypatch, tmp_path):
    monkeypatch.delenv("KAUCUS_DATA", raising=False)
    monkeypatch.setattr(_fetch, "cache_folder", lambda: tmp_path)

    def fail(*args):
        raise OSError("no network")

    monkeypatch.setattr(_loaders, "fetch_origin", fail)
    with pytest.raises(FileNotFoundError, match=r"(?s)iris.csv was not .*no network"):
        load_uci("iris")


def test_openml_and_covtype_are_asked_of_scikit_learn(monkeypatch):
    class Found:
        data, target, feature_names = X, Y, ("u", "v")

    asked = []
    for name in ("fetch_openml", "fetch_covtype"):
        monkeypatch.setattr(
            f"sklearn.datasets.{name}", lambda **kw: asked.append(kw) or Found()
        )
    for form in ("openml", "covtype"):
        (table,) = fetch_origin(dataset(form, data_id=37), "float64")
        assert table.feature_names == ["u", "v"]
    assert asked[0]["data_id"] == 37


def as_source(dataset, tables, rng):
    """Yield the parts in the form that their source has them in, in another order."""
    origin = dataset.origin
    back = {ours: theirs for theirs, ours in origin.labels.items()}
    for table in tables:
        lines = []
        for row, label in zip(table.X.tolist(), table.y.tolist(), strict=True):
            fields = [repr(v) for v in row]
            for column in origin.drop:
                fields.insert(column, "12345")
            label = back.get(str(label), str(label))
            if origin.form == "libsvm":
                fields = [f"{i}:{v}" for i, v in enumerate(fields, 1) if float(v) != 0]
                lines.append(" ".join([label, *fields]))
            else:
                lines.append(",".join([*fields, label]))
        yield ("\n".join(rng.permutation(lines)) + "\n").encode()


SMALL = [n for n, d in DATASETS.items() if d.origin and n not in ("covtype", "a9a")]


@pytest.mark.data
@pytest.mark.parametrize("name", [n for n in SMALL if n != "diabetes_pima"])
def test_what_we_have_would_be_accepted_from_its_source(name, data_home, source, rng):
    known = DATASETS[name]
    ours = [read_csv(data_home / file.path) for file in known.files]
    source(*as_source(known, ours, rng))
    theirs = fetch_origin(known, "float64")
    for a, b in zip(ours, theirs, strict=True):
        assert a.feature_names == b.feature_names
        assert a.y.dtype == b.y.dtype
        assert content_sha256([a]) == content_sha256([b])


@pytest.mark.data
def test_a9a_would_be_accepted_from_its_source(data_home, source):
    known = DATASETS["a9a"]
    source(*(gzip.decompress((data_home / f.path).read_bytes()) for f in known.files))
    train, test = fetch_origin(known, "float32")
    X_train, y_train = read_libsvm(data_home / known.files[0].path, 123, "float32")
    assert_array_equal(train.X, X_train.toarray())
    assert_array_equal(train.y, y_train)
    assert test.X.shape == (16281, 123)


def test_a_text_of_unequal_lines_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"1 2 3\n1 2\n")
    with pytest.raises(ValueError, match="as many fields in every line"):
        read_text(path)
