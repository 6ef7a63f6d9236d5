"""What a check came to: which findings fail it beside a baseline, and which bounds were broken."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record
from normdiag.findings import FailOn, Finding

FindingState = Literal["new", "worse", "known"]


@record
class FindingStatus:
    """One finding of the report, in the order of `findings`, beside the baseline."""

    code: str
    ids: tuple[str, ...]
    state: FindingState
    """"new" throughout where there is no baseline."""
    why: str
    """What the state was concluded from."""
    fails: bool
    """It is new or worse, and as severe as `fail_on`."""


@record
class BoundStatus:
    """A number of the report that had to stay within a bound."""

    path: str
    """As it was given, such as "measurements.growth.total"."""
    bound: Literal["max", "min"]
    limit: float
    value: float | None
    """The worst of the values that the path leads to; null where none was measured."""
    location: str | None
    """The path of that value, with the ids that it crosses in brackets."""
    unmeasured: int
    """How many values that the path leads to were not measured."""
    state: Literal["kept", "broken", "unknown"]
    why: str


@record
class IgnoredRule:
    """Rules that were left out, and why."""

    selector: str
    reason: str
    """"" where none was given."""


@record
class Baseline:
    """The report that the findings were compared with, judged by the rules of now."""

    path: str
    target: str
    margin: float
    """A value is worse where it is past the old one by more than this share of it."""
    gone: tuple[Finding, ...]
    """Findings of the baseline that are no more."""
    note: str | None = None
    """What makes the comparison doubtful."""


@record
class Check:
    """The outcome of `normdiag check` on one report."""

    exit_code: int
    """0 passed, 1 failed, 4 what had to be known is not."""
    fail_on: FailOn
    require_complete: bool
    finding_statuses: tuple[FindingStatus, ...]
    baseline: Baseline | None = None
    bounds: tuple[BoundStatus, ...] = ()
    ignored: tuple[IgnoredRule, ...] = ()
    missing_evidence: tuple[str, ...] = ()
    """What was not judged or not measured, and why."""
