"""A record as one flat row of a table."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def flatten_record(record: Any, before: str = "") -> dict[str, Any]:
    """Return the fields of a record by their keys in the JSON, nested keys joined by dots.

    Records that are missing and tuples of records are left out; other tuples stay as they are.
    """
    row: dict[str, Any] = {}
    for field in fields(record):
        value, key = getattr(record, field.name), before + field.name.rstrip("_")
        if is_dataclass(value):
            row |= flatten_record(value, f"{key}.")
        elif not (isinstance(value, tuple) and value and is_dataclass(value[0])):
            row[key] = value
    return row
