"""Files are written whole, over regular files only, with the rights of those before."""

import os
import stat
import sys

import numpy as np
import pytest

import kaucus
from kaucus.export.files import replace_file, write_whole
from kaucus.persistence import save

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files and rights")

X = np.random.default_rng(0).normal(size=(30, 2))
MODEL = kaucus.LSSVMClassifier().fit(X, (X[:, 0] > 0).astype(int))


def save_model(path):
    pytest.importorskip("skops")
    save(MODEL, path)


def write_page(path):
    pytest.importorskip("matplotlib")
    kaucus.report(MODEL, X, (X[:, 0] > 0).astype(int)).write_html(path)


each_writer = pytest.mark.parametrize("write", [save_model, write_page])


def make_fifo(path):
    os.mkfifo(path)


def make_socket(path):
    os.mknod(path, 0o600 | stat.S_IFSOCK)


def make_folder(path):
    path.mkdir()


@posix
@each_writer
@pytest.mark.parametrize("make", [make_fifo, make_socket, make_folder])
@pytest.mark.parametrize("through_link", [False, True])
def test_what_is_no_file_is_never_replaced(write, make, through_link, tmp_path):
    place = tmp_path / "place"
    try:
        make(place)
    except PermissionError:
        pytest.skip("this system does not let us make one")
    kind = stat.S_IFMT(place.stat().st_mode)
    path = place
    if through_link:
        path = tmp_path / "link"
        path.symlink_to("place")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(OSError, match=rf"{path} is a .*expected the name of a file"):
        write(path)
    assert stat.S_IFMT(place.stat().st_mode) == kind
    assert sorted(os.listdir(tmp_path)) == before


@posix
@each_writer
def test_a_read_only_file_is_not_replaced(write, tmp_path):
    """Nor by root, who may write any file."""
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match=rf"{path} is read-only; choose another"):
        write(path)
    assert path.read_text() == "old"


@posix
@each_writer
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_new_file_has_the_rights_of_the_old(write, mode, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.stat().st_size > 100


@posix
@each_writer
def test_a_link_stays_a_link_and_its_file_is_written(write, tmp_path):
    (tmp_path / "folder").mkdir()
    file, link = tmp_path / "folder" / "file", tmp_path / "link"
    file.write_text("old")
    link.symlink_to(file)
    write(link)
    assert link.is_symlink()
    assert file.stat().st_size > 100
    assert os.listdir(tmp_path / "folder") == ["file"]


@posix
def test_a_file_is_private_until_it_is_whole(tmp_path):
    with replace_file(tmp_path / "file") as stream:
        [name] = os.listdir(tmp_path)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert name != "file"
        stream.write(b"whole")
    assert os.listdir(tmp_path) == ["file"]
    (tmp_path / "plain").write_text("")
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1  # that of any new file


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*no; make it"):
        write_whole(tmp_path / "no" / "file", b"")
