"""The page of every rule is complete, and cites what is there."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from normdiag.rules.page import HEADINGS, format_rule_index, format_rule_page, rule_rows
from normdiag.rules.registry import RULES
from normdiag.rules.rule import Rule

ROOT = Path(__file__).parents[2]
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def section(rule: Rule, heading: str) -> str:
    return format_rule_page(rule).partition(f"\n## {heading}\n")[2].partition("\n## ")[0].strip()


@EACH
def test_headings_in_their_order(rule: Rule) -> None:
    assert tuple(re.findall(r"^## (.+)$", format_rule_page(rule), re.MULTILINE)) == HEADINGS


@EACH
def test_no_section_is_empty(rule: Rule) -> None:
    for heading in HEADINGS:
        assert len(section(rule, heading)) > 30, heading


@EACH
def test_the_head_says_which_rule_it_is(rule: Rule) -> None:
    title, blank, summary, *_ = format_rule_page(rule).splitlines()
    assert (title, blank) == (f"# {rule.code} {rule.name}", "")
    assert summary.endswith(".") and 20 < len(summary) <= 96


@EACH
def test_thresholds_come_from_the_data(rule: Rule) -> None:
    text = section(rule, "Thresholds")
    for threshold in rule.thresholds:
        row = next(line for line in text.splitlines() if line.startswith(f"| `{threshold.name}`"))
        assert f"| {threshold.default:g} |" in row
        assert threshold.source.replace("|", "\\|") in row
    assert ("no adjustable numbers" in text) == (not rule.thresholds)


@EACH
def test_the_setting_that_is_shown_can_be_set(rule: Rule) -> None:
    for block in re.findall(r"```toml\n(.+?)```", format_rule_page(rule), re.DOTALL):
        (values,) = tomllib.loads(block)["thresholds"].values()
        assert set(values) <= {threshold.name for threshold in rule.thresholds}


@EACH
def test_every_threshold_has_a_source(rule: Rule) -> None:
    for threshold in rule.thresholds:
        year = re.search(r"\b(19|20)\d\d\b", threshold.source)
        derived = re.search(r"2\^-?\d+|\bper add\b|sqrt|\bc < 1/2\b|1\.12 over", threshold.source)
        assert year or derived, threshold.name


@EACH
def test_references_have_a_year(rule: Rule) -> None:
    entries = re.split(r"^\* ", section(rule, "References"), flags=re.MULTILINE)[1:]
    assert entries
    for entry in entries:
        assert re.search(r"\b(19|20)\d\d\b", entry), entry


@EACH
@pytest.mark.parametrize("which", ["fires_on", "silent_on"])
def test_the_sample_model_exists(rule: Rule, which: str) -> None:
    path, _, factory = getattr(rule, which).partition(":")
    assert path.startswith("sample_models/")
    if not factory:
        assert (ROOT / path / "config.json").is_file()
        return
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert factory in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert rule.name in (ast.get_docstring(tree) or "") or which == "silent_on"


@EACH
def test_the_sample_model_and_its_twin_differ(rule: Rule) -> None:
    assert rule.fires_on != rule.silent_on
    assert rule.silent_on in section(rule, "Example")


@EACH
def test_no_unescaped_bar_breaks_a_table(rule: Rule) -> None:
    for line in format_rule_page(rule).splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 8


def test_rows_and_index_list_every_rule_with_its_page() -> None:
    assert [row[0] for row in rule_rows(RULES)] == [rule.code for rule in RULES]
    text = format_rule_index(RULES)
    for rule in RULES:
        assert f"| {rule.code} | [{rule.name}]({rule.name}.md) | {rule.summary} |" in text


def test_a_page_without_a_section_is_a_fault() -> None:
    class Bare(type(RULES[0])):
        """A rule whose page has no sections."""

    with pytest.raises(ValueError, match="no section 'Thresholds'"):
        format_rule_page(Bare())
