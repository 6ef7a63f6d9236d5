"""The tables of a report: one row per add, norm, block, gradient, finding, or token and site.

Columns are keys of the JSON, nested keys joined by dots: `out_norm.median`, `quantiles.cosine.p5`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from normdiag.errors import UsageError
from normdiag.evidence.architecture import Norm, ResidualAdd, find_layer_stack
from normdiag.findings import Finding
from normdiag.report.python.flat_records import flatten_record

if TYPE_CHECKING:
    from normdiag.evidence.tokens import TokenTrace
    from normdiag.report.report import Report

Row = dict[str, Any]


def list_stream_rows(report: Report) -> Iterator[Row]:
    """One row per residual add that was measured: what it is, and its numbers."""
    for add in report.architecture.residual_adds:
        measured = report.measurements.stream.get(add.id)
        if measured is not None:
            yield flatten_record(add) | flatten_record(measured)


def list_norm_rows(report: Report) -> Iterator[Row]:
    """One row per norm, with its numbers where it was measured."""
    for norm in report.architecture.norms:
        measured = report.measurements.norms.get(norm.id)
        yield flatten_record(norm) | ({} if measured is None else flatten_record(measured))


def list_block_rows(report: Report) -> Iterator[Row]:
    """One row per block Jacobian: of an add, of a layer or of a stack."""
    stacks = {stack.id: stack.id for stack in report.architecture.stacks}
    stacks |= {add.id: add.stack for add in report.architecture.residual_adds}
    for id, block in report.measurements.blocks.items():
        stack = stacks.get(id, find_layer_stack(id))
        yield {"id": id, "stack": stack} | flatten_record(block)


def list_gradient_rows(report: Report) -> Iterator[Row]:
    """One row per gradient: `quantity` says which, `value` how large it is.

    "stream" is the RMS over tokens of ||dL/dy|| at an add, "gain" and "bias" are ||dL/dgamma|| and
    ||dL/dbeta|| of a norm, "share" is that of a parameter group in the squared norm of all.
    """
    gradients = report.measurements.gradients
    if gradients is None:
        return
    values: list[tuple[str, str, float | None]] = [
        *((id, "stream", value) for id, value in gradients.stream.items()),
        *((id, "gain", norm.gain) for id, norm in gradients.norms.items()),
        *((id, "bias", norm.bias) for id, norm in gradients.norms.items()),
        *((id, "share", value) for id, value in gradients.groups.items()),
    ]
    sites = {site.id: site for site in _list_sites(report)}
    for id, quantity, value in values:
        site = sites.get(id)
        if value is not None:
            yield {
                "id": id,
                "stack": site.stack if site else None,
                "layer": site.layer if site else None,
                "quantity": quantity,
                "value": value,
            }


def list_finding_rows(report: Report) -> Iterator[Row]:
    """One row per finding."""
    return (flatten_record(finding) for finding in report.findings)


def list_token_rows(report: Report) -> Iterator[Row]:
    """One row per token and site: an add has `out_norm`, `update_ratio`, .., a norm `input_var`.

    Raises UsageError where the report holds no tokens.
    """
    if report.trace is None:
        raise UsageError(
            "this report holds no numbers of single tokens",
            "normdiag.trace(model) measures them; its report has this table",
        )
    for traced in report.trace:
        yield from _list_traced_rows(report, traced)


TABLES: Mapping[str, Callable[[Report], Iterator[Row]]] = {
    "stream": list_stream_rows,
    "norms": list_norm_rows,
    "blocks": list_block_rows,
    "gradients": list_gradient_rows,
    "findings": list_finding_rows,
    "tokens": list_token_rows,
}

TOKEN_COLUMNS = ("out_norm", "update_ratio", "input_var", "max_abs", "max_channel")


def list_columns(table: str) -> list[str] | None:
    """Columns of a table without rows, where they are the same in every report; else None."""
    if table == "findings":
        return [field.name for field in fields(Finding)]
    return ["id", "stack", "layer", "quantity", "value"] if table == "gradients" else None


def list_rows(report: Report, table: str) -> list[Row]:
    """Return the rows of one of `TABLES`. Raises UsageError for another name."""
    if table not in TABLES:
        raise UsageError(
            f"a report has no table {table!r}",
            f"tables are: {', '.join(map(repr, TABLES))}",
        )
    return list(TABLES[table](report))


def _list_sites(report: Report) -> tuple[ResidualAdd | Norm, ...]:
    return (*report.architecture.residual_adds, *report.architecture.norms)


def _list_traced_rows(report: Report, traced: TokenTrace) -> Iterator[Row]:
    columns = {name: getattr(traced, name) for name in TOKEN_COLUMNS}
    for site in _list_sites(report):
        present = {name: values[site.id] for name, values in columns.items() if site.id in values}
        length = max(map(len, present.values()), default=0)
        # the sites of an encoder or a decoder may run over other tokens than those with names
        has_names = length == len(traced.tokens)
        for position in range(length):
            yield {
                "sequence": traced.sequence,
                "position": position,
                "token": traced.tokens[position] if has_names else None,
                "special": traced.special[position] if has_names else None,
                "id": site.id,
                "stack": site.stack,
                "layer": site.layer,
                **{name: values[position] for name, values in present.items()},
            }
