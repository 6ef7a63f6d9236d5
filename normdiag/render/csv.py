"""Flat rows for spreadsheets and data frames: one per site, or one per token and site.

Column names are the keys of the JSON document; so are the names of non-finite numbers. What was not
measured is empty. Text from outside is made visible, and a text that a spreadsheet would take for a
formula gets an apostrophe in front: join on `token_id` or `position`, not on `token`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from typing import Any, get_args, get_type_hints

from rich.console import Console

from normdiag.evidence.architecture import Gain, Norm, ResidualAdd
from normdiag.evidence.blocks import Block
from normdiag.evidence.gradients import NormGradient
from normdiag.evidence.layers import LayerMeasurement
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.replay import Replay
from normdiag.evidence.stream import AddMeasurement
from normdiag.evidence.tokens import TokenTrace
from normdiag.render.escape import visible
from normdiag.render.interface import Options
from normdiag.render.site import find
from normdiag.report import v1
from normdiag.report.report import Report

Row = dict[str, Any]

_SITE = ("site", "type", "stack", "layer")
_PLACE = ("placement", "role", "kind", "eps")
_TOKEN = ("sequence", "position", "token_id", "token", "special")
_TRACED = ("out_norm", "update_ratio", "max_abs", "max_channel", "input_var")
_FORMULA = ("=", "+", "-", "@")


def render_inspect(report: Report, console: Console, options: Options) -> None:
    """Write one row per norm, per residual add and per layer, each in the order of the forward."""
    seen = report.measurements
    back = seen.gradients
    norms, stream = ({}, {}) if back is None else (back.norms, back.stream)
    rows: list[Row] = []
    for norm in report.architecture.norms:
        row = _site(norm) | {"role": norm.role, "kind": norm.kind, "eps": norm.eps}
        row |= _flat("gradient", norms.get(norm.id))
        rows.append(row | _flat("gain", norm.gain) | _flat("", seen.norms.get(norm.id)))
    for add in report.architecture.residual_adds:
        row = _site(add) | {"placement": add.placement}
        row |= _flat("block", seen.blocks.get(add.id)) | _flat("gradient.out", stream.get(add.id))
        rows.append(row | _flat("", seen.stream.get(add.id)))
    for row in rows:
        row |= _flat("replay", seen.replay.get(row["site"]))
    rows += [{"site": id, "type": "layer"} | _flat("", layer) for id, layer in seen.layers.items()]
    _write(console, _columns(), rows)


def render_trace(report: Report, console: Console, options: Options) -> None:
    """Write one row per token and site; with `options.sites` those sites alone.

    Raises UsageError, before anything is written, for a site that the report has not.
    """
    sites: tuple[Norm | ResidualAdd, ...] = (
        *report.architecture.norms,
        *report.architecture.residual_adds,
    )
    if options.sites:
        sites = tuple(find(report, id) for id in options.sites)
    rows = (row for trace in report.trace or () for site in sites for row in _tokens(trace, site))
    _write(console, (*_TOKEN, *_SITE, *_TRACED), rows)


def _site(site: Norm | ResidualAdd) -> Row:
    kind = "norm" if isinstance(site, Norm) else "add"
    return {"site": site.id, "type": kind, "stack": site.stack, "layer": site.layer}


def _tokens(trace: TokenTrace, site: Norm | ResidualAdd) -> Iterator[Row]:
    found = {
        name: getattr(trace, name)[site.id] for name in _TRACED if site.id in getattr(trace, name)
    }
    rows = list(zip_longest(*found.values()))
    # The sites of an encoder or a decoder may run over other tokens than the ones that are named.
    named = len(rows) == len(trace.tokens)
    names = zip_longest(trace.ids or (), trace.tokens, trace.special) if named else ()
    for position, (values, name) in enumerate(zip_longest(rows, names)):
        yield {
            "sequence": trace.sequence,
            "position": position,
            **dict(zip(("token_id", "token", "special"), name or (), strict=False)),
            **_site(site),
            **dict(zip(found, values or (), strict=False)),
        }


def _columns() -> tuple[str, ...]:
    measured = (
        *_names("gain", Gain),
        *_names("", AddMeasurement),
        *_names("", NormMeasurement),
        *_names("block", Block),
        "gradient.out",
        *_names("gradient", NormGradient),
        *_names("replay", Replay),
        *_names("", LayerMeasurement),
    )
    return tuple(dict.fromkeys((*_SITE, *_PLACE, *measured)))


def _names(prefix: str, record: type) -> Iterator[str]:
    """Yield the dotted names of the plain fields of a record and of the records in it."""
    hints = get_type_hints(record)
    for field in fields(record):
        name = f"{prefix}.{field.name}".lstrip(".")
        kinds = (hints[field.name], *get_args(hints[field.name]))
        inner = next((kind for kind in kinds if is_dataclass(kind)), None)
        if isinstance(inner, type):
            yield from _names(name, inner)
        else:
            yield name


def _flat(prefix: str, record: object | None) -> Row:
    if record is None:
        return {}
    return dict(_leaves(prefix, record))


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if is_dataclass(value):
        for field in fields(value):
            yield from _leaves(f"{prefix}.{field.name}".lstrip("."), getattr(value, field.name))
    elif isinstance(value, tuple):
        yield prefix, " ".join(map(str, value))
    elif value is not None:
        yield prefix, value


def _write(console: Console, columns: Iterable[str], rows: Iterable[Row]) -> None:
    writer = csv.DictWriter(console.file, tuple(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: cell(_safe(value)) for name, value in row.items()} for row in rows)


def cell(value: Any) -> Any:
    """Return what is written for `value`; visible text that a spreadsheet would run is quoted."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return v1.number(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _safe(value: Any) -> Any:
    return visible(value) if isinstance(value, str) else value
