"""Table files: read, held to the columns of a model, judged and written."""

import bz2
import contextlib
import csv
import gzip
import io
import itertools
import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus._array.blocks import parse_bytes
from kaucus._array.namespace import to_device, warn_user
from kaucus._base import require
from kaucus.estimators.tables import TableClassifier, TableRegressor
from kaucus.export.files import check_output, describe, last_step, replace_file

# ----------------------------------------------------------------------------------
# Read table files, whole or in chunks, and convert their columns.
#
# CSV and TSV, plain or compressed, Parquet and Feather. Text files are read as text, so
# that labels and copied columns stay as they are in the file. A column of the model is
# ``"number"``, ``"text"`` or a date; fit finds out which, and later tables are held to
# it, so that a chunk without a letter in it does not turn a column of texts into
# numbers.
# ----------------------------------------------------------------------------------

CHUNK_ROWS = 20_000
PACKERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_PACKED = (*PACKERS, ".zst", ".zip")
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": None}
_ARROW = (".feather", ".arrow")
_KINDS = (*_SEPARATORS, ".parquet", *_ARROW)
_TRUE_FALSE = {"true": 1.0, "false": 0.0}
# The words of gaps, as in pandas; in a column of labels only an empty field is one.
_GAPS = (
    "", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL",
    "null", "None", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
)  # fmt: skip
_BLOCK_BYTES = 2**22  # a longer row is an error; Arrow keeps several blocks
_HINTS = {
    "utf": " Save the file in UTF-8.",
    "straddling": " A row is longer than 4 MiB; close a quote that is open.",
}
# Squares of larger numbers overflow when they are summed.
_LARGEST = 1e100
# Share of readable dates from which a column is one of dates, with gaps for the others;
# it is looked for in the first values. From this share of numbers on, words are told.
_MOST = 0.9
_SAMPLE = 200

# What is noticed in columns. The first two are errors where all values are so.
NO_DATES = "read as missing: no date, or one of which day or month may come first"
UNKNOWN_LABELS = "counted as wrong: a label that the model does not know"
UNKNOWN_CATEGORIES = "read as no category: a text that fit has not seen"
_SPACED = "another category than without the spaces around the text"
_NO_NUMBERS = "not a number, so that the whole column is read as texts"
_EITHER_ORDER = "read month first: a date of which day or month may come first"
_EXPECTED = {NO_DATES: "dates such as 2024-01-31", UNKNOWN_LABELS: "labels of fit"}


class TableError(ValueError):
    """A table that cannot be read or used: which file, which column, which row."""


@dataclass
class _Noticed:
    count: int = 0
    total: int = 0
    row: int = 0
    value: Any = None


class Remarks:
    """Counts of gaps and odd values in columns, over all chunks.

    Parameters
    ----------
    path : path
        The table.
    """

    def __init__(self, path):
        self.path = path
        self._noticed: dict[tuple[str, str], _Noticed] = {}

    def add(self, column, which, problem: str) -> None:
        """Count the rows of a column where ``which`` is true."""
        rows = np.flatnonzero(which)
        found = self._noticed.setdefault((str(column.name), problem), _Noticed())
        if len(rows) and not found.count:
            found.row, found.value = column.index[rows[0]], shown(column, rows[0])
        found.count += len(rows)
        found.total += len(column)

    def check(self) -> None:
        """Raise if dates or labels of a whole column cannot be used."""
        for (name, problem), found in self._noticed.items():
            if problem in _EXPECTED and 0 < found.count == found.total:
                raise TableError(
                    f"{self._text(name, problem)} So is every value of the column; "
                    f"expected {_EXPECTED[problem]}."
                )

    def warn(self) -> None:
        """Issue one warning for each column and problem."""
        for (name, problem), found in self._noticed.items():
            if found.count:
                warn_user(self._text(name, problem), UserWarning)

    def _text(self, name: str, problem: str) -> str:
        found = self._noticed[name, problem]
        values = (
            "1 value is" if found.count == 1 else f"{found.count:,} values are each"
        )
        return (
            f"{self.path}, column {name!r}: {values} {problem} "
            f"(first {found.value!r} in row {found.row})."
        )


