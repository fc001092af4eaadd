"""The registry is consistent, cannot be changed, and helps with wrong names."""

import re
from dataclasses import FrozenInstanceError

import pytest

from papers import datasets
from papers.datasets._registry import DATASETS, find, names_of, read_registry

FILES = [file for dataset in DATASETS.values() for file in dataset.files]


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
def test_every_entry_is_whole(dataset):
    assert callable(getattr(datasets, dataset.loader))
    assert len(dataset.n_samples) in (1, 2)
    assert min(*dataset.n_samples, dataset.n_features, dataset.n_classes) > 1
    assert len(dataset.target_names) in (0, dataset.n_classes)
    assert dataset.homepage.startswith("http")
    for part in (dataset.title, dataset.source, dataset.licence, dataset.notes):
        assert part in dataset.description


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.path)
def test_every_file_can_be_recognised(file):
    assert re.fullmatch("[0-9a-f]{64}", file.sha256)
    if file.archive_sha256:
        assert re.fullmatch("[0-9a-f]{64}", file.archive_sha256)
    else:
        assert all(url.endswith("/" + file.name) for url in file.urls)


@pytest.mark.parametrize("attribute", ["path", "sha256"])
def test_no_two_files_can_be_confused(attribute):
    values = [getattr(file, attribute) for file in FILES]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
def test_every_set_can_be_got_by_anybody(dataset):
    if all(file.urls for file in dataset.files):
        return
    origin = dataset.origin
    assert re.fullmatch("[0-9a-f]{64}", origin.content)
    if origin.form in ("text", "libsvm"):
        assert len(origin.urls) >= len(dataset.n_samples)
        assert all(url.startswith("https://") for url in origin.urls)
    else:
        assert origin.form == "covtype" or origin.data_id > 0
    assert len(origin.feature_names) in (0, dataset.n_features)


def test_registry_cannot_be_changed():
    with pytest.raises(TypeError):
        DATASETS["iris"] = None
    with pytest.raises(FrozenInstanceError):
        DATASETS["iris"].licence = "mine"
    with pytest.raises(FrozenInstanceError):
        DATASETS["iris"].files[0].sha256 = ""


def test_unknown_facts_are_refused():
    with pytest.raises(TypeError, match="colour"):
        read_registry("[a]\ncolour = 1\n[a.files]\n")


@pytest.mark.parametrize("loader", ["load_uci", "load_shapes"])
def test_names_find_their_sets(loader):
    names = names_of(loader)
    assert [find(name, loader).name for name in names] == list(names)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("heart", "Did you mean 'heart_statlog'?"),
        ("IRIS", "Did you mean 'iris'?"),
        ("spiral", "Load it with load_shapes('spiral')."),
        ("mnist", "Load it with load_mnist()."),
        ("zzz", "It knows: australian, banknote"),
        (None, "It knows: australian, banknote"),
    ],
)
def test_wrong_names_get_help(name, hint):
    with pytest.raises(ValueError, match=r"It knows: .*, splice_scale") as caught:
        find(name, "load_uci")
    assert hint in str(caught.value)
    assert repr(name) in str(caught.value)
