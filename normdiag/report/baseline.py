"""Compare findings with those of an earlier report: new, worse, known, gone.

Findings are matched by code and ids, or else by code and the largest overlap of ids; a finding is
worse where ids were added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from normdiag.findings import SEVERITIES, Finding
from normdiag.number_text import format_value
from normdiag.report.check import FindingState

MARGIN = 0.1
"""A value is worse where it exceeds the old one by more than this share."""


class StateReason(NamedTuple):
    """The state of a finding relative to the baseline, and the reason."""

    state: FindingState
    why: str


class FindingMatches(NamedTuple):
    """One state per current finding, in order, and the earlier findings without a match."""

    changes: tuple[StateReason, ...]
    gone: tuple[Finding, ...]


def match_findings(
    now: Iterable[Finding], before: Iterable[Finding], margin: float, *, name: str = "the baseline"
) -> FindingMatches:
    """Match the findings `now` one to one with those `before`.

    `name` denotes the earlier report in the reasons.
    """
    now, remaining = list(now), list(before)
    matches: dict[int, Finding] = {}
    # Exact matches first, so that a finding with more ids cannot claim them.
    for find in (_find_same, _find_most_similar):
        for place, finding in enumerate(now):
            old = None if place in matches else find(finding, remaining)
            if old is not None:
                remaining.remove(old)
                matches[place] = old
    changes = (
        _classify_finding(finding, matches.get(place), margin, name)
        for place, finding in enumerate(now)
    )
    return FindingMatches(tuple(changes), tuple(remaining))


def _find_same(finding: Finding, remaining: list[Finding]) -> Finding | None:
    key = finding.code, set(finding.ids)
    return next((old for old in remaining if (old.code, set(old.ids)) == key), None)


def _find_most_similar(finding: Finding, remaining: list[Finding]) -> Finding | None:
    """Find the finding of the same code with the largest overlap of ids; None without any."""
    ids = set(finding.ids)

    def id_overlap(old: Finding) -> float:
        return len(ids & set(old.ids)) / max(len(ids | set(old.ids)), 1)

    of_code = [old for old in remaining if old.code == finding.code]
    best = max(of_code, key=id_overlap, default=None)
    return best if best is not None and id_overlap(best) > 0 else None


def _classify_finding(now: Finding, old: Finding | None, margin: float, name: str) -> StateReason:
    if old is None:
        return StateReason("new", f"not in {name}")
    if SEVERITIES.index(now.severity) > SEVERITIES.index(old.severity):
        return StateReason("worse", f"its severity was {old.severity}")
    added = [id for id in now.ids if id not in old.ids]
    if added:
        more = f" and {len(added) - 1} more" if len(added) > 1 else ""
        return StateReason("worse", f"in {name}, but not at {added[0]}{more}")
    if now.value is None or old.value is None:
        return StateReason("known", f"in {name}")
    before = f"its value was {format_value(old.value)}"
    if _is_worse(now, old.value, margin):
        return StateReason(
            "worse", f"{before}; {format_value(now.value)} is worse by more than {margin:.0%}"
        )
    return StateReason("known", before)


def _is_worse(now: Finding, old: float, margin: float) -> bool:
    """Whether the value is worse by more than `margin`, in the direction away from the threshold.

    A value without a threshold counts as worse where it is larger.
    """
    assert now.value is not None
    if math.isnan(now.value) or math.isnan(old):
        return math.isnan(now.value) and not math.isnan(old)
    down = now.threshold is not None and now.value < now.threshold
    further = old - now.value if down else now.value - old
    if math.isinf(now.value) or math.isinf(old):
        return further > 0  # NaN where both are the same infinity
    return further > margin * abs(old)
