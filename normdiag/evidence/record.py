"""The one kind of class that evidence is made of: frozen, slotted, keyword-only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")

# Read by pydantic in `report/v1.py` (evidence itself does not import it): non-finite numbers are
# strings on the wire, unknown keys of a newer minor version are read over, and a trailing
# underscore (`class_`) is only there because Python reserves the word.
WIRE: dict[str, object] = {
    "ser_json_inf_nan": "strings",
    "extra": "ignore",
    "alias_generator": lambda name: name.rstrip("_"),
    "validate_by_name": True,
    "validate_by_alias": True,
}


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, slotted, keyword-only dataclass that has a wire form."""
    cls.__pydantic_config__ = WIRE  # type: ignore[attr-defined]
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)
