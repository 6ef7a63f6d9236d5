"""Two reports with their pairing, tolerances and measured differences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from normdiag.evidence.architecture import Architecture, layer_id
from normdiag.evidence.differences import Differences
from normdiag.findings import Severity
from normdiag.report.compare.comparison import Difference, DifferenceKind
from normdiag.report.compare.pairing import Pairing
from normdiag.report.compare.rounding import Rounding
from normdiag.report.report import Report

PairedIds = tuple[str, str]
"""Ids of one site in the first and second; "" where it is missing."""


@dataclass(frozen=True, slots=True)
class ReportPair:
    """Two reports, the pairing of their sites, and the measured differences."""

    a: Report
    b: Report
    pairing: Pairing
    rounding: Rounding
    differences: Differences
    """Empty where the two did not run on the same inputs."""


@dataclass(frozen=True, slots=True)
class SiteDifference:
    """A difference at one site, before equal ones are folded."""

    kind: DifferenceKind
    severity: Severity
    ids: PairedIds
    text: str
    """What differs, up to the place: "epsilon is 1e-05 in A and 1e-06 in B"."""
    value: float | None = None
    tolerance: float | None = None
    detail: str = ""
    """Details that vary between sites, shown for the first."""


def fold_differences(
    differences: Iterable[SiteDifference], noun: str, total: int
) -> list[Difference]:
    """Fold equal differences into one, which states their share of `total` sites."""
    groups: dict[tuple[DifferenceKind, Severity, str], list[SiteDifference]] = {}
    for each in differences:
        groups.setdefault((each.kind, each.severity, each.text), []).append(each)
    return [_fold_group(group, noun, total) for group in groups.values()]


def _fold_group(group: list[SiteDifference], noun: str, total: int) -> Difference:
    first = group[0]
    values = [each.value for each in group if each.value is not None]
    return Difference(
        kind=first.kind,
        severity=first.severity,
        a=tuple(each.ids[0] for each in group if each.ids[0]),
        b=tuple(each.ids[1] for each in group if each.ids[1]),
        message=f"{first.text} at {_describe_places(group, noun, total)}",
        value=max(values, default=None),
        tolerance=first.tolerance,
    )


def _describe_places(group: list[SiteDifference], noun: str, total: int) -> str:
    first = format_ids(group[0].ids) + (f" ({group[0].detail})" if group[0].detail else "")
    if len(group) == 1:
        return first
    share = f"all {total}" if len(group) == total else f"{len(group)} of {total}"
    return f"{share} {noun}, first at {first}"


def format_ids(ids: PairedIds) -> str:
    """Format the id of a site, or both ids where they differ."""
    a, b = ids
    return f"{a} ({b} in B)" if a and b and a != b else a or b


def forward_order(architecture: Architecture) -> dict[str, float]:
    """Map stacks, layers ("<stack>/layer#k"), norms and adds to their place in the forward."""
    names: list[str | None] = []
    for add in architecture.residual_adds:
        inside = (*add.input_norms, *add.inner_norms, *add.output_norms)
        layer = layer_id(add.stack, add.layer)
        names += [add.stack, layer, add.skip_norm, *inside, add.id, add.stream_norm]
    places = {name: float(i) for i, name in enumerate(dict.fromkeys(names)) if name is not None}
    # Other norms (first, last, between stacks) precede the next norm that has a place.
    place = float(len(names))
    for norm in reversed(architecture.norms):
        place = places.setdefault(norm.id, place - 1e-6)
    return places
