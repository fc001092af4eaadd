"""Models in skops files."""

import contextlib
import io
import json
import os
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import sklearn

import kaucus
import kaucus.model as lasting
from kaucus._base import require
from kaucus.evaluation.displays import last_step

# ----------------------------------------------------------------------------------
# The types that a model file may hold: ours, and those of skrub's TableVectorizer.
#
# skops makes nothing of a type that is not on such a list, and it has a list of scikit-
# learn's and NumPy's own. A type gets on ours only if making one runs nothing but the
# setting of its attributes. Functions are never on it, except the few predicates by
# which a TableVectorizer chooses columns.
# ----------------------------------------------------------------------------------

# By name, since skrub may not be here. Not all of skrub: its data operations can call
# anything.
_OF_SKRUB = (
    "numpy.dtype",
    "skrub._apply_to_each_col.ApplyToEachCol",
    "skrub._check_input.CheckInputDataFrame",
    "skrub._clean_categories.CleanCategories",
    "skrub._clean_null_strings.CleanNullStrings",
    "skrub._dataframe._common.is_any_date",
    "skrub._dataframe._common.is_categorical",
    "skrub._dataframe._common.is_numeric",
    "skrub._datetime_encoder.DatetimeEncoder",
    "skrub._drop_uninformative.DropUninformative",
    "skrub._duration_to_float.DurationToFloat",
    "skrub._string_encoder.StringEncoder",
    "skrub._table_vectorizer.PassThrough",
    "skrub._table_vectorizer.ShortReprDict",
    "skrub._table_vectorizer.TableVectorizer",
    "skrub._table_vectorizer._created_by_predicate",
    "skrub._to_datetime.ToDatetime",
    "skrub._to_float.ToFloat",
    "skrub._to_str.ToStr",
    "skrub.selectors._base.All",
    "skrub.selectors._base.And",
    "skrub.selectors._base.Cols",
    "skrub.selectors._base.Filter",
    "skrub.selectors._base.Sub",
    "skrub.selectors._selectors._cardinality_below",
)


def trusted_types() -> list[str]:
    """Return the names of the types that a model file may contain.

    Enough for every estimator, transformer and kernel of this package, and for
    pipelines of them with scikit-learn's and with skrub's ``TableVectorizer``:
    ``skops.io.load(file, trusted=trusted_types())`` loads what :func:`save` has
    written. A kernel that is a function of the user's own is not among them, nor is a
    tree (``partition="tree"``), whose numbers scikit-learn does not check.

    Returns
    -------
    list of str
        Sorted.

    Examples
    --------
    >>> "kaucus.model.LSSVMClassifier" in trusted_types()
    True
    """
    ours = {f"kaucus.model.{name}" for name in lasting.__all__}
    return sorted(ours.union(_OF_SKRUB))


def _lasting_name(node: dict) -> dict:
    module, name = node.get("__module__"), node.get("__class__")
    here = vars(sys.modules.get(module, lasting)).get(name) if module else None
    if here is not None and here is getattr(lasting, name, None):
        node["__module__"] = "kaucus.model"
    return node


# ----------------------------------------------------------------------------------
# Save and load models as skops files: zip archives of arrays and type names, no code.
#
# Beside skops's own entries the archive has ``kaucus.json``: format and version, the
# estimator, its columns, and remarks of the writer. It is read, and the format
# checked, before anything else is. Types are named as in ``kaucus.model``, so that a
# module may move; a format is another where the records of a model are.
# ----------------------------------------------------------------------------------

_ENTRY = "kaucus.json"
# Of the files that are written and read here; raise it with tests/export/records.json.
FORMAT = 1
# An honest description is far smaller; a false one must not fill the memory.
_MOST_BYTES = 16 * 2**20


class ModelFileError(ValueError):
    """A file that is not a kaucus model, is of another format, or has unknown types.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kaucus.persistence import load
    >>> _ = Path("notes.skops").write_text("no model")
    >>> load("notes.skops")
    Traceback (most recent call last):
    ...
    kaucus.export.files.ModelFileError: notes.skops is not a model that ...
    """