def read_table(path) -> Any:
    """Return a table as a pandas frame, with texts as they are in the file."""
    pandas = require("pandas", "tables")
    parts = list(read_chunks(path, n_rows=None))
    return parts[0] if len(parts) == 1 else pandas.concat(parts)


def read_chunks(path, *, n_rows: int | None = CHUNK_ROWS) -> Iterator[Any]:
    """Yield a table as frames of at most ``n_rows`` rows; None: as it comes.

    Columns are as they are in the file, those of text files as texts. The index of the
    frames is the number of the row, from 1 on.
    """
    pandas = require("pandas", "tables")
    path, first = Path(path), 1
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    kind = table_kind(path)
    if kind in _SEPARATORS:
        frames = _text_chunks(path, _SEPARATORS[kind], n_rows)
    else:
        frames = _arrow_chunks(path, kind, n_rows)
    try:
        for frame in frames:
            frame.columns = [str(name) for name in frame.columns]
            frame.index = pandas.RangeIndex(first, first + len(frame))
            yield frame
            first += len(frame)
    except TableError:
        raise
    except _UNREADABLE as error:
        problem = (str(error).strip().splitlines() or [repr(error)])[0].rstrip(".")
        hint = next((_HINTS[h] for h in _HINTS if h in problem.lower()), "")
        raise TableError(f"{path} cannot be read: {problem}.{hint}") from error


def column_of(frame, name: str, path) -> Any:
    """Return the one column of a name, or an error that lists the columns."""
    names = list(frame.columns)
    if names.count(name) == 1:
        return frame[name]
    if name in names:
        raise TableError(
            f"{path} has {names.count(name)} columns of the name {name!r}; expected "
            "one, rename the others."
        )
    near: Sequence[str] = [
        c for c in names if c.strip().lower() == name.strip().lower()
    ]
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise TableError(f"{path} has no column {name!r}; it has {', '.join(names)}.{hint}")


def target_of(frame, name: str, path) -> Any:
    """Return a column without gaps, as text of the file."""
    column = column_of(frame, name, path)
    empty = column.isna() | (column.astype(str).str.strip() == "")
    _check_no_gaps(column, empty, path)
    return column


def numbers_of(column, path) -> np.ndarray:
    """Return a column without gaps as numbers."""
    numbers = _as_numbers(column, Remarks(path))
    _check_no_gaps(column, numbers.isna(), path)
    return numbers.to_numpy()


def _check_no_gaps(column, empty, path) -> None:
    gaps = np.flatnonzero(empty.to_numpy())
    if len(gaps):
        more = f", here and in {len(gaps) - 1:,} more rows" if len(gaps) > 1 else ""
        raise TableError(
            f"{path}, row {column.index[gaps[0]]}, column {column.name!r}: the value "
            f"is missing{more}; take such rows out."
        )


# ---- columns -------------------------------------------------------------------------


def kind_of(column, remarks: Remarks | None = None) -> str:
    """Return whether a column is of numbers, dates or texts.

    Dates that begin with day or month are ``"date, day first"`` or ``"date, month
    first"``, as their values tell.
    """
    if column.dtype.kind in "iufb":
        return "number"
    if column.dtype.kind == "M":
        return "date"
    remarks = Remarks("") if remarks is None else remarks
    values = column[~_gaps(column)]
    is_number = parse_numbers(values).notna()
    if len(values) and is_number.all():
        return "number"
    if is_number.sum() >= _MOST * len(values):
        remarks.add(values, ~is_number, _NO_NUMBERS)
        return "text"
    some = values.iloc[:_SAMPLE]
    if _read_dates(some).readable.sum() < _MOST * len(some):
        return "text"
    found = _read_dates(values)
    day_first, month_first = found.only_day_first.any(), found.only_month_first.any()
    if day_first != month_first:
        return "date, day first" if day_first else "date, month first"
    if not found.either.any() or day_first:
        return "date"
    remarks.add(values, found.either, _EITHER_ORDER)
    return "date, month first"


