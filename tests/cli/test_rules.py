"""`normdiag rules` and `normdiag schema`."""

import json

import pytest
from rich.cells import cell_len

from normdiag.report import schema
from normdiag.rules.registry import RULES


def test_every_rule_is_listed_in_80_columns(run):
    result = run("rules")
    assert result.exit_code == 0
    listed = [line.split()[:2] for line in result.stdout.splitlines() if " ND" in line]
    assert listed == [[rule.code, rule.name] for rule in RULES]
    assert max(map(cell_len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", ["ND301", "nd301", "epsilon-dominates"])
def test_one_rule_is_its_page(run, name):
    shown = run("rules", name).stdout
    assert shown.startswith("# ND301 epsilon-dominates\n")
    assert "## How to fix" in shown


def test_a_family_is_its_list(run):
    shown = run("rules", "ND3").stdout
    assert "ND301" in shown
    assert "ND401" not in shown


def test_an_unknown_rule_is_refused_with_its_neighbours(run):
    result = run("rules", "epsilon-dominate")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "epsilon-dominates" in result.stderr


def test_the_schema_is_the_committed_one(run):
    committed = {
        "report": schema.REPORT_SCHEMA,
        "series": schema.SERIES_SCHEMA,
        "comparison": schema.COMPARISON_SCHEMA,
    }
    for document, path in committed.items():
        assert run("schema", document).stdout == path.read_text(encoding="utf-8")
    result = run("schema")
    assert result.exit_code == 0
    assert result.stdout == schema.REPORT_SCHEMA.read_text(encoding="utf-8")
    assert json.loads(result.stdout)["title"].startswith("normdiag report")
