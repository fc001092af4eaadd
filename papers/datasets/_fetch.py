"""Find or download the files of a data set, and check them.

A file is looked for in ``data_home``, in the folder named by the environment variable
``KAUCUS_DATA``, and in the user's cache, which downloads go to. No file is handed out
unless its sha256 is the registered one.
"""

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from papers.datasets import _registry
from papers.datasets._registry import DataFile, Dataset

ENVIRONMENT_VARIABLE = "KAUCUS_DATA"
INSTALL_POOCH = "pip install -r papers/requirements.txt"


def fetch(
    dataset: Dataset, *, data_home: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Return the paths of a data set's files, in order, and download missing ones.

    In ``data_home``, which is searched first, the files are as registered
    (``mnist/train-images-idx3-ubyte.gz``) or flat.

    Raises
    ------
    FileNotFoundError
        If a file is nowhere and cannot be downloaded.
    NotADirectoryError
        If a folder was named that does not exist.
    ValueError
        If a local file has another sha256 than the registered one.
    """
    folders = local_folders(data_home)
    return [_fetch_file(file, dataset, folders) for file in dataset.files]


def is_here(
    dataset: Dataset, *, data_home: str | os.PathLike[str] | None = None
) -> bool:
    """Tell whether every file of a data set is in a folder or in the cache.

    Nothing is downloaded, and checksums are not compared.
    """
    folders = [*local_folders(data_home).values()]
    folders += [cache] if (cache := cache_folder()) else []
    return all(
        any(
            (folder / at).is_file()
            for folder in folders
            for at in (file.path, file.name)
        )
        for file in dataset.files
    )


def fetch_command(dataset: Dataset) -> str:
    """Return the command that downloads a data set into the cache."""
    code = f"from papers.datasets import {dataset.loader}; {dataset.call}"
    return f'python -c "{code}"'


def local_folders(data_home: str | os.PathLike[str] | None) -> dict[str, Path]:
    """Return the folders that the user named, by how they were named."""
    named = {
        "data_home": data_home,
        ENVIRONMENT_VARIABLE: os.environ.get(ENVIRONMENT_VARIABLE),
    }
    folders = {how: Path(p).expanduser() for how, p in named.items() if p}
    for how, folder in folders.items():
        if not folder.is_dir():
            raise NotADirectoryError(
                f"{how}={str(folder)!r} is not a folder; name one that holds the data, "
                "or leave it out."
            )
    return folders


def cache_folder() -> Path | None:
    """Return the folder for downloads, or None where pooch is not installed."""
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("kaucus"))


def sha256_of(path: Path) -> str:
    """Return a file's sha256, computed once for each path, time of change and size."""
    stat = path.stat()
    return _sha256(path.resolve(), stat.st_mtime_ns, stat.st_size)


def _fetch_file(file: DataFile, dataset: Dataset, folders: dict[str, Path]) -> Path:
    """Return the path of one checked file."""
    for folder in folders.values():
        flat = folder / file.name
        if (nested := folder / file.path).is_file():
            return _checked(nested, file)
        if flat.is_file() and not _is_of_another_set(flat, file):
            return _checked(flat, file)
    if (cache := cache_folder()) is None:
        raise _missing(file, dataset, folders, cache, [])
    path = cache / file.path
    # What is damaged in the cache is ours to replace, so no error for it.
    if not path.is_file() or sha256_of(path) != file.sha256:
        failures = _download(file, cache)
        if failures or not file.urls:
            raise _missing(file, dataset, folders, cache, failures)
    return _checked(path, file)


def _is_of_another_set(path: Path, file: DataFile) -> bool:
    """Tell whether this is a file of the same name of another set, such as MNIST."""
    found = sha256_of(path)
    every = (f for dataset in _registry.DATASETS.values() for f in dataset.files)
    return found != file.sha256 and any(found == other.sha256 for other in every)


def _checked(path: Path, file: DataFile) -> Path:
    """Return the path if its content has the registered checksum."""
    if (found := sha256_of(path)) != file.sha256:
        raise ValueError(
            f"{path}: sha256 is {found}, expected {file.sha256}. The file is damaged "
            "or is another version; delete it and fetch it again."
        )
    return path


@lru_cache(maxsize=256)
def _sha256(path: Path, mtime_ns: int, size: int) -> str:
    """Return a file's sha256; time and size are there to know a changed file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _download(file: DataFile, cache: Path) -> list[str]:
    """Try each address in turn; return why each failed, or nothing on success."""
    failures = []
    for url in file.urls:
        try:
            _retrieve(file, url, cache)
        except (OSError, ValueError) as error:  # no network, or a wrong checksum
            failures.append(f"{url}: {error}")
        else:
            return []
    return failures


def _retrieve(file: DataFile, url: str, cache: Path) -> None:
    """Write the file, or all files of its archive, into the cache."""
    import pooch  # optional: cache_folder has found it

    if not file.archive_sha256:
        folder = (cache / file.path).parent
        pooch.retrieve(url, f"sha256:{file.sha256}", fname=file.name, path=folder)
        return
    tar = cache / url.rpartition("/")[2]
    pooch.retrieve(
        url,
        f"sha256:{file.archive_sha256}",
        fname=tar.name,
        path=cache,
        processor=pooch.Untar(extract_dir="."),
    )
    tar.unlink(missing_ok=True)  # the files are out; another process may have done it


def _missing(
    file: DataFile,
    dataset: Dataset,
    folders: dict[str, Path],
    cache: Path | None,
    failures: list[str],
) -> FileNotFoundError:
    """Return the error for a file that was not found, with the remedy."""
    searched = [f"{folder} ({how})" for how, folder in folders.items()]
    searched += [f"{cache} (cache)"] if cache else []
    if file.urls:
        remedy = [
            "To download it into the cache, run with a network connection:",
            *([] if cache else [f"  {INSTALL_POOCH}"]),
            f"  {fetch_command(dataset)}",
        ]
    else:
        remedy = [
            "The web does not have it in this form; it was made from "
            f"{dataset.source}, {dataset.homepage}"
        ]
    lines = [
        f"{dataset.title}: {file.path} was not found. Folders searched:",
        *[f"  {place}" for place in searched or ["none, as none was named"]],
        *[f"Download failed from {failure}" for failure in failures],
        *remedy,
        f"If a folder of yours has it (sha256 {file.sha256}),",
        "pass data_home=FOLDER or run:",
        f"  export {ENVIRONMENT_VARIABLE}=FOLDER",
    ]
    return FileNotFoundError("\n".join(lines))