def as_kinds(frame, kinds: Mapping[str, str], remarks: Remarks):
    """Return the columns that are asked for, each of its kind.

    Parameters
    ----------
    frame : DataFrame
        Its index is the number of each row, for errors.
    kinds : mapping
        Of each column, what :func:`kind_of` returned in fit.
    remarks : Remarks
        Of this table; takes what is noticed in the columns.
    """
    pandas = require("pandas", "tables")
    convert = {"number": _as_numbers, "text": _as_texts}
    columns = {}
    for name, kind in kinds.items():
        column = column_of(frame, name, remarks.path)
        if kind in convert:
            columns[name] = convert[kind](column, remarks)
        else:
            columns[name] = _as_dates(column, kind, remarks)
    return pandas.DataFrame(columns, index=frame.index)


def _as_numbers(column, remarks: Remarks):
    if column.dtype.kind in "iufb":
        gaps, values = column.isna(), column
    else:
        gaps, values = _gaps(column), parse_numbers(column)
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.flatnonzero(~gaps.to_numpy() & ~(np.abs(numbers) <= _LARGEST))
    if len(wrong):
        place = wrong[0]
        is_word = np.isnan(numbers[place])
        what = "a number" if is_word else f"at most {_LARGEST:g} in size"
        raise TableError(
            f"{remarks.path}, row {column.index[place]}, column {column.name!r}: "
            f"{shown(column, place)!r} is not {what}; mend it, or leave it empty."
        )
    return require("pandas", "tables").Series(numbers, index=column.index)


def parse_numbers(column):
    """Convert texts to numbers; NaN if not numeric, 1 and 0 for true and false."""
    pandas = require("pandas", "tables")
    texts = column.astype(str).str.strip()
    numbers = pandas.to_numeric(texts, errors="coerce").astype(np.float64)
    if numbers.isna().any():
        numbers = numbers.fillna(texts.str.lower().map(_TRUE_FALSE).astype(np.float64))
    return numbers.where(column.notna())


def _as_texts(column, remarks: Remarks):
    gaps, texts = _gaps(column), column.astype(str).astype(object)
    remarks.add(column, ~gaps & (texts != texts.str.strip()), _SPACED)
    return texts.where(~gaps, None)


def _as_dates(column, kind: str, remarks: Remarks):
    if column.dtype.kind == "M":
        return column if column.dt.tz is None else column.dt.tz_convert(None)
    values = column[~_gaps(column)]
    found = _read_dates(values)
    if kind != "date":
        other = found.only_month_first if "day" in kind else found.only_day_first
        if other.any():
            place = int(np.argmax(other))
            raise TableError(
                f"{remarks.path}, row {values.index[place]}, column {column.name!r}: "
                f"{shown(values, place)!r} is not a {kind}, as in fit; write dates as "
                "2024-01-31."
            )
    dates = found.dates(kind)
    remarks.add(values, dates.isna(), NO_DATES)
    return dates.reindex(column.index)


@dataclass(frozen=True, eq=False)
class _Dates:
    """Texts read as dates, day first and month first; in UTC, if they have a zone."""

    day_first: Any
    month_first: Any

    @property
    def only_day_first(self):
        return self.day_first.notna() & self.month_first.isna()

    @property
    def only_month_first(self):
        return self.month_first.notna() & self.day_first.isna()

    @property
    def either(self):
        """Whether the order of day and month changes the date."""
        both = self.day_first.notna() & self.month_first.notna()
        return both & (self.day_first != self.month_first)

    @property
    def readable(self):
        return self.day_first.notna() | self.month_first.notna()

    def dates(self, kind: str):
        """Return the dates; NaT where the order matters and kind does not tell it."""
        first = self.month_first if "month" in kind else self.day_first
        dates = first.fillna(self.day_first).fillna(self.month_first)
        return dates.mask(self.either) if kind == "date" else dates


def _read_dates(column) -> _Dates:
    """Parse each value independently of other rows."""
    texts = column.dropna().astype(str).str.strip()
    orders = (_dates_in_order(texts, order) for order in (("%d", "%m"), ("%m", "%d")))
    return _Dates(*(dates.reindex(column.index) for dates in orders))


