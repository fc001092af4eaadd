"""Confusion matrices of the report, ours beside a printed one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from papers._markdown import markdown_table

# Table 1 of Andrecut (2016) numbers the classes; the order is that of the data set.
CIFAR10 = (
    "C1 airplane",
    "C2 automobile",
    "C3 bird",
    "C4 cat",
    "C5 deer",
    "C6 dog",
    "C7 frog",
    "C8 horse",
    "C9 ship",
    "C10 truck",
)


def class_names(dataset: str, classes: Sequence[str]) -> list[str]:
    """Return names for the class numbers of a results file."""
    if dataset == "cifar10":
        return [CIFAR10[int(number)] for number in classes]
    return list(classes)


def confusion_sections(rows: Sequence[Any], printed: Mapping[str, Any]) -> list[str]:
    """Write the confusion matrices that were kept, each the mean over the seeds.

    ``printed`` has the ``percent`` of a printed matrix and what its cell has as
    ``source`` and ``normalize``, or is empty.
    """
    parts = []
    for row, records in kept_confusions(rows):
        names = class_names(row.cell.dataset, records[0]["confusion"]["classes"])
        ours = mean_percent(records)
        theirs = printed["percent"] if is_printed(row.cell, printed) else None
        parts.append(f"## Confusion matrix in %: {row.label}")
        lines = [f"Mean of {len(records)} seeds."] if len(records) > 1 else []
        lines += [] if theirs is None else [_distance_line(ours, theirs)]
        parts += [" ".join(lines)] if lines else []
        heads = ("true \\ predicted", *(name.split()[0] for name in names))
        parts.append(markdown_table(heads, _lines(names, ours, theirs)))
    return parts


def kept_confusions(rows: Sequence[Any]) -> Iterator[tuple[Any, list[dict]]]:
    """Yield a row and its records with a confusion matrix, once for the same fits."""
    seen = set()
    for row in rows:
        records = [record for record in row.records if "confusion" in record]
        fits = tuple(record["curve"] for record in records)
        if fits and fits not in seen:
            seen.add(fits)
            yield row, records


def mean_percent(records: Sequence[dict]) -> np.ndarray:
    """Return the mean over records of their confusion matrices, in per cent."""
    return np.mean([record["confusion"]["percent"] for record in records], axis=0)


def is_printed(cell: Any, printed: Mapping[str, Any]) -> bool:
    """Tell whether a printed matrix is that of a cell."""
    keys = ("source", "normalize")
    return bool(printed) and all(getattr(cell, k) == printed[k] for k in keys)


def _distance_line(ours: np.ndarray, theirs: Sequence) -> str:
    difference = np.abs(np.subtract(ours, theirs))
    return (
        "Ours, and in brackets what the paper prints: the difference is "
        f"{difference.mean():.2f} on average and {difference.max():.1f} at most."
    )


def _lines(names: Sequence[str], ours: np.ndarray, theirs: Sequence | None) -> list:
    """Write a matrix, with printed numbers in brackets."""
    lines = []
    for i, name in enumerate(names):
        texts = [f"{share:.1f}" for share in ours[i]]
        if theirs is not None:
            texts = [f"{a} ({b:.1f})" for a, b in zip(texts, theirs[i], strict=True)]
        lines.append([name, *texts])
    return lines
