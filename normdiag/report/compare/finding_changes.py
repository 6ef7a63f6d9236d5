"""Findings that are new, worse or gone in the second report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from normdiag.findings import Finding, SkippedRule
from normdiag.report import baseline
from normdiag.report.compare.comparison import FindingChange
from normdiag.report.report import Report


def find_changes(a: Report, b: Report, ids: Mapping[str, str]) -> Iterator[FindingChange]:
    """Yield changes of findings from `a` to `b`, for rules that ran on both. `ids` maps ids of `a`
    to ids of `b`."""
    skipped = {skip.code for skip in rules_skipped_once(a, b)}
    before = [_rename_sites(f, ids) for f in a.findings if f.code not in skipped]
    now = [f for f in b.findings if f.code not in skipped]
    matches = baseline.match_findings(now, before, baseline.MARGIN, name="A")
    for finding, change in zip(now, matches.changes, strict=True):
        if change.state != "known":
            yield FindingChange(state=change.state, finding=finding, why=change.why)
    for finding in matches.gone:
        yield FindingChange(state="gone", finding=finding, why="not in B")


def rules_skipped_once(a: Report, b: Report) -> tuple[SkippedRule, ...]:
    """Return the rules that were skipped for exactly one of the two."""
    mine = {skip.code: skip for skip in a.rules.skipped}
    theirs = {skip.code: skip for skip in b.rules.skipped}
    skipped_once = mine.keys() ^ theirs.keys()
    return tuple(skip for code, skip in sorted((mine | theirs).items()) if code in skipped_once)


def _rename_sites(finding: Finding, ids: Mapping[str, str]) -> Finding:
    return replace(finding, ids=tuple(ids.get(id, id) for id in finding.ids))