class ModelFile(NamedTuple):
    """Metadata of a model file, read without loading the model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> save(LSSVMClassifier().fit(X, y), "iris.skops", about={"rows": 150})
    >>> found = describe("iris.skops")
    >>> found.estimator, found.about
    ('LSSVMClassifier', {'rows': 150})
    """

    estimator: str
    """Class of the estimator; of the last step, for a pipeline."""
    version: str
    """Version of kaucus that wrote the file."""
    columns: tuple[str, ...] | None
    """Names of the columns of X; None where ``fit`` saw none."""
    versions: dict[str, str]
    """Versions of the other packages."""
    about: dict[str, Any]
    """Remarks given to :func:`save`: plain numbers and texts."""
    format: int
    """Format of the file; a release reads those of its own."""


def save(model, path, *, about: Mapping | None = None, trusted: Iterable[str] = ()):
    """Save a fitted model without pickle.

    Parameters
    ----------
    model : estimator or pipeline
    path : str or path
        Name of the file, ``model.skops`` for instance. An old file stays whole until
        the new one is written, which gets its permissions.
    about : mapping, default=None
        Remarks about the model: numbers, texts, lists and dicts, returned by
        :func:`describe`.
    trusted : iterable of str, default=()
        Types and functions of your own that the model holds.
        For instance ``"mine.my_kernel"``; pass them to :func:`load` too.

    Raises
    ------
    ModelFileError
        If the model holds a type or a function that is neither in
        :func:`trusted_types` nor in ``trusted``: such a file could not be loaded.
    OSError
        If ``path`` is a folder, a device, a FIFO or a read-only file.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> save(LSSVMClassifier().fit(X, y), "iris.skops")
    """
    skops = require("skops.io", "tables")
    try:
        data = skops.dumps(model, compression=zipfile.ZIP_DEFLATED)
    except Exception as error:  # whatever a stranger's object answers
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved: {error} Save a fitted estimator "
            "of numbers, texts and arrays."
        ) from error
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":  # our types get their names in kaucus.model
                content = json.dumps(json.loads(content, object_hook=_lasting_name))
            new.writestr(name, content)
    names = skops.get_untrusted_types(data=buffer.getvalue())
    _check_names(names, trusted, what=f"{type(model).__name__} holds", at="save")
    columns = getattr(model, "feature_names_in_", None)
    description = {
        "format": FORMAT,
        "kaucus": kaucus.__version__,
        "estimator": type(last_step(model)).__name__,
        "columns": None if columns is None else [str(name) for name in columns],
        "versions": {"numpy": np.__version__, "scikit-learn": sklearn.__version__},
        "about": dict(about or {}),
    }
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_ENTRY, json.dumps(description, indent=2))
    write_whole(path, buffer.getbuffer())


def load(path, *, trusted: Iterable[str] = ()):
    """Load a model that :func:`save` has written; nothing in the file is run.

    Parameters
    ----------
    path : str or path
    trusted : iterable of str, default=()
        Types and functions of the user's own, by name, beside :func:`trusted_types`.

    Returns
    -------
    model : estimator or pipeline

    Raises
    ------
    ModelFileError
        If the file is no model, is of another format, or holds other types.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> save(LSSVMClassifier().fit(X, y), "iris.skops")
    >>> load("iris.skops").predict(X[:2])
    array([0, 0])
    """
    skops = require("skops.io", "tables")
    path, file = Path(path), describe(path)
    if file.format != FORMAT:  # its models have other records
        raise ModelFileError(
            f"{path} has format {file.format}, of kaucus {file.version}, and kaucus "
            f"{kaucus.__version__} reads format {FORMAT}; fit the model again, or load "
            f"it with pip install kaucus=={file.version}."
        )
    try:
        names = skops.get_untrusted_types(file=path)
        _check_names(names, trusted, what=f"{path} holds", at="load")
        return skops.load(path, trusted=[*trusted_types(), *trusted])
    except ModelFileError:
        raise
    except Exception as error:  # a damaged archive has many ways to fail
        raise ModelFileError(f"{path} cannot be read: {error}") from error


