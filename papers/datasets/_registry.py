"""Files, checksums, sizes, source and licence of each data set.

The facts stand in ``registry.toml`` beside this module; here they get types. Nothing
here reads or fetches a data file.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file: its place below a data folder, and how to recognise and get it."""

    path: str
    sha256: str
    urls: tuple[str, ...] = ()
    """Where to download it, or the tar file that holds all files of the data set."""
    archive_sha256: str = ""
    """Checksum of that tar file; empty if the file itself is there."""

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a data set was first published, and how to recognise what is there."""

    form: str
    content: str
    """Checksum of the rows, :func:`~papers.datasets._origin.content_sha256`."""
    urls: tuple[str, ...] = ()
    data_id: int | None = None
    drop: tuple[int, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the source calls the classes: what the registry calls them."""
    feature_names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One data set: its files, its sizes, where it comes from, what it allows."""

    name: str
    title: str
    loader: str
    files: tuple[DataFile, ...]
    n_samples: tuple[int, ...]
    n_features: int
    n_classes: int
    source: str
    homepage: str
    licence: str
    notes: str = ""
    target_names: tuple[str, ...] = ()
    image_shape: tuple[int, ...] = ()
    sparse: bool = False
    origin: Origin | None = None

    @property
    def call(self) -> str:
        """Return the expression that loads the set."""
        by_name = len(names_of(self.loader)) > 1
        return f"{self.loader}({self.name!r})" if by_name else f"{self.loader}()"

    @property
    def description(self) -> str:
        """Return a short text: title, sizes, source, licence, notes."""
        parts = ("train", "test") if len(self.n_samples) == 2 else ("all",)
        rows = ", ".join(
            f"{n} ({p})" for n, p in zip(self.n_samples, parts, strict=True)
        )
        lines = [
            self.title,
            "",
            f"Rows:     {rows}",
            f"Features: {self.n_features}",
            f"Classes:  {self.n_classes}",
            f"Source:   {self.source}, {self.homepage}",
            f"Licence:  {self.licence} (as the source usually states it)",
        ]
        return "\n".join(lines + (["", self.notes] if self.notes else [])) + "\n"


def read_registry(text: str) -> Mapping[str, Dataset]:
    """Turn the text of the registry into data sets by name."""
    entries = tomllib.loads(text)
    return MappingProxyType({name: _dataset(name, e) for name, e in entries.items()})


def names_of(loader: str) -> tuple[str, ...]:
    """Return the names of the sets that a loader knows, sorted."""
    return tuple(sorted(d.name for d in DATASETS.values() if d.loader == loader))


def find(name: str, loader: str) -> Dataset:
    """Return the set of that name, or say which name was probably meant."""
    known = names_of(loader)
    if name in known:
        return DATASETS[name]
    if name in DATASETS:
        hint = f" Load it with {DATASETS[name].call}."
    else:
        near = get_close_matches(str(name).lower(), known, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"{loader} knows no data set {name!r}.{hint} It knows: {', '.join(known)}."
    )


def _dataset(name: str, entry: dict[str, Any]) -> Dataset:
    """Return one table of the registry with its types."""
    facts = _tuples(entry)
    if "origin" in facts:
        facts["origin"] = Origin(**_tuples(facts["origin"]))
    mirrors, archive = facts.pop("mirrors", ()), facts.pop("archive", {})
    packed = (archive["url"],) if archive else ()
    files = tuple(
        DataFile(
            path=path,
            sha256=sha256,
            urls=packed or tuple(m + PurePosixPath(path).name for m in mirrors),
            archive_sha256=archive.get("sha256", ""),
        )
        for path, sha256 in facts.pop("files").items()
    )
    return Dataset(name=name, files=files, **facts)


def _tuples(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table with tuples for lists: nothing of the registry can be changed."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}


DATASETS = read_registry(Path(__file__).with_name("registry.toml").read_text("utf-8"))
