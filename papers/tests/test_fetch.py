"""Files come from the first place that has them, and only with the right checksum."""

import hashlib
import io
import os
import sys
import tarfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from papers.datasets import _fetch
from papers.datasets._fetch import fetch
from papers.datasets._registry import DataFile, Dataset

CONTENT = b"x,y\n1,2\n"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def dataset_of(*files):
    return Dataset(
        name="tiny",
        title="Tiny",
        loader="load_tiny",
        files=files,
        n_samples=(1,),
        n_features=1,
        n_classes=1,
        source="the source",
        homepage="https://example.org/",
        licence="none",
    )


def tiny(**changes):
    file = DataFile(path="folder/tiny.csv", sha256=sha256(CONTENT))
    return dataset_of(replace(file, **changes))


def put(folder, path="folder/tiny.csv", content=CONTENT):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep the user's environment and cache out of these tests."""
    monkeypatch.delenv("KAUCUS_DATA", raising=False)
    monkeypatch.setattr(_fetch, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


class Handler(SimpleHTTPRequestHandler):
    def log_request(self, *args):
        self.server.requested.append(self.path)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server on this machine: its folder, its address, what was asked of it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "web"
    folder.mkdir()
    address = ("127.0.0.1", 0)
    with ThreadingHTTPServer(address, partial(Handler, directory=folder)) as server:
        server.folder, server.requested = folder, []
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["folder/tiny.csv", "tiny.csv"])
@pytest.mark.parametrize("named_by", ["data_home", "KAUCUS_DATA"])
def test_local_file_is_found_nested_and_flat(home, monkeypatch, path, named_by):
    expected = put(home, path)
    if named_by == "KAUCUS_DATA":
        monkeypatch.setenv("KAUCUS_DATA", str(home))
    assert fetch(tiny(), data_home=home if named_by == "data_home" else None) == [
        expected
    ]


def test_data_home_comes_before_the_environment(home, tmp_path, monkeypatch):
    monkeypatch.setenv("KAUCUS_DATA", str(tmp_path / "other"))
    other = put(tmp_path / "other")
    assert fetch(tiny(), data_home=home) == [other]
    first = put(home)
    assert fetch(tiny(), data_home=str(home)) == [first]


def test_files_keep_their_order(home):
    names = ["c", "a", "b"]
    paths = [put(home, name, name.encode()) for name in names]
    files = [DataFile(path=n, sha256=sha256(n.encode())) for n in names]
    assert fetch(dataset_of(*files), data_home=home) == paths


def test_wrong_checksum_names_both_digests_and_the_remedy(home):
    path = put(home, content=b"other")
    with pytest.raises(ValueError, match="delete it and fetch it again") as caught:
        fetch(tiny(), data_home=home)
    for part in (str(path), sha256(b"other"), sha256(CONTENT)):
        assert part in str(caught.value)


def test_checksum_is_computed_once_and_again_after_a_change(home, monkeypatch):
    read = []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        hashlib, "file_digest", lambda *args: read.append(1) or digest(*args)
    )
    path = put(home)
    for _ in range(3):
        fetch(tiny(), data_home=home)
    assert len(read) == 1
    # As long as the true content, but of another time.
    path.write_bytes(CONTENT.replace(b"1", b"7"))
    os.utime(path, ns=(1, 1))
    with pytest.raises(ValueError, match="sha256"):
        fetch(tiny(), data_home=home)


@pytest.mark.parametrize("named_by", ["data_home", "KAUCUS_DATA"])
def test_named_folder_must_exist(tmp_path, monkeypatch, named_by):
    wrong = tmp_path / "no such folder"
    if named_by == "KAUCUS_DATA":
        monkeypatch.setenv("KAUCUS_DATA", str(wrong))
    with pytest.raises(NotADirectoryError, match=f"{named_by}=.*no such folder"):
        fetch(tiny(), data_home=wrong if named_by == "data_home" else None)


def test_missing_file_without_address_says_where_it_comes_from(home, cache):
    with pytest.raises(FileNotFoundError) as caught:
        fetch(tiny(), data_home=home)
    for part in (
        "Tiny: folder/tiny.csv was not found",
        f"{home} (data_home)",
        f"{cache} (cache)",
        "made from the source, https://example.org/",
        sha256(CONTENT),
        "data_home=FOLDER",
        "export KAUCUS_DATA=FOLDER",
    ):
        assert part in str(caught.value)


def test_missing_pooch_gives_the_command_that_installs_it(home, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("KAUCUS_DATA", str(home))
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError) as caught:
        fetch(tiny(urls=("https://example.org/tiny.csv",)))
    for part in (
        f"{home} (KAUCUS_DATA)",
        "pip install -r papers/requirements.txt",
        'python -c "from papers.datasets import load_tiny; load_tiny()"',
    ):
        assert part in str(caught.value)


