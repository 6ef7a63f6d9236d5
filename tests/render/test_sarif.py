"""SARIF keeps to the published schema, whatever the names; fingerprints outlive numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from normdiag.render import sarif
from normdiag.render.interface import Options, RulePage
from normdiag.report.gate import Gate, check_report
from normdiag.rules import page, registry
from tests import evil
from tests.hostile import broken
from tests.reports import bert, encoder_decoder, llama, weights_only
from tests.written import render_text, written_series

SCHEMA = json.loads(
    (Path(__file__).parents[1] / "schemas/sarif-2.1.0.json").read_text(encoding="utf-8")
)
VALIDATOR = Draft4Validator(SCHEMA)
PAGES = {
    rule.code: RulePage(name=rule.name, summary=rule.summary, page=page.format_rule_page(rule))
    for rule in registry.RULES
}


def log(report, **given):
    return json.loads(render_text(report, format="sarif", **given))


@pytest.mark.parametrize("make", [llama, bert, encoder_decoder, weights_only, broken])
@pytest.mark.parametrize("options", [Options(), Options(pages=PAGES)])
def test_it_keeps_to_the_schema(make, options):
    for report in (
        make(),
        check_report(make(), Gate()),
        check_report(make(), Gate(), make(), "a.json"),
    ):
        VALIDATOR.validate(log(report, options=options))


@pytest.mark.parametrize("spoil", ["level", "ruleId", "message"])
def test_the_schema_notices_what_is_wrong(spoil):
    made = log(llama())
    made["runs"][0]["results"][0][spoil] = 3
    assert not VALIDATOR.is_valid(made)


@pytest.mark.parametrize("text", evil.TEXTS)
def test_no_text_breaks_it(text):
    shown = render_text(evil.report(text), format="sarif")
    assert shown.isascii() and "\x1b" not in shown
    made = json.loads(shown)
    VALIDATOR.validate(made)
    VALIDATOR.validate(json.loads(written_series(evil.series(text), "sarif")))
    assert [result["level"] for result in made["runs"][0]["results"]] == [
        "error",
        "warning",
        "note",
    ]


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_target_is_a_uri_and_any_name_is_visible(text):
    assert all(
        char.isascii() and char.isprintable() and char != " " for char in sarif.format_uri(text)
    )
    (message,) = sarif._build_message(text).values()
    assert message.isprintable()


def test_a_result_says_what_where_and_how_bad():
    (result,) = log(llama(), options=Options(pages=PAGES))["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("ND304", "warning")
    assert result["message"]["text"].startswith("one value is 812.5, 9950 times")
    (location,) = result["locations"]
    assert [each["fullyQualifiedName"] for each in location["logicalLocations"]] == [
        "model.layers.4/add#1"
    ]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == llama().subject.target
    assert result["properties"] == {"confidence": "high", "value": 9950.0, "threshold": 1000.0}


def test_rules_carry_their_pages():
    run = log(llama(), options=Options(pages=PAGES))["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    index = run["results"][0]["ruleIndex"]
    assert rules[index]["id"] == "ND304"
    assert rules[index]["help"]["markdown"].startswith("# ND304 massive-activation")
    assert {rule["id"] for rule in rules} == {"ND304", *llama().rules.passed}


@pytest.mark.parametrize(
    ("target", "uri"),
    [
        ("./ckpt-2/", "ckpt-2"),
        ("/data/a b", "file:///data/a%20b"),
        ("models/tiny.py:build", "models/tiny.py"),
        ("org/name", "org/name"),
        ("a:b?c#d", "a%3Ab%3Fc%23d"),
    ],
)
def test_a_target_becomes_a_uri(target, uri):
    assert sarif.format_uri(target) == uri


def test_a_fingerprint_is_made_of_code_and_ids_alone():
    (finding,) = llama().findings
    mark = sarif.compute_fingerprint(finding)
    other = replace(finding, value=1.0, message="x", severity="error", threshold=None)
    assert sarif.compute_fingerprint(other) == mark
    two = replace(finding, ids=("a", "b"))
    assert sarif.compute_fingerprint(two) == sarif.compute_fingerprint(replace(two, ids=("b", "a")))
    assert (
        len(
            {
                mark,
                sarif.compute_fingerprint(two),
                sarif.compute_fingerprint(replace(finding, code="X")),
            }
        )
        == 3
    )


def test_findings_stand_beside_the_baseline():
    for before, state in ((broken(), "new"), (llama(), "unchanged")):
        report = check_report(llama(), Gate(fail_on="warning"), before, "before.json")
        states = [each["baselineState"] for each in log(report)["runs"][0]["results"]]
        assert states == [state]  # what is gone is no result
    assert "baselineState" not in log(llama())["runs"][0]["results"][0]


def test_what_reads_as_a_link_or_an_argument_is_text():
    (message,) = sarif._build_message("[a](1) and {0} and [1, 2]").values()
    assert message == r"\[a](1) and {{0}} and [1, 2]"


def test_one_run_per_target_with_a_name_of_its_own():
    runs = json.loads(written_series(evil.series("a"), "sarif"))["runs"]
    assert [run["invocations"][0]["executionSuccessful"] for run in runs] == [True, False, True]
    assert runs[1]["invocations"][0]["exitCode"] == 3
    assert runs[0]["automationDetails"]["id"] == "normdiag/a/"