def _dates_in_order(texts, order: tuple[str, str]):
    """Return texts as dates; in the order of day and month where these come first."""
    pandas = require("pandas", "tables")
    options: dict[str, Any] = {"errors": "coerce", "utc": True}
    dates = pandas.to_datetime(texts, format="ISO8601", **options)
    left = texts[dates.isna()]
    while len(left):
        value = left.iloc[0]
        left, same = left[left != value], left[left == value]
        with warnings.catch_warnings():  # of an order that we choose ourselves
            warnings.simplefilter("ignore")
            form = pandas.tseries.api.guess_datetime_format(value)
        if form is None:
            continue
        form = re.sub(r"^%[dm]([^%]+)%[dm]", r"{}\1{}".format(*order), form)
        found = pandas.to_datetime(pandas.concat([same, left]), format=form, **options)
        dates = dates.fillna(found)
        left = left[found[left.index].isna()]
    return dates.dt.tz_localize(None)


def _gaps(column):
    """Return where a column has no value, or a word for none."""
    if column.dtype.kind in "iufbM":
        return column.isna()
    return column.isna() | column.astype(str).str.strip().isin(_GAPS)


def shown(column, place: int) -> Any:
    """Return a value of a column as Python's own, for messages."""
    value = column.iloc[place]
    return value.item() if hasattr(value, "item") else value


# ---- files ---------------------------------------------------------------------------


