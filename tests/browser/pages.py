"""The pages that the browser opens: reports, comparisons and several targets of every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from normdiag.charts.registry import CHART_OF_RULE
from normdiag.evidence.measurements import Measurements
from normdiag.findings import Finding
from normdiag.report.compare.compare import compare_reports
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.series import Series, SeriesEntry
from normdiag.rules.registry import find_rule
from tests import hostile, reports
from tests.charts.reports import complete
from tests.render.test_comparison import comparison, written
from tests.render.test_html import EVIL, evil_report
from tests.written import render_text, written_series

REPORT = complete(6, tokens=8)
COMPARED = comparison()
PLACEMENT = ("ND104", "ND109", "ND110")
"""Rules on placement, whose findings the drawing of the architecture shows."""


def judge_everything() -> Report:
    """A finding of every rule whose quantity is drawn."""
    site = "model.layers.2/add#0"
    findings = [
        Finding(
            code=code,
            name=find_rule(code).name,
            severity="warning",
            confidence="high",
            ids=(site,),
            message=f"a finding of {code}",
            value=1.0,
            threshold=0.5,
            advice="none",
        )
        for code in (*CHART_OF_RULE, *PLACEMENT)
    ]
    return replace(REPORT, findings=tuple(findings))


def drop_stacks() -> Report:
    """Norms and no residual add."""
    base = complete(2)
    norms = tuple(replace(norm, stack=None, layer=None) for norm in base.architecture.norms)
    return replace(
        base,
        architecture=replace(base.architecture, stacks=(), residual_adds=(), norms=norms),
        measurements=Measurements(norms=base.measurements.norms),
        findings=(),
    )


def compare_evil() -> Comparison:
    """Hostile names on both sides, with different values."""
    evil = evil_report()
    stream = {
        id: replace(at, out_norm=replace(at.out_norm, mean=2 * at.out_norm.mean))
        for id, at in evil.measurements.stream.items()
    }
    other = replace(
        evil,
        subject=replace(evil.subject, target=f"{EVIL} again"),
        measurements=replace(evil.measurements, stream=stream),
        findings=(),
    )
    return compare_reports(evil, other)


def list_targets() -> Series:
    """Several targets, one of them hostile."""
    entries = ((EVIL, evil_report()), ("second", reports.bert()))
    return Series(
        reports=tuple(SeriesEntry(target=name, report=report) for name, report in entries),
        exit_code=0,
    )


PAGES: Mapping[str, Callable[[], str]] = {
    "complete": lambda: render_text(REPORT, format="html"),
    "judged": lambda: render_text(judge_everything(), format="html"),
    "evil": lambda: render_text(evil_report(), format="html"),
    "broken": lambda: render_text(hostile.broken(), format="html"),
    "one-layer": lambda: render_text(complete(1), format="html"),
    "two-stacks": lambda: render_text(reports.encoder_decoder(), format="html"),
    "no-stack": lambda: render_text(drop_stacks(), format="html"),
    "weights-only": lambda: render_text(reports.weights_only(), format="html"),
    "comparison": lambda: written(COMPARED, "html"),
    "evil-comparison": lambda: written(compare_evil(), "html"),
    "broken-comparison": lambda: written(
        compare_reports(hostile.broken(), hostile.broken()), "html"
    ),
    "several": lambda: written_series(list_targets(), "html"),
}
"""Name -> the page."""
WITHOUT_FIGURES = ("weights-only", "several")
