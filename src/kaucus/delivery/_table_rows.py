"""Read table files, whole or in chunks, with columns of the types that fit has seen.

CSV and TSV, plain or compressed, Parquet and Feather. A column is ``"number"``,
``"text"`` or ``"date"``; in fit that is found out, later it is held to, so that a chunk
without a letter in it does not turn a column of texts into numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaucus.contract import require

CHUNK_ROWS = 20_000
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": None}
_ARROW = (".feather", ".arrow")
_KINDS = (*_SEPARATORS, ".parquet", *_ARROW)
_TRUE_FALSE = {"true": 1.0, "false": 0.0}


class TableError(ValueError):
    """A table that cannot be read or used: which file, which column, which row."""


def read_table(
    path, kinds: Mapping[str, str] | None = None, *, target: str | None = None
) -> Any:
    """Return a table as a pandas frame whose columns are numbers, texts and dates.

    Parameters
    ----------
    path : str or path
    kinds : mapping, default=None
        What each column is to be; None: as it looks.
    target : str, default=None
        A column whose true and false stay words, as they are to be predicted.
    """
    pandas = require("pandas", "tables")
    parts = list(read_chunks(path, kinds, n_rows=None, target=target))
    return parts[0] if len(parts) == 1 else pandas.concat(parts)


def read_chunks(
    path,
    kinds: Mapping[str, str] | None,
    *,
    n_rows: int | None = CHUNK_ROWS,
    target: str | None = None,
) -> Iterator[Any]:
    """Yield a table as frames of at most ``n_rows`` rows; None: in one piece.

    Columns that ``kinds`` does not name are left out, those that it names and the file
    does not have are an error. The index of the frames is the number of the row, from
    1 on.
    """
    pandas = require("pandas", "tables")
    path, first = Path(path), 1
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    for frame in _raw_chunks(path, kinds, n_rows):
        frame.columns = [str(name) for name in frame.columns]
        if kinds is None:
            kinds = {name: kind_of(frame[name]) for name in frame.columns}
            if target in kinds and frame[target].dtype.kind == "b":
                kinds[target] = "text"
        frame.index = pandas.RangeIndex(first, first + len(frame))
        yield as_kinds(frame, kinds, path)
        first += len(frame)


def kind_of(column) -> str:
    """Return whether a column is of numbers, dates or texts."""
    if column.dtype.kind in "iufb":
        return "number"
    if column.dtype.kind == "M":
        return "date"
    values = column.dropna()
    numbers = len(values) and _numbers(values).notna().all()
    return "number" if numbers else "text"


def as_kinds(frame, kinds: Mapping[str, str], path):
    """Return the columns that are asked for, each of its kind.

    Parameters
    ----------
    frame : DataFrame
        Its index is the number of each row, for errors.
    kinds : mapping
        ``"number"``, ``"text"`` or ``"date"`` of each column.
    path : path
        For errors.
    """
    pandas = require("pandas", "tables")
    missing = [name for name in kinds if name not in frame.columns]
    if missing:
        raise TableError(
            f"{path} has no column {missing[0]!r}; expected the columns "
            f"{', '.join(kinds)}, got {', '.join(map(str, frame.columns))}."
        )
    columns = {name: _as_kind(frame[name], kind, path) for name, kind in kinds.items()}
    return pandas.DataFrame(columns, index=frame.index)


# ---- columns -------------------------------------------------------------------------


def _as_kind(column, kind: str, path):
    pandas = require("pandas", "tables")
    if kind == "number":
        values = column if column.dtype.kind in "iufb" else _numbers(column)
        _check_converted(column, values, path, "is not a number")
        return values.astype(np.float64)
    if kind == "date":
        values = column
        if column.dtype.kind != "M":
            values = pandas.to_datetime(column, errors="coerce", format="mixed")
        _check_converted(column, values, path, "is not a date")
        return values
    gaps = column.isna()
    return column.astype(str).astype(object).where(~gaps, None)


def _numbers(column):
    """Return texts as numbers, NaN where they are none; true and false are 1 and 0."""
    pandas = require("pandas", "tables")
    texts = column.astype(str).str.strip()
    numbers = pandas.to_numeric(texts, errors="coerce")
    return numbers.fillna(texts.str.lower().map(_TRUE_FALSE)).where(column.notna())


def _check_converted(column, values, path, problem: str) -> None:
    """Raise an error that names the first value that was not converted."""
    lost = np.flatnonzero((column.notna() & values.isna()).to_numpy())
    if len(lost):
        place = lost[0]
        raise TableError(
            f"{path}, row {column.index[place]}, column {column.name!r}: "
            f"{column.iloc[place]!r} {problem}; mend it, or leave it empty."
        )


# ---- files ---------------------------------------------------------------------------


def table_kind(path: Path) -> str:
    """Return the suffix that tells how a file is read, without a packer's."""
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


def _raw_chunks(path: Path, kinds, n_rows: int | None) -> Iterator[Any]:
    kind = table_kind(path)
    try:
        if kind in _SEPARATORS:
            yield from _text_chunks(path, kind, kinds, n_rows)
        else:
            yield from _arrow_chunks(path, kind, n_rows)
    except TableError:
        raise
    except (ValueError, OSError, EOFError, UnicodeDecodeError) as error:
        raise TableError(f"{path} cannot be read: {_first_line(error)}") from error


def _text_chunks(path: Path, kind: str, kinds, n_rows: int | None) -> Iterator[Any]:
    pandas = require("pandas", "tables")
    separator = _SEPARATORS[kind]
    texts = [name for name, what in (kinds or {}).items() if what == "text"]
    options: dict[str, Any] = {"dtype": dict.fromkeys(texts, str)}
    if separator is None:
        options |= {"sep": None, "engine": "python"}  # it looks for the separator
    else:
        options |= {"sep": separator, "low_memory": False}
    if n_rows is None:
        yield pandas.read_csv(path, **options)
        return
    with pandas.read_csv(path, chunksize=n_rows, **options) as reader:
        yield from reader


def _arrow_chunks(path: Path, kind: str, n_rows: int | None) -> Iterator[Any]:
    if kind in _ARROW:
        feather = require("pyarrow.feather", "tables")
        table = feather.read_table(path, memory_map=True)
        batches = table.to_batches(max_chunksize=n_rows)
    else:
        parquet = require("pyarrow.parquet", "tables")
        if n_rows is None:
            yield parquet.read_table(path).to_pandas()
            return
        batches = parquet.ParquetFile(path).iter_batches(n_rows)
    for batch in batches:
        yield batch.to_pandas()


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else repr(error)


def target_of(frame, name: str, path) -> Any:
    """Return the column of a name without gaps, or an error that names the row."""
    if name not in frame.columns:
        near: Sequence[str] = [c for c in frame.columns if c.lower() == name.lower()]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise TableError(
            f"{path} has no column {name!r}; it has {', '.join(frame.columns)}.{hint}"
        )
    column = frame[name]
    gaps = np.flatnonzero(column.isna().to_numpy())
    if len(gaps):
        raise TableError(
            f"{path}, row {column.index[gaps[0]]}, column {name!r}: the value is "
            f"missing, here and in {len(gaps) - 1} more rows; take them out."
        )
    return column