def table_kind(path: Path) -> str:
    """Return the suffix of a table's format, without that of a compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind not in _KINDS:
        raise TableError(
            f"{path} is of no known kind; expected a name that ends in "
            f"{', '.join(_KINDS)}, of texts also with {', '.join(_PACKED)} after it."
        )
    return kind


_UNREADABLE = (
    ValueError, OSError, EOFError, csv.Error, zlib.error, lzma.LZMAError,
    zipfile.BadZipFile,
)  # fmt: skip


def _text_chunks(path: Path, separator: str | None, n_rows: int | None):
    """Yield frames of texts; a row of more or fewer fields than names is an error."""
    pandas = require("pandas", "tables")
    arrow = require("pyarrow.csv", "tables")
    names, separator = _header(path, separator)
    wrong: list[Any] = []

    def refuse(row) -> str:
        wrong.append(row)
        return "error"

    options = (
        arrow.ReadOptions(
            column_names=names, block_size=_BLOCK_BYTES, use_threads=False
        ),
        arrow.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=refuse
        ),
        arrow.ConvertOptions(
            column_types=dict.fromkeys(names, require("pyarrow", "tables").string()),
            strings_can_be_null=False,
        ),
    )
    skipped, last = 1, ""  # the names come first
    with _opened(path) as stream:
        try:
            for batch in arrow.open_csv(stream, *options):
                for part in _slices(batch.slice(skipped), n_rows):
                    yield part.to_pandas(types_mapper=pandas.ArrowDtype)
                if len(batch):
                    skipped, last = 0, str(batch.column(-1)[-1])
        except ValueError as error:
            if not wrong:
                raise
            [row] = wrong
            raise TableError(
                f"{path} cannot be read: row {row.number - 1} has "
                f"{row.actual_columns} fields, expected {len(names)} as there are "
                "names in the first line; mend its separators or quotes."
            ) from error
    if "\n" in last or "\r" in last:
        _check_last_quote(path)


def _check_last_quote(path: Path) -> None:
    """Raise if a quote is open at the end: Arrow reads all after it as one value."""
    end = b""
    with _opened(path) as stream:
        while block := stream.read(2**20):
            end = (end + block)[-64:]
    if not end.rstrip().endswith(b'"'):
        raise TableError(
            f"{path} cannot be read: a quote is open at the end of the file; close it, "
            "or take it out."
        )


def _header(path: Path, separator: str | None) -> tuple[list[str], str]:
    """Return the column names of the first non-empty line, and the separator."""
    with _opened(path) as stream:
        lines = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        line = next(filter(str.strip, lines), "")
        if separator is None:
            separator = next((c for c in "\t;,| " if c in line), ",")
        names = next(csv.reader(itertools.chain([line], lines), delimiter=separator))
    if not line:
        raise TableError(
            f"{path} cannot be read: it is empty; expected a line of names, and rows."
        )
    return [name or f"Unnamed: {i}" for i, name in enumerate(names)], separator


def _opened(path: Path) -> contextlib.AbstractContextManager:
    """Open a file as bytes, unpacked."""
    packer = path.suffix.lower()
    if packer == ".zst":
        stream = require("pyarrow", "tables").input_stream(path, compression="zstd")
        return contextlib.closing(stream)
    if packer != ".zip":
        return PACKERS.get(packer, open)(path, "rb")
    archive = zipfile.ZipFile(path)
    if len(archive.namelist()) != 1:
        raise TableError(
            f"{path} cannot be read: it has {len(archive.namelist())} files, expected "
            "one table."
        )
    return archive.open(archive.namelist()[0])


def _slices(batch, n_rows: int | None) -> Iterator[Any]:
    """Yield parts of at most n_rows rows, at least one."""
    step = n_rows or max(len(batch), 1)
    for start in range(0, max(len(batch), 1), step):
        yield batch.slice(start, step)


def _arrow_chunks(path: Path, kind: str, n_rows: int | None) -> Iterator[Any]:
    dataset = require("pyarrow.dataset", "tables")
    form = "feather" if kind in _ARROW else "parquet"
    options = {} if n_rows is None else {"batch_size": n_rows}
    for batch in dataset.dataset(path, format=form).to_batches(**options):
        yield batch.to_pandas()


# ----------------------------------------------------------------------------------
# What is predicted, by which model, and how well; tables of predictions.
# ----------------------------------------------------------------------------------

MODELS = {"classification": TableClassifier, "regression": TableRegressor}
# Whole numbers of more different values are amounts, not classes.
_MOST_CLASSES = 20
_WRITTEN = (".csv", ".tsv", ".parquet")


class Score(NamedTuple):
    """An error on rows that the model has not seen."""

    name: str
    """``"error"``, the share of wrong rows in per cent, or ``"RMSE"``."""
    value: float
    low: float
    """Of the 95 % interval."""
    high: float
    n_rows: int

    def __str__(self) -> str:
        unit = " %" if self.name == "error" else ""
        value, low, high = (f"{v:.4g}" for v in self[1:4])
        return f"{value}{unit} (95 % interval {low} to {high})"


def task_of(target, path="the table") -> str:
    """Return "classification" for texts and few whole numbers, else "regression".

    A column of amounts with a word in it is an error.
    """
    numbers = parse_numbers(target)
    is_word = numbers.isna()
    values = np.unique(numbers[~is_word])
    whole = bool(np.all(values == np.round(values)))
    if whole and len(values) <= _MOST_CLASSES:
        return "classification"
    if not is_word.any():
        return "regression"
    if is_word.mean() > 0.5:
        return "classification"
    place = int(np.argmax(is_word))
    raise TableError(
        f"{path}, row {target.index[place]}, column {target.name!r}: "
        f"{shown(target, place)!r} is not a number, and {int((~is_word).sum()):,} of "
        f"{len(target):,} values are; mend it, or pass --task classification."
    )


def labels_of(target) -> np.ndarray:
    """Return a target as classes: the texts of the file."""
    return target.astype(str).to_numpy(dtype=object).astype(str)


def score_predictions(model, y, predicted, weight=None) -> Score:
    """Return the error of predictions, with its 95 % interval.

    Wilson's of a share, which is never empty; of a root mean square, that of the mean
    of the squares.
    """
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    w = w / w.sum()
    n = 1 / np.sum(w**2)  # as many rows of equal weight tell as much
    if hasattr(model, "classes_"):
        wrong = np.asarray(predicted) != np.asarray(y)
        p = float(np.sum(w * wrong))
        z = 1.96**2 / n
        middle, half = p + z / 2, np.sqrt(z * p * (1 - p) + z * z / 4)
        bounds = (100 * float((middle + s * half) / (1 + z)) for s in (-1, 1))
        return Score("error", 100 * p, *bounds, len(w))
    squares = (np.asarray(predicted) - np.asarray(y)) ** 2
    squares = squares.reshape(len(w), -1).mean(axis=1)  # of several outputs
    mean = float(np.sum(w * squares))
    half = 1.96 * float(np.sqrt(np.sum(w * (squares - mean) ** 2) / n))
    low, high = np.sqrt(max(mean - half, 0.0)), np.sqrt(mean + half)
    return Score("RMSE", float(np.sqrt(mean)), float(low), float(high), len(w))


def class_rows(classes, y, predicted) -> list[list]:
    """Return for each class its rows, the share found, and the share of hits.

    A row is ``[name, number of rows, recall, precision]``, the last two as texts.
    """
    rows = []
    for label in classes:
        truly, said = y == label, predicted == label
        right = int(np.sum(truly & said))
        shares = (f"{100 * right / max(n.sum(), 1):.1f} %" for n in (truly, said))
        rows.append([str(label), int(truly.sum()), *shares])
    return rows


def prediction_frame(
    model,
    X,
    *,
    name: str = "prediction",
    proba: bool = False,
    interval: float | None = None,
    label_type: str | None = None,
):
    """Return the predictions of a frame as columns.

    Parameters
    ----------
    model : pipeline or estimator
    X : DataFrame
    name : str, default="prediction"
        Of the column of predictions.
    proba : bool, default=False
        Whether to add the probability of each class, ``p_LABEL``.
    interval : float, default=None
        Confidence level of an interval to add, ``lower`` and ``upper``.
    label_type : str, default=None
        Type of the labels: whole numbers or ``"bool"``; None: texts.
    """
    pandas = require("pandas", "tables")
    found = model.predict(X)
    if label_type is not None:
        found = found == "True" if label_type == "bool" else found.astype(label_type)
    columns = {name: found}
    if proba:
        probabilities = model.predict_proba(X)
        columns |= {
            f"p_{label}": probabilities[:, k] for k, label in enumerate(model.classes_)
        }
    if interval is not None:
        bounds = model.predict_interval(X, interval)
        columns |= {"lower": bounds[:, 0], "upper": bounds[:, 1]}
    return pandas.DataFrame(columns)


def check_outputs(model, *, proba: bool, interval: float | None) -> None:
    """Raise if the model has no probabilities or intervals that were asked for."""
    if proba and not hasattr(model, "predict_proba"):
        raise TableError(
            f"--proba needs a classifier with probabilities; this is a {_last(model)}."
        )
    if interval is None:
        return
    if not 0 < interval < 1:
        raise TableError(f"--interval={interval} must be between 0 and 1, such as 0.9.")
    if not hasattr(last_step(model), "predict_interval"):
        raise TableError(
            f"--interval needs a regressor with predict_interval; {_last(model)} has "
            "none."
        )


def _last(model) -> str:
    return type(last_step(model)).__name__


def write_frames(path, frames: Iterable[Any]) -> int:
    """Write frames to a CSV, TSV or Parquet file; return the number of rows.

    The file is there when all is written, and not before.

    Parameters
    ----------
    path : path or text stream
        ``.gz``, ``.bz2`` and ``.xz`` are packed; a stream gets CSV.
    frames : iterable of DataFrames
    """
    is_stream, kind, packer = hasattr(path, "write"), ".csv", ".csv"
    if not is_stream:
        kind, packer = table_kind(path), path.suffix.lower()
    if kind not in _WRITTEN or packer not in (kind, *PACKERS):
        raise TableError(
            f"{path} cannot be written; expected a name that ends in "
            f"{', '.join(_WRITTEN)}, of texts also with {', '.join(PACKERS)} "
            "after it."
        )
    options = {"mode": "w" if is_stream else "wb", "index": False}
    options["sep"] = "\t" if kind == ".tsv" else ","
    n_rows, writer = 0, None
    with contextlib.ExitStack() as opened:
        file: Any = path if is_stream else opened.enter_context(replace_file(path))
        if packer in PACKERS:
            file = opened.enter_context(PACKERS[packer](file, "wb"))
        for frame in frames:
            if kind != ".parquet":
                frame.to_csv(file, header=n_rows == 0, **options)
            else:
                arrow = require("pyarrow", "tables")
                table = arrow.Table.from_pandas(frame, preserve_index=False)
                if writer is None:
                    parquet = require("pyarrow.parquet", "tables")
                    writer = parquet.ParquetWriter(file, table.schema)
                    opened.enter_context(writer)
                writer.write_table(table)
            n_rows += len(frame)
    return n_rows


# ----------------------------------------------------------------------------------
# Options and files of a command, checked before any work.
# ----------------------------------------------------------------------------------


def check_word(option: str, word: str | None, known: tuple) -> None:
    """Refuse a word that an option does not know."""
    if word not in known:
        words = ", ".join(str(w) for w in known if w is not None)
        raise TableError(f"{option}={word!r} must be one of {words}.")


def check_machine(device: str | None, memory_budget: str | None) -> None:
    """Check device and memory budget before the data is read."""
    try:
        if memory_budget is not None:
            parse_bytes(memory_budget)
        to_device(np.empty(0), device)
    except (ValueError, ModuleNotFoundError) as error:
        raise TableError(str(error)) from error


def check_files(outputs: list[Path | None], inputs: list[Path | None]) -> None:
    """Refuse outputs that cannot be written, or that the same command reads."""
    taken = {path.resolve(): path for path in inputs if path is not None}
    for output in filter(None, outputs):
        if not output.parent.is_dir():
            raise TableError(f"There is no folder {output.parent}; make it first.")
        target = check_output(output)
        for other, path in taken.items():
            both = target.exists() and other.exists()  # hard links are one file, too
            if target == other or (both and target.samefile(other)):
                raise TableError(
                    f"{output} would replace {path}, which this command needs; choose "
                    "another name for the output."
                )
        taken[target] = output


def check_kept(kept: list[str], others) -> None:
    """Refuse a column that is copied twice, or has the name of another result."""
    for place, name in enumerate(kept):
        if name in kept[:place] or name in others:
            raise TableError(
                f"--keep={name!r} would be the second column of this name; the result "
                f"has {', '.join([*kept[:place], *others])}. Rename it in the table."
            )


# ----------------------------------------------------------------------------------
# Training tables: columns, target and weights; held-out error; labelled test rows.
# ----------------------------------------------------------------------------------

# Of the rows, to measure the error where no test table is given, and at most so many.
_HELD_OUT, _MOST_HELD_OUT = 0.2, 20_000


class TrainingTable:
    """A training table: columns and their types, target, weights and task.

    Parameters
    ----------
    path : path
    target : str
        The column to predict.
    weights : str or None
        The column of the weights.
    task : {"classification", "regression"} or None
        None: as the target looks.
    """

    def __init__(self, path: Path, target: str, weights: str | None, task: str | None):
        self.target, self.weights = target, weights
        if target == weights:
            raise TableError(
                f"--weights={weights!r} is the target; expected another column."
            )
        frame, remarks = read_table(path), Remarks(path)
        y = target_of(frame, target, path)
        self.weight = _weight(frame, weights, path)
        X = frame.drop(columns=[target] if weights is None else [target, weights])
        if not X.shape[1] or len(frame) < 2:
            raise TableError(
                f"{path} has {len(frame)} rows and {X.shape[1]} columns beside "
                f"{target!r}; a model needs two rows and a column."
            )
        self.task = task or task_of(y, path)
        is_classes = self.task == "classification"
        self.y = labels_of(y) if is_classes else numbers_of(y, path)
        if is_classes and len(np.unique(self.y)) < 2:
            raise TableError(
                f"{path}, column {target!r}: every row is {str(self.y[0])!r}; there "
                "is nothing to learn."
            )
        # Whole numbers and truth values of a typed file are predicted as such.
        is_typed = is_classes and y.dtype.kind in "iub"
        self.label_type = str(y.dtype) if is_typed else None
        self.kinds = {c: kind_of(column_of(X, c, path), remarks) for c in X.columns}
        self.X = as_kinds(X, self.kinds, remarks)
        remarks.warn()

    def others(self, path: Path):
        """Return rows, targets and weights of another table."""
        frame, remarks = read_table(path), Remarks(path)
        classes = np.unique(self.y) if self.task == "classification" else None
        y, weight = _labelled(frame, self.target, self.weights, classes, remarks)
        X = as_kinds(frame, self.kinds, remarks)
        remarks.check()
        remarks.warn()
        return X, y, weight

    def about(self) -> dict:
        """Return the metadata to write into the model's file."""
        return {
            "task": self.task,
            "target": self.target,
            "weights": self.weights,
            "kinds": self.kinds,
            "rows": len(self.y),
            "label_type": self.label_type,
        }