def test_cache_is_the_users(monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.undo()
    assert "kaucus" in _fetch.cache_folder().parts


def test_download_goes_to_the_cache_and_happens_once(server, cache):
    pytest.importorskip("pooch")
    put(server.folder, "tiny.csv")
    dataset = tiny(urls=(f"{server.url}/tiny.csv",))
    for _ in range(2):
        assert fetch(dataset) == [cache / "folder/tiny.csv"]
    assert (cache / "folder/tiny.csv").read_bytes() == CONTENT
    assert server.requested == ["/tiny.csv"]


def test_mirrors_are_tried_in_turn(server, cache):
    pytest.importorskip("pooch")
    put(server.folder, "wrong/tiny.csv", b"other")
    put(server.folder, "right/tiny.csv")
    put(server.folder, "unused/tiny.csv")
    mirrors = ("absent", "wrong", "right", "unused")
    fetch(tiny(urls=tuple(f"{server.url}/{m}/tiny.csv" for m in mirrors)))
    assert server.requested == [f"/{m}/tiny.csv" for m in mirrors[:3]]
    assert (cache / "folder/tiny.csv").read_bytes() == CONTENT


def test_failed_downloads_are_named(server, cache):
    pytest.importorskip("pooch")
    put(server.folder, "wrong/tiny.csv", b"other")
    urls = tuple(f"{server.url}/{m}/tiny.csv" for m in ("absent", "wrong"))
    with pytest.raises(FileNotFoundError, match="404") as caught:
        fetch(tiny(urls=urls))
    for part in (*urls, sha256(b"other"), "python -c", "export KAUCUS_DATA"):
        assert part in str(caught.value)
    assert not (cache / "folder/tiny.csv").exists()


def test_damaged_file_in_the_cache_is_replaced(server, cache):
    pytest.importorskip("pooch")
    put(server.folder, "tiny.csv")
    put(cache, content=b"cut off")
    [path] = fetch(tiny(urls=(f"{server.url}/tiny.csv",)))
    assert path.read_bytes() == CONTENT


def archive_of(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def test_archive_is_downloaded_once_for_all_its_files(server, cache):
    pytest.importorskip("pooch")
    members = {"bin/a.bin": b"a", "bin/b.bin": b"b"}
    packed = archive_of(members)
    put(server.folder, "all.tar.gz", packed)
    archive = {"urls": (f"{server.url}/all.tar.gz",), "archive_sha256": sha256(packed)}
    files = [
        DataFile(path=path, sha256=sha256(content), **archive)
        for path, content in members.items()
    ]
    for _ in range(2):
        paths = fetch(dataset_of(*files))
        assert [path.read_bytes() for path in paths] == [b"a", b"b"]
    assert server.requested == ["/all.tar.gz"]
    assert sorted(p.name for p in cache.rglob("*") if p.is_file()) == ["a.bin", "b.bin"]
    # A file that got lost or damaged comes back.
    paths[1].write_bytes(b"cut off")
    assert fetch(dataset_of(*files))[1].read_bytes() == b"b"


def test_archive_with_wrong_checksum_is_not_unpacked(server, cache):
    pytest.importorskip("pooch")
    put(server.folder, "all.tar.gz", archive_of({"bin/a.bin": b"evil"}))
    file = DataFile(
        path="bin/a.bin",
        sha256=sha256(b"a"),
        urls=(f"{server.url}/all.tar.gz",),
        archive_sha256=sha256(b"true"),
    )
    with pytest.raises(FileNotFoundError, match="Download failed"):
        fetch(dataset_of(file))
    assert not (cache / "bin/a.bin").exists()


# ---- files of one name ---------------------------------------------------------------


@pytest.fixture
def two_sets(monkeypatch):
    """Two registered sets whose files have the same name."""
    first = dataset_of(DataFile(path="digits/tiny.csv", sha256=sha256(b"digits")))
    second = dataset_of(DataFile(path="clothes/tiny.csv", sha256=sha256(b"clothes")))
    monkeypatch.setattr(
        _fetch._registry, "DATASETS", {"digits": first, "clothes": second}
    )
    return first, second


def test_a_flat_file_of_another_set_is_passed_over(home, cache, two_sets):
    digits, clothes = two_sets
    put(home, "tiny.csv", b"digits")
    assert fetch(digits, data_home=home) == [home / "tiny.csv"]
    with pytest.raises(FileNotFoundError, match="was not found"):
        fetch(clothes, data_home=home)
    nested = put(home, "clothes/tiny.csv", b"clothes")
    assert fetch(clothes, data_home=home) == [nested]


def test_a_flat_file_of_no_set_is_damaged(home, two_sets):
    put(home, "tiny.csv", b"neither")
    for dataset in two_sets:
        with pytest.raises(ValueError, match="damaged or is another version"):
            fetch(dataset, data_home=home)
