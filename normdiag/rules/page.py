"""The page of a rule, as Markdown: what `normdiag rules CODE` prints and `docs/rules/` shows."""

from __future__ import annotations

import math
from collections.abc import Iterable

from normdiag.rules.rule import Rule
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
    """One row per rule."""
    return tuple((rule.code, rule.name, rule.summary) for rule in rules)


def format_rule_page(rule: Rule) -> str:
    """The page of `rule`: its docstring, the thresholds and the sample models from its data."""
    body = rule.page_text.removeprefix(rule.summary).strip()
    body = _append_to_section(body, "Thresholds", _format_settings(rule))
    body = _append_to_section(body, "Example", _format_example(rule))
    head = f"# {rule.code} {rule.name}\n\n{rule.summary}\n\n{_format_facts(rule)}"
    return f"{head}\n\n{body}\n"


def format_rule_index(rules: Iterable[Rule]) -> str:
    """The table of all rules, with links to their pages."""
    lines = [
        "# Rules",
        "",
        "Every rule is one file with its page, its thresholds and its check. Codes and names are",
        "permanent. `normdiag rules CODE` prints a page; `--select` and `--ignore` take codes,",
        "names and prefixes of codes (`ND3`).",
        "",
        "| code | name | what it finds |",
        "|---|---|---|",
        *(
            f"| {code} | [{name}]({name}.md) | {_escape_cell(text)} |"
            for code, name, text in rule_rows(rules)
        ),
    ]
    return "\n".join(lines) + "\n"


def _append_to_section(body: str, heading: str, block: str) -> str:
    """`body` with `block` at the end of the section `heading`."""
    mark = f"## {heading}\n"
    before, found, after = body.partition(mark)
    if not found:
        raise ValueError(f"the page has no section {heading!r}")
    text, rest_mark, rest = after.partition("\n## ")
    section = f"{text.strip()}\n\n{block}" if text.strip() else block
    return f"{before}{mark}\n{section}\n{rest_mark}{rest}"


def _format_facts(rule: Rule) -> str:
    needs = ", ".join(f"`{need}`" for need in rule.requirements)
    return f"Family {rule.family}, since {rule.since}. Evidence: {needs}."


def _format_settings(rule: Rule) -> str:
    if not rule.thresholds:
        return "It has none: the defect is there or it is not."
    lines = ["| name | default | unit | range | meaning | source |", "|---|---|---|---|---|---|"]
    lines += [_format_setting_row(threshold) for threshold in rule.thresholds]
    first = rule.thresholds[0]
    lines += [
        "",
        "To change one, in `normdiag.toml` or under `[tool.normdiag]` of `pyproject.toml`:",
        "",
        "```toml",
        f"[thresholds.{rule.name}]",
        f"{first.name} = {first.default:g}",
        "```",
    ]
    return "\n".join(lines)


def _format_setting_row(threshold: Threshold) -> str:
    high = "" if math.isinf(threshold.high) else f"{threshold.high:g}"
    span = f"{threshold.low:g} to {high}" if high else f"at least {threshold.low:g}"
    cells = (
        f"`{threshold.name}`",
        f"{threshold.default:g}",
        threshold.unit,
        span,
        threshold.meaning,
        threshold.source,
    )
    return "| " + " | ".join(_escape_cell(cell) for cell in cells) + " |"


def _format_example(rule: Rule) -> str:
    script, _, factory = rule.fires_on.partition(":")
    target, first = rule.fires_on, []
    if factory == "write":  # a checkpoint that is written first, not a factory
        target, first = "broken", [f"$ python {script} broken"]
    lines = (
        "```console",
        *first,
        f"$ normdiag inspect {target} --select {rule.code}    # finds it",
        f"$ normdiag inspect {rule.silent_on} --select {rule.code}    # does not",
        "```",
    )
    return "\n".join(lines)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")
