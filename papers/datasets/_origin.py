"""Fetch data sets from where they were first published, and check their rows.

The files that the registry knows by their checksums are tables in one form. Where they
are missing, a set is fetched from its source, in the source's own form, and what was
parsed is compared with a checksum of the rows: another version is refused. The checksum
does not depend on the order of the rows.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from papers.datasets._fetch import cache_folder
from papers.datasets._readers import Table, parse_labels, read_libsvm, read_text
from papers.datasets._registry import Dataset, Origin


def fetch_origin(dataset: Dataset, dtype: str) -> list[Table]:
    """Return the parts of a data set that has an ``origin``, fetched from there.

    Raises
    ------
    OSError
        If the source cannot be reached.
    ValueError
        If what it has is not what the registry knows.
    """
    origin = dataset.origin
    assert origin is not None
    tables = _FORMS[origin.form](dataset, origin)
    checked = [_with_names(table, dataset, origin) for table in tables]
    found = content_sha256(checked)
    if found != origin.content:
        shapes = [table.X.shape for table in checked]
        raise ValueError(
            f"{dataset.title}: what {_where(origin)} has, of shape {shapes}, is not "
            f"the version that is known: the sha256 of its rows is {found}, expected "
            f"{origin.content}. Get the known version: {dataset.source}, "
            f"{dataset.homepage}."
        )
    return [table._replace(X=table.X.astype(dtype)) for table in checked]


def content_sha256(tables: list[Table]) -> str:
    """Return a checksum of rows and labels, the same for any order of the rows."""
    digest = hashlib.sha256()
    for table in tables:
        X = np.ascontiguousarray(table.X, dtype="<f8") + 0.0  # no -0
        rows = (
            hashlib.sha256(row.tobytes() + str(label).encode()).digest()
            for row, label in zip(X, table.y.tolist(), strict=True)
        )
        digest.update(b"".join(sorted(rows)))
    return digest.hexdigest()


def _with_names(table: Table, dataset: Dataset, origin: Origin) -> Table:
    """Give labels and columns the names that the registry has for them."""
    labels = [origin.labels.get(label, label) for label in map(str, table.y.tolist())]
    y = parse_labels(Path(dataset.name), [label.encode() for label in labels])
    names = list(origin.feature_names) or table.feature_names
    return Table(table.X, y, names)


def _from_text(dataset: Dataset, origin: Origin) -> list[Table]:
    """Read numbers separated by blanks or commas, the label last."""
    tables = [read_text(path, drop=origin.drop) for path in _download(dataset, origin)]
    if len(dataset.n_samples) == len(tables):
        return tables
    X = np.concatenate([table.X for table in tables])
    return [Table(X, np.concatenate([t.y for t in tables]), tables[0].feature_names)]


def _from_libsvm(dataset: Dataset, origin: Origin) -> list[Table]:
    paths = _download(dataset, origin)
    pairs = [read_libsvm(path, dataset.n_features) for path in paths]
    names = [f"x{i + 1}" for i in range(dataset.n_features)]
    return [Table(X.toarray(), y, names) for X, y in pairs]


def _from_sklearn(dataset: Dataset, origin: Origin) -> list[Table]:
    """Fetch through scikit-learn: covtype by its own function, else from OpenML."""
    from sklearn.datasets import fetch_covtype, fetch_openml

    cache = cache_folder()
    home = None if cache is None else str(cache / "scikit-learn")
    found: Any
    if origin.form == "covtype":
        found = fetch_covtype(data_home=home)
    else:
        number, as_arrays = origin.data_id, {"as_frame": False, "parser": "liac-arff"}
        found = fetch_openml(data_id=number, data_home=home, **as_arrays)
    return [Table(found.data, found.target, list(found.feature_names))]


_FORMS: dict[str, Callable[[Dataset, Origin], list[Table]]] = {
    "text": _from_text,
    "libsvm": _from_libsvm,
    "openml": _from_sklearn,
    "covtype": _from_sklearn,
}


def _where(origin: Origin) -> str:
    by_form = {"openml": f"OpenML {origin.data_id}", "covtype": "fetch_covtype"}
    return by_form.get(origin.form, ", ".join(origin.urls))


def _download(dataset: Dataset, origin: Origin) -> list[Path]:
    """Return the source's files, from the cache where they were fetched before."""
    cache = cache_folder()
    if cache is None:
        raise OSError("downloads need pooch: pip install -r papers/requirements.txt")
    import pooch

    pooch.get_logger().setLevel("WARNING")  # no advice on checksums: rows are checked
    folder = cache / "origin" / dataset.name
    return [
        Path(pooch.retrieve(url, None, fname=re.sub(r".*/", "", url), path=folder))
        for url in origin.urls
    ]
