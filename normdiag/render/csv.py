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
from typing import Any, get_args, get_origin, get_type_hints

from rich.console import Console

from normdiag.evidence.architecture import Norm, ResidualAdd
from normdiag.evidence.blocks import BlockJacobian
from normdiag.evidence.gains import Gain
from normdiag.evidence.gradients import NormGradient
from normdiag.evidence.layers import LayerMeasurement
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.replay import Replay
from normdiag.evidence.stream import AddMeasurement
from normdiag.evidence.tokens import TokenTrace
from normdiag.number_text import UNKNOWN
from normdiag.render.escape import escape_text
from normdiag.render.interface import Options
from normdiag.render.series_table import NUMBERS, iterate_series_rows
from normdiag.render.site_lookup import find_site
from normdiag.report import v1
from normdiag.report.report import Report
from normdiag.report.series import Series

Row = dict[str, Any]

_SITE = ("site", "type", "stack", "layer")
_PLACE = ("placement", "role", "kind", "eps")
_TOKEN = ("sequence", "position", "token_id", "token", "special")
_TRACED = ("out_norm", "update_ratio", "max_abs", "max_channel", "input_var")
_FORMULA = ("=", "+", "-", "@")


def write_inspection(report: Report, console: Console, options: Options) -> None:
    """Write one row per norm, per residual add and per layer, each in the order of the forward."""
    measurements, gradients = report.measurements, report.measurements.gradients
    rows: list[Row] = []
    for norm in report.architecture.norms:
        gradient = None if gradients is None else gradients.norms.get(norm.id)
        row = _describe_site(norm) | {"role": norm.role, "kind": norm.kind, "eps": norm.eps}
        row |= _flatten_record("gradient", gradient) | _flatten_record("gain", norm.gain)
        rows.append(row | _flatten_record("", measurements.norms.get(norm.id)))
    for add in report.architecture.residual_adds:
        length = None if gradients is None else gradients.stream.get(add.id)
        row = _describe_site(add) | {"placement": add.placement}
        row |= _flatten_record("block", measurements.blocks.get(add.id))
        row |= _flatten_record("gradient.out", length)
        rows.append(row | _flatten_record("", measurements.stream.get(add.id)))
    for row in rows:
        row |= _flatten_record("replay", measurements.replay.get(row["site"]))
    rows += [
        {"site": id, "type": "layer"} | _flatten_record("", layer)
        for id, layer in measurements.layers.items()
    ]
    _write_rows(console, _list_columns(), rows)


def write_trace(report: Report, console: Console, options: Options) -> None:
    """Write one row per token and site; with `options.sites` those sites alone.

    Raises UsageError, before anything is written, for a site that the report has not.
    """
    sites: tuple[Norm | ResidualAdd, ...] = (
        *report.architecture.norms,
        *report.architecture.residual_adds,
    )
    if options.sites:
        sites = tuple(find_site(report, id) for id in options.sites)
    rows = (
        row
        for trace in report.trace or ()
        for site in sites
        for row in _iterate_tokens(trace, site)
    )
    _write_rows(console, (*_TOKEN, *_SITE, *_TRACED), rows)


def write_series(series: Series, console: Console, options: Options) -> None:
    """Write one row per target, the numbers in full."""
    names = [name.replace(" ", "_") for name in NUMBERS]
    columns = ["target", *names, "findings", "changes", "verdict"]
    rows = (
        (row.target, *row.numbers.values(), row.findings, row.changes, row.verdict)
        for row in iterate_series_rows(series.reports)
    )
    known = ([None if cell == UNKNOWN else cell for cell in row] for row in rows)
    _write_rows(console, columns, (dict(zip(columns, row, strict=True)) for row in known))


def _describe_site(site: Norm | ResidualAdd) -> Row:
    kind = "norm" if isinstance(site, Norm) else "add"
    return {"site": site.id, "type": kind, "stack": site.stack, "layer": site.layer}


def _iterate_tokens(trace: TokenTrace, site: Norm | ResidualAdd) -> Iterator[Row]:
    traced = {
        name: getattr(trace, name)[site.id] for name in _TRACED if site.id in getattr(trace, name)
    }
    rows = list(zip_longest(*traced.values()))
    # The sites of an encoder or a decoder may run over other tokens than the ones that are named.
    has_names = len(rows) == len(trace.tokens)
    names = zip_longest(trace.ids or (), trace.tokens, trace.special) if has_names else ()
    for position, (values, name) in enumerate(zip_longest(rows, names)):
        yield {
            "sequence": trace.sequence,
            "position": position,
            **dict(zip(("token_id", "token", "special"), name or (), strict=False)),
            **_describe_site(site),
            **dict(zip(traced, values or (), strict=False)),
        }


def _list_columns() -> tuple[str, ...]:
    measured = (
        *_list_names("gain", Gain),
        *_list_names("", AddMeasurement),
        *_list_names("", NormMeasurement),
        *_list_names("block", BlockJacobian),
        "gradient.out",
        *_list_names("gradient", NormGradient),
        *_list_names("replay", Replay),
        *_list_names("", LayerMeasurement),
    )
    return tuple(dict.fromkeys((*_SITE, *_PLACE, *measured)))


def _list_names(prefix: str, record: type) -> Iterator[str]:
    """Yield the dotted names of the plain fields of a record and of the records in it."""
    hints = get_type_hints(record)
    for field in fields(record):
        name = f"{prefix}.{field.name}".lstrip(".")
        kinds = (hints[field.name], *get_args(hints[field.name]))
        inner = next((kind for kind in kinds if is_dataclass(kind)), None)
        if inner is not None and get_origin(hints[field.name]) is tuple:
            continue
        if isinstance(inner, type):
            yield from _list_names(name, inner)
        else:
            yield name


def _flatten_record(prefix: str, record: object | None) -> Row:
    if record is None:
        return {}
    return dict(_iterate_leaves(prefix, record))


def _iterate_leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if is_dataclass(value):
        for field in fields(value):
            yield from _iterate_leaves(
                f"{prefix}.{field.name}".lstrip("."), getattr(value, field.name)
            )
    elif isinstance(value, tuple):
        if value and not is_dataclass(value[0]):  # no records of single tokens
            yield prefix, " ".join(map(str, value))
    elif value is not None:
        yield prefix, value


def _write_rows(console: Console, columns: Iterable[str], rows: Iterable[Row]) -> None:
    writer = csv.DictWriter(console.file, tuple(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: format_cell(_escape_value(value)) for name, value in row.items()} for row in rows
    )


def format_cell(value: Any) -> Any:
    """Return what is written for `value`; visible text that a spreadsheet would run is quoted."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return v1.wire_number(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _escape_value(value: Any) -> Any:
    return escape_text(value) if isinstance(value, str) else value
