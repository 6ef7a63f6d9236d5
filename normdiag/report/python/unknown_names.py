"""What to type instead of an attribute that a report does not have."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from normdiag.report.report import Report


def describe_unknown(report: Report, name: str) -> str:
    """Return that a report has no `name`, and where it is, or what is called like it."""
    places = [
        f"report.{field.name}.{inner.name}"
        for field in fields(report)
        if is_dataclass(part := getattr(report, field.name))
        for inner in fields(part)
        if name in (inner.name, inner.name.rstrip("_"))
    ]
    if places:
        return f"a report has no {name!r}; type {' or '.join(places)}"
    public = [each for each in dir(type(report)) if not each.startswith("_")]
    near = get_close_matches(name, public, n=3, cutoff=0.5) or public
    return f"a report has no {name!r}; it has {', '.join(near)}"
