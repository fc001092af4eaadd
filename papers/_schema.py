"""Checks of tables read from TOML, derived from the dataclasses they become."""

import difflib
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType
from typing import Any

Types = dict[str, tuple[type, ...]]
"""Keys of a table, and the types that their values may have."""


class SpecError(ValueError):
    """A TOML file does not describe a paper."""


# What TOML has for a field of a type; whole numbers are good for real ones.
_IN_TOML: dict[Any, tuple[type, ...]] = {
    float: (int, float),
    tuple: (list,),
    Mapping: (dict,),
}


def types_in_toml(cls: Any) -> Types:
    """Return which types TOML may have for each field of a dataclass."""
    hints = typing.get_type_hints(cls)
    return {field.name: _in_toml(hints[field.name]) for field in fields(cls)}


def required_fields(cls: Any) -> list[str]:
    """Return the names of the fields that have no default."""
    return [
        field.name
        for field in fields(cls)
        if field.default is MISSING and field.default_factory is MISSING
    ]


def _in_toml(hint: Any) -> tuple[type, ...]:
    origin = typing.get_origin(hint)
    if origin in (Mapping, tuple):
        return _IN_TOML[origin]
    parts = [part for part in typing.get_args(hint) or [hint] if part is not NoneType]
    return tuple(kind for part in parts for kind in _IN_TOML.get(part, (part,)))


def check_table(table: Any, types: Types, required, where: str) -> None:
    """Check that all keys are known, present if required, and of their type."""
    if not isinstance(table, dict):
        raise SpecError(f"{where}: got {table!r}, expected a table of keys.")
    for key, value in table.items():
        if key not in types:
            near = difflib.get_close_matches(key, types, n=1)
            hint = (
                f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(types)}."
            )
            raise SpecError(f"{where}: unknown key {key!r}. {hint}")
        _check_type(value, types[key], where, key)
    for key in required:
        if key not in table:
            raise SpecError(f"{where}: the key {key!r} is missing; add it.")


def _check_type(value: Any, kinds: tuple[type, ...], where: str, key: str) -> None:
    """Check one value's type; a bool is no number here."""
    wrong_bool = isinstance(value, bool) and bool not in kinds
    if wrong_bool or not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise SpecError(f"{where}: {key} = {value!r} must be of type {names}.")


def check_choices(
    table: dict[str, Any], choices: Mapping[str, tuple[str, ...]], where: str
) -> None:
    """Check the keys that take one of a few names."""
    for key, names in choices.items():
        if key in table and table[key] not in names:
            raise SpecError(
                f"{where}: {key} = {table[key]!r} is not known; "
                f"use one of {', '.join(map(repr, names))}."
            )
