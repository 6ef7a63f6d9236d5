"""Paths to numbers of a report: `measurements.growth.total`.

    path = key ("[" id "]")? ("." path)?

A key is one of the JSON document. Where it holds values by id (`measurements.stream`) or a list
(`architecture.norms`), the path goes on in all of them, or with an id in brackets in that one:
`measurements.growth[model.layers].total`. Ids hold dots, so they stand in brackets, never bare.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from normdiag.errors import UsageError
from normdiag.report.report import Report

# An id ends at the bracket behind which the path ends or goes on; ids may hold brackets themselves.
_STEP = re.compile(r"(?P<key>[^.\[\]]+)(?:\[(?P<id>.+?)\](?=\.|$))?(?:\.|$)")


@dataclass(frozen=True, slots=True)
class PathStep:
    """One key of a path, and the one id to go on in."""

    key: str
    id: str | None


@dataclass(frozen=True, slots=True)
class PathValue:
    """A number at a path; None where it was not measured."""

    location: str
    number: float | None
    near: tuple[str, ...] = ()
    """Similar ids, where an id in brackets does not exist."""


@dataclass(frozen=True, slots=True)
class NumberPath:
    """A path to numbers of a report, checked against the types."""

    text: str
    steps: tuple[PathStep, ...]

    def read_values(self, report: Report) -> tuple[PathValue, ...]:
        """Read the numbers at this path; empty where nothing was measured."""
        return tuple(_follow_steps(report, "", self.steps))


def parse_path(text: str) -> NumberPath:
    """Parse a path and check it against the types of a report.

    Raises UsageError, naming the nearest keys: no such key, an id where there are none, or a path
    that does not end at numbers.
    """
    steps: list[PathStep] = []
    position = 0
    while position < len(text) or not steps:
        match = _STEP.match(text, position)
        if match is None:
            raise UsageError(
                f"{text!r} is not a path into a report: invalid from {text[position:]!r} on",
                "separate keys by dots and put an id in brackets: "
                "measurements.growth[model.layers].total",
            )
        steps.append(PathStep(match["key"], match["id"]))
        position = match.end()
    kind: Any = Report
    for place, step in enumerate(steps):
        kind = _field_type(kind, step, text, ".".join(each.key for each in steps[:place]))
    if not _is_number(kind):
        raise UsageError(f"{text} is not a number", _suggest_paths(text, kind))
    return NumberPath(text, tuple(steps))


def _field_type(kind: Any, step: PathStep, text: str, before: str) -> Any:
    """The type of field `step` of `kind`; the entry type of a dict or list."""
    fields = _field_types(kind)
    if step.key not in fields:
        below = [
            f"{key}.{step.key}" for key, inner in fields.items() if step.key in _field_types(inner)
        ]
        near = below or get_close_matches(step.key, fields, n=3, cutoff=0.5) or list(fields)
        where = before or "the report"
        raise UsageError(
            f"{text!r} is not a path into a report: {where} has no {step.key!r}",
            f"{where} has {', '.join(near)}; an id goes in brackets"
            if near
            else f"{where} has no fields",
        )
    inner = _entry_type(fields[step.key])
    if inner is None and step.id is not None:
        raise UsageError(
            f"{text!r} is not a path into a report: {step.key} has no ids", "remove the brackets"
        )
    return fields[step.key] if inner is None else inner


def _field_types(kind: Any) -> dict[str, Any]:
    """Map JSON keys to types without None; empty where `kind` is not a record."""
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return {}
    return {name.rstrip("_"): _without_none(hint) for name, hint in get_type_hints(kind).items()}


def _without_none(hint: Any) -> Any:
    """`hint` without None."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 else hint


def _entry_type(kind: Any) -> Any:
    """The entry type of a dict or list; None for other types."""
    if get_origin(kind) is dict:
        return _without_none(get_args(kind)[1])
    return _without_none(get_args(kind)[0]) if get_origin(kind) is tuple else None


def _is_number(kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(_is_number(each) for each in get_args(kind))
    inner = _entry_type(kind)
    return kind in (int, float) if inner is None else _is_number(inner)


def _holds_numbers(kind: Any) -> bool:
    fields = _field_types(_entry_type(kind) or kind)
    return _is_number(kind) or any(map(_holds_numbers, fields.values()))


def _suggest_paths(text: str, kind: Any) -> str:
    fields = [f"{text}.{key}" for key, inner in _field_types(kind).items() if _holds_numbers(inner)]
    if not fields:
        return "give the path of a number, such as measurements.growth.total"
    return f"it holds {', '.join(fields)}"


def _follow_steps(value: Any, at: str, steps: tuple[PathStep, ...]) -> Iterator[PathValue]:
    if value is None:
        yield PathValue(at, None)
    elif steps:
        step, rest = steps[0], steps[1:]
        at = f"{at}.{step.key}".lstrip(".")
        inner = getattr(value, step.key if hasattr(value, step.key) else f"{step.key}_")
        yield from _follow_entries(inner, at, step.id, rest)
    elif isinstance(value, tuple):
        yield from _follow_entries(value, at, None, ())
    elif isinstance(value, int | float):
        yield PathValue(at, value)


def _follow_entries(
    value: Any, at: str, id: str | None, rest: tuple[PathStep, ...]
) -> Iterator[PathValue]:
    """Follow the path in each entry of a dict or list, or only in entry `id`."""
    if not isinstance(value, Mapping | tuple):
        yield from _follow_steps(value, at, rest)
        return
    entries = value if isinstance(value, Mapping) else dict(_iterate_entries(value))
    if id is not None and id not in entries:
        near = get_close_matches(id, entries, n=3, cutoff=0.3) or list(entries)[:3]
        yield PathValue(f"{at}[{id}]", None, tuple(near))
        return
    for name, entry in entries.items():
        if id is None or name == id:
            yield from _follow_steps(entry, f"{at}[{name}]", rest)


def _iterate_entries(values: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a list by id, or by position where they have none."""
    for place, value in enumerate(values):
        yield getattr(value, "id", str(place)), value


def worst_value(values: tuple[PathValue, ...], bound: Literal["max", "min"]) -> PathValue | None:
    """The value that exceeds a bound most, NaN first; None where none was measured."""
    sign = 1.0 if bound == "max" else -1.0
    known = [(value.number, value) for value in values if value.number is not None]
    if not known:
        return None
    return max(known, key=lambda each: (math.isnan(each[0]), sign * each[0]))[1]