def judge_held_out(data: TrainingTable, options: dict[str, Any], seed: int) -> Score:
    """Return the error of a model of four fifths of the rows on the others."""
    from sklearn.model_selection import train_test_split

    n = len(data.y)
    size = min(int(np.ceil(_HELD_OUT * n)), _MOST_HELD_OUT)
    classes = data.y if data.task == "classification" else None
    try:
        rest, some = train_test_split(
            np.arange(n), test_size=size, random_state=seed, stratify=classes
        )
    except ValueError:  # a class of one row
        rest, some = train_test_split(np.arange(n), test_size=size, random_state=seed)
    model = MODELS[data.task](**options)
    X, y, weight = data.X, data.y, data.weight
    model.fit(X.iloc[rest], y[rest], None if weight is None else weight[rest])
    weight = None if weight is None else weight[some]
    predicted = model.predict(X.iloc[some])
    return score_predictions(model, y[some], predicted, weight)


def model_chunks(
    model: Path, loaded, remarks: Remarks, n_rows: int = CHUNK_ROWS
) -> Iterator[tuple[Any, Any]]:
    """Yield chunks: the model's columns, and all columns as text of the file.

    At the end it warns of what the columns have shown. A chunk is read before the one
    before it is used, so that an error of all rows comes first where they are few.
    """
    kinds, held = describe(model).about.get("kinds"), None
    if kinds is None:
        raise TableError(
            f"{model} was not written by `kaucus fit`, and does not tell what its "
            "columns are; load it with kaucus.persistence.load."
        )
    for frame in filter(len, read_chunks(remarks.path, n_rows=n_rows)):
        if held is not None:
            yield held
        X = as_kinds(frame, kinds, remarks)
        for name, levels in loaded.categories_.items():
            known = X[name].isin(levels) | X[name].isna()
            remarks.add(X[name], ~known, UNKNOWN_CATEGORIES)
        held = X, frame
    if held is None:
        raise TableError(f"{remarks.path} has no rows.")
    remarks.check()
    yield held
    remarks.check()
    remarks.warn()