def describe(path) -> ModelFile:
    """Return the metadata of a model file, without loading the model.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    ModelFile

    Raises
    ------
    ModelFileError
        If the file is not one that :func:`save` has written.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> save(LSSVMClassifier().fit(X, y), "iris.skops")
    >>> describe("iris.skops").columns[0]
    'sepal length (cm)'
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(_ENTRY).file_size > _MOST_BYTES:
                raise ValueError(f"{_ENTRY} is too long")
            stored = json.loads(archive.read(_ENTRY))
        columns = stored["columns"]
        return ModelFile(
            str(stored["estimator"]),
            str(stored["kaucus"]),
            None if columns is None else tuple(map(str, columns)),
            dict(stored["versions"]),
            dict(stored["about"]),
            int(stored["format"]),
        )
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} is not a model that kaucus has saved; expected a file of "
            "kaucus.persistence.save or `kaucus fit`."
        ) from error


# ---- parts ---------------------------------------------------------------------------


def _check_names(names: Iterable[str], trusted, *, what: str, at: str) -> None:
    """Refuse types that are neither ours nor named by the user."""
    if isinstance(trusted, str):
        trusted = (trusted,)
    unknown = sorted(set(names) - set(trusted_types()) - set(trusted))
    if not unknown:
        return
    lambdas = [name for name in unknown if "<" in name]
    remedy = (
        "a function without a name cannot be found again; define it in a module."
        if lambdas
        else f"if you know and trust them, pass trusted={unknown} to {at}."
    )
    raise ModelFileError(
        f"{what} {', '.join(unknown)}, which kaucus does not know: {remedy}"
    )


# ---- writing -------------------------------------------------------------------------


def check_output(path) -> Path:
    """Return the file that a write to the path creates or replaces, links resolved.

    Raises
    ------
    OSError
        If the folder is not there, the path is a folder, a device or a FIFO, or the
        file is read-only.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent}; make it first.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(
            f"{path} cannot be written: its folder {target.parent} is read-only; "
            "choose another one."
        )
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the name of a file.")
    if not target.exists():
        return target
    mode = target.stat().st_mode
    if not stat.S_ISREG(mode):
        raise FileExistsError(
            f"{path} is a device, a FIFO or a socket; expected the name of a file."
        )
    if not (mode & 0o222 and os.access(target, os.W_OK)):  # root may write any
        raise PermissionError(
            f"{path} is read-only; choose another name, or make it writable."
        )
    return target


@contextlib.contextmanager
def replace_file(path) -> Iterator[BinaryIO]:
    """Context manager: a new binary file that takes the path's place at the end.

    The file is there as a whole or, after an exception, not at all. Until then it has a
    random name in the same folder, and nobody else can read it.
    """
    handle, part = tempfile.mkstemp(".part", ".", check_output(path).parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        target = check_output(path)  # again: the work may have taken hours
        _set_rights(part, target)
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def write_whole(path, data: Any) -> None:
    """Write bytes so that the file is there as a whole or not at all."""
    with replace_file(path) as file:
        file.write(data)


def _set_rights(part: str, target: Path) -> None:
    """Set a file's owner and permissions to those of another or of new files."""
    if target.exists():
        old = target.stat()
        with contextlib.suppress(OSError, AttributeError):  # not ours to give; Windows
            os.chown(part, old.st_uid, old.st_gid)
        os.chmod(part, stat.S_IMODE(old.st_mode))
        return
    mask = os.umask(0o077)  # the mask can only be read by setting it
    os.umask(mask)
    os.chmod(part, 0o666 & ~mask)
