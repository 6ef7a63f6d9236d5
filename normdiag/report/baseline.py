"""Findings beside those of an earlier report: what is new, worse, known, gone.

Findings are matched by code and ids. One that covers other ids than before is matched with the
finding of its code that shares most of them; it is worse where ids have been added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from normdiag.findings import SEVERITIES, Finding
from normdiag.report.check import FindingState

MARGIN = 0.1
"""A value is worse where it is past the old one by more than this share of it."""


class StateReason(NamedTuple):
    """What became of a finding, and how that is seen."""

    state: FindingState
    why: str


class FindingMatches(NamedTuple):
    """A change for each finding of now, in order, and the findings that are no more."""

    changes: tuple[StateReason, ...]
    gone: tuple[Finding, ...]


def match_findings(
    now: Iterable[Finding], before: Iterable[Finding], margin: float, *, name: str = "the baseline"
) -> FindingMatches:
    """Match the findings `now` with those `before`, each of which is used once.

    `name` is what the reasons call the report of before.
    """
    now, left = list(now), list(before)
    matches: dict[int, Finding] = {}
    # Those with the same ids first, so that a wider finding does not take them.
    for like in (_find_same, _find_most_similar):
        for place, finding in enumerate(now):
            old = None if place in matches else like(finding, left)
            if old is not None:
                left.remove(old)
                matches[place] = old
    changes = (
        _classify_finding(finding, matches.get(place), margin, name)
        for place, finding in enumerate(now)
    )
    return FindingMatches(tuple(changes), tuple(left))


def _find_same(finding: Finding, left: list[Finding]) -> Finding | None:
    key = finding.code, set(finding.ids)
    return next((old for old in left if (old.code, set(old.ids)) == key), None)


def _find_most_similar(finding: Finding, left: list[Finding]) -> Finding | None:
    """The finding of the same code that shares most ids; none where it shares no id."""
    ids = set(finding.ids)

    def likeness(old: Finding) -> float:
        return len(ids & set(old.ids)) / max(len(ids | set(old.ids)), 1)

    of_code = [old for old in left if old.code == finding.code]
    best = max(of_code, key=likeness, default=None)
    return best if best is not None and likeness(best) > 0 else None


def _classify_finding(now: Finding, old: Finding | None, margin: float, name: str) -> StateReason:
    if old is None:
        return StateReason("new", f"{name} does not have it")
    if SEVERITIES.index(now.severity) > SEVERITIES.index(old.severity):
        return StateReason("worse", f"it was of severity {old.severity}")
    added = [id for id in now.ids if id not in old.ids]
    if added:
        more = f" and {len(added) - 1} more" if len(added) > 1 else ""
        return StateReason("worse", f"{name} has it, but not at {added[0]}{more}")
    if now.value is None or old.value is None:
        return StateReason("known", f"{name} has it")
    was = f"it was {old.value:.4g}"
    if _is_worse(now, old.value, margin):
        return StateReason(
            "worse", f"{was}; {now.value:.4g} is past that by more than {margin:.0%}"
        )
    return StateReason("known", was)


def _is_worse(now: Finding, old: float, margin: float) -> bool:
    """Is the value worse by more than `margin`? Bad is the side of the threshold that it is on.

    A value without a threshold is taken for a count or a size: more is worse.
    """
    assert now.value is not None
    if math.isnan(now.value) or math.isnan(old):
        return math.isnan(now.value) and not math.isnan(old)
    down = now.threshold is not None and now.value < now.threshold
    further = old - now.value if down else now.value - old
    if math.isinf(now.value) or math.isinf(old):
        return further > 0  # NaN where both are the same infinity
    return further > margin * abs(old)