def labelled_chunks(
    model: Path, loaded, rows: Path, target: str | None, weights: str | None
) -> Iterator[tuple[Any, np.ndarray, np.ndarray | None]]:
    """Yield rows, targets and weights of a table, a chunk at a time."""
    target, remarks = target or describe(model).about.get("target", ""), Remarks(rows)
    classes = getattr(loaded, "classes_", None)
    for X, frame in model_chunks(model, loaded, remarks):
        yield X, *_labelled(frame, target, weights, classes, remarks)


def _labelled(frame, target: str, weights: str | None, classes, remarks: Remarks):
    """Return targets and weights; labels that are none of the classes are counted."""
    column = target_of(frame, target, remarks.path)
    weight = _weight(frame, weights, remarks.path)
    if classes is None:
        return numbers_of(column, remarks.path), weight
    y = labels_of(column)
    remarks.add(column, ~np.isin(y, classes), UNKNOWN_LABELS)
    return y, weight


def labelled_predictions(model: Path, loaded, rows: Path, target, weights):
    """Return targets, predictions and weights of a table, read in chunks."""
    chunks = labelled_chunks(model, loaded, rows, target, weights)
    parts = [(y, loaded.predict(X), weight) for X, y, weight in chunks]
    return tuple(map(_joined, zip(*parts, strict=True)))


def labelled_rows(model: Path, loaded, rows: Path, target, weights):
    """Return rows, targets and weights of a whole table."""
    pandas = require("pandas", "tables")
    parts = list(labelled_chunks(model, loaded, rows, target, weights))
    X, y, weight = zip(*parts, strict=True)
    return pandas.concat(X), _joined(y), _joined(weight)


def _joined(parts) -> np.ndarray | None:
    return None if parts[0] is None else np.concatenate(parts)


def _weight(frame, name: str | None, path: Path) -> np.ndarray | None:
    if name is None:
        return None
    values = numbers_of(column_of(frame, name, path), path)
    bad = np.flatnonzero(values < 0)
    if len(bad):
        raise TableError(
            f"{path}, row {frame.index[bad[0]]}, column {name!r}: "
            f"{values[bad[0]]:g} is not a weight; expected zero or more."
        )
    return values
