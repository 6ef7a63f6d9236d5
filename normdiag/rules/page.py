"""The Markdown page of a rule, for `normdiag rules CODE` and `docs/rules/`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from normdiag.rules.explanations import EXPLANATIONS
from normdiag.rules.rule import Rule
from normdiag.rules.survey import SURVEY_LEGEND, describe_survey
from normdiag.rules.thresholds import Threshold

HEADINGS = (
    "What it does",
    "Why it matters",
    "How it is measured",
    "Thresholds",
    "Example",
    "How to fix",
    "When it is wrong",
    "References",
)
"""The sections of every page, in this order."""

RuleRow = tuple[str, str, str]
"""Code, name, summary."""


def rule_rows(rules: Iterable[Rule]) -> tuple[RuleRow, ...]:
    """List code, name and summary per rule."""
    return tuple((rule.code, rule.name, rule.summary) for rule in rules)


def format_rule_page(rule: Rule) -> str:
    """Format the page of `rule`: its docstring, thresholds and sample models."""
    body = rule.page_text.removeprefix(rule.summary).strip()
    body = _append_to_section(body, "Thresholds", _format_settings(rule))
    body = _append_to_section(body, "Example", _format_example(rule))
    explanations = _format_explanations(rule)
    if explanations:
        body = _append_to_section(body, "When it is wrong", explanations)
    head = f"# {rule.code} {rule.name}\n\n{rule.summary}\n\n{_format_facts(rule)}"
    return f"{head}\n\n{body}\n"


def _format_explanations(rule: Rule) -> str:
    """Format which findings explain this one, and which ones it explains."""
    causes = [
        f"* It follows from {each.cause} where {each.why}; it is then info and names it."
        for each in EXPLANATIONS
        if each.consequence == rule.code
    ]
    consequences = [
        f"* It explains {each.consequence} where {each.why}."
        for each in EXPLANATIONS
        if each.cause == rule.code
    ]
    return "\n".join([*causes, *consequences])


def format_rule_index(rules: Iterable[Rule]) -> str:
    """Format the table of all rules, with links to their pages."""
    lines = [
        "# Rules",
        "",
        "`normdiag rules CODE` prints the page of a rule. `--select` and `--ignore` take codes,",
        "names and prefixes of codes (`ND3`). Codes and names are permanent.",
        "",
        "| code | name | defect |",
        "|---|---|---|",
        *(
            f"| {code} | [{name}]({name}.md) | {_escape_cell(text)} |"
            for code, name, text in rule_rows(rules)
        ),
    ]
    return "\n".join(lines) + "\n"


def _append_to_section(body: str, heading: str, block: str) -> str:
    """Append `block` to the section `heading` of `body`."""
    mark = f"## {heading}\n"
    before, separator, after = body.partition(mark)
    if not separator:
        raise ValueError(f"the page has no section {heading!r}")
    text, rest_mark, rest = after.partition("\n## ")
    section = f"{text.strip()}\n\n{block}" if text.strip() else block
    return f"{before}{mark}\n{section}\n{rest_mark}{rest}"


def _format_facts(rule: Rule) -> str:
    needs = ", ".join(f"`{need}`" for need in rule.requirements)
    return f"Family {rule.family}, since {rule.since}. Evidence: {needs}."


def _format_settings(rule: Rule) -> str:
    if not rule.thresholds:
        return "None: the rule has no adjustable numbers."
    lines = [
        "| name | default | unit | range | in trained models | meaning | source |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_format_setting_row(rule.code, threshold) for threshold in rule.thresholds]
    first = rule.thresholds[0]
    lines += [
        "",
        SURVEY_LEGEND,
        "",
        "To change a threshold, in `normdiag.toml` or `[tool.normdiag]` of `pyproject.toml`:",
        "",
        "```toml",
        f"[thresholds.{rule.name}]",
        f"{first.name} = {first.default:g}",
        "```",
    ]
    return "\n".join(lines)


def _format_setting_row(code: str, threshold: Threshold) -> str:
    high = "" if math.isinf(threshold.high) else f"{threshold.high:g}"
    span = f"{threshold.low:g} to {high}" if high else f"at least {threshold.low:g}"
    cells = (
        f"`{threshold.name}`",
        f"{threshold.default:g}",
        threshold.unit,
        span,
        describe_survey(code, threshold.name) or "not surveyed",
        threshold.meaning,
        threshold.source,
    )
    return "| " + " | ".join(_escape_cell(cell) for cell in cells) + " |"


def _format_example(rule: Rule) -> str:
    script, _, factory = rule.fires_on.partition(":")
    target, first = rule.fires_on, []
    if factory == "write":  # a checkpoint that is written first, not a factory
        target, first = "broken", [f"$ python {script} broken"]
    options = f"--select {rule.code}"
    if "measurements.defaults" in rule.requirements:  # not measured unless requested
        options += " --measure defaults"
    lines = (
        "```console",
        *first,
        f"$ normdiag inspect {target} {options}    # reports it",
        f"$ normdiag inspect {rule.silent_on} {options}    # does not report it",
        "```",
    )
    return "\n".join(lines)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")
