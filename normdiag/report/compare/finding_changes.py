"""What became of the findings: new, worse, gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from normdiag.findings import Finding, SkippedRule
from normdiag.report import baseline
from normdiag.report.compare.comparison import FindingChange
from normdiag.report.report import Report


def find_changes(a: Report, b: Report, ids: Mapping[str, str]) -> Iterator[FindingChange]:
    """From `a` to `b`, of rules that could judge both. `ids`: of `a` -> of `b`."""
    skipped = {skip.code for skip in rules_skipped_once(a, b)}
    before = [_rename_sites(f, ids) for f in a.findings if f.code not in skipped]
    now = [f for f in b.findings if f.code not in skipped]
    matched = baseline.match_findings(now, before, baseline.MARGIN, name="A")
    for finding, change in zip(now, matched.changes, strict=True):
        if change.state != "known":
            yield FindingChange(state=change.state, finding=finding, why=change.why)
    for finding in matched.gone:
        yield FindingChange(state="gone", finding=finding, why="B does not have it")


def rules_skipped_once(a: Report, b: Report) -> tuple[SkippedRule, ...]:
    """Rules that were skipped for one of the two alone."""
    mine = {skip.code: skip for skip in a.rules.skipped}
    theirs = {skip.code: skip for skip in b.rules.skipped}
    lone = mine.keys() ^ theirs.keys()
    return tuple(skip for code, skip in sorted((mine | theirs).items()) if code in lone)


def _rename_sites(finding: Finding, ids: Mapping[str, str]) -> Finding:
    return replace(finding, ids=tuple(ids.get(id, id) for id in finding.ids))
