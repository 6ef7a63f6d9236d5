"""The outcome of a check: findings relative to a baseline, and bounds."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record
from normdiag.findings import FailOn, Finding

FindingState = Literal["new", "worse", "known"]


@record
class FindingStatus:
    """The state of one finding relative to the baseline, in the order of `findings`."""

    code: str
    ids: tuple[str, ...]
    state: FindingState
    """"new" throughout where there is no baseline."""
    why: str
    """The reason for the state."""
    fails: bool
    """Whether it is new or worse and at least as severe as `fail_on`."""


@record
class BoundStatus:
    """The outcome of one bound on numbers of the report."""

    path: str
    """As given by the user, such as "measurements.growth.total"."""
    bound: Literal["max", "min"]
    limit: float
    value: float | None
    """The worst value at the path; null where none was measured."""
    location: str | None
    """The path of that value with ids in brackets."""
    unmeasured: int
    """Number of values at the path that were not measured."""
    state: Literal["kept", "broken", "unknown"]
    why: str


@record
class IgnoredRule:
    """A rule selector that was ignored, and why."""

    selector: str
    reason: str
    """Empty where none was given."""


@record
class Baseline:
    """The report that findings were compared with, judged by the current rules."""

    path: str
    target: str
    margin: float
    """A value is worse where it exceeds the old one by more than this share."""
    gone: tuple[Finding, ...]
    """Findings of the baseline without a current match."""
    note: str | None = None
    """Why the two reports may not be comparable."""


@record
class Check:
    """The outcome of `normdiag check` on one report."""

    exit_code: int
    """0 passed, 1 failed, 4 incomplete evidence."""
    fail_on: FailOn
    require_complete: bool
    finding_statuses: tuple[FindingStatus, ...]
    baseline: Baseline | None = None
    bounds: tuple[BoundStatus, ...] = ()
    ignored: tuple[IgnoredRule, ...] = ()
    missing_evidence: tuple[str, ...] = ()
    """Rules and measurements that were skipped, and why."""
