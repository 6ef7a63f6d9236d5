"""Apply the selected rules to evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Judgement, SkippedRule
from normdiag.rules.explanations import fold_consequences
from normdiag.rules.nearest_limits import find_nearest_limits
from normdiag.rules.registry import RULES, find_rule, select_rules
from normdiag.rules.requirements import missing_reason
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import resolve_thresholds


def judge_evidence(
    evidence: Evidence,
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    thresholds: Mapping[str, Mapping[str, float]] | None = None,
) -> Judgement:
    """Apply the selected rules to `evidence`; findings are sorted by severity, highest first, after
    consequences of other findings are folded (`explanations.py`).

    `select` and `ignore` name rules by code, name or prefix of a code; `thresholds` maps a code or
    name to threshold -> value. A rule whose evidence is missing is skipped with a reason. A rule
    that raises is a fault of normdiag, and the exception propagates. Raises UsageError: an unknown
    rule or threshold, an invalid threshold.
    """
    settings = _gather_settings(thresholds or {})
    limits = {  # of unselected rules too: their settings are validated
        rule.code: resolve_thresholds(rule.name, rule.thresholds, settings.get(rule.code, {}))
        for rule in RULES
    }
    findings: list[Finding] = []
    skipped: list[SkippedRule] = []
    passed: list[Rule] = []
    for rule in select_rules(select, ignore):
        why = _missing_evidence(rule, evidence)
        if why:
            skipped.append(SkippedRule(code=rule.code, name=rule.name, why=why))
            continue
        rule_findings = list(rule.check(evidence, limits[rule.code]))
        findings.extend(rule_findings)
        if not rule_findings:
            passed.append(rule)
    folded = fold_consequences(findings, evidence)
    return Judgement(
        findings=tuple(folded),
        skipped=tuple(skipped),
        passed=tuple(rule.code for rule in passed),
        nearest=find_nearest_limits(passed, evidence, limits),
        thresholds={
            code: {name: float(value) for name, value in values.items()}
            for code, values in settings.items()
        },
    )


def _missing_evidence(rule: Rule, evidence: Evidence) -> str | None:
    reasons = (missing_reason(evidence, requirement) for requirement in rule.requirements)
    return next((why for why in reasons if why), None)


def _gather_settings(
    thresholds: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """The settings by rule code, whether they name rules by code or by name."""
    settings: dict[str, dict[str, float]] = {}
    for selector, values in thresholds.items():
        settings.setdefault(find_rule(selector).code, {}).update(values)
    return settings
