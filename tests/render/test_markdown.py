"""Markdown says what the report says, and no text from outside is markup in it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from normdiag.render.escape import escape_text
from normdiag.render.markdown.escape import escape_line, escape_words, format_code
from normdiag.report.gate import Gate, check_report
from normdiag.report.series import Series, SeriesEntry
from tests import evil
from tests.hostile import broken
from tests.reports import bert, encoder_decoder, llama, weights_only
from tests.traces import make_trace
from tests.written import render_text, written_series

# Raw HTML is read, as GitHub reads it; links are found where a reader might find some.
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
MARKUP = {
    "link_open",
    "image",
    "html_inline",
    "em_open",
    "s_open",
    "hardbreak",
    "fence",
    "code_block",
    "hr",
    "ordered_list_open",
    "blockquote_open",
}
OURS = re.compile(r"<details><summary>([^<]|<code>[^<]*</code>)*</summary>|</details>")
REPORTS = (llama, bert, encoder_decoder, weights_only, broken)


def tokens(text):
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


def require_harmless(text):
    for token in tokens(text):
        assert token.type not in MARKUP, (token.type, token.content)
        if token.type == "html_block":
            assert OURS.fullmatch(token.content.strip())
        if token.type == "text":
            assert not re.search(r"@\w|\w/|www\.|://|#\d", token.content), token.content


def count_cells(text):
    """How many cells each row of each table has."""
    counts, row = [], 0
    for token in tokens(text):
        if token.type == "tr_open":
            row = 0
        elif token.type in ("td_open", "th_open"):
            row += 1
        elif token.type == "tr_close":
            counts.append(row)
    return counts


@pytest.mark.parametrize("make", REPORTS)
def test_every_finding_is_there_with_what_to_do(make):
    report = make()
    shown = render_text(report, format="markdown")
    assert report.subject.target.split("/")[0] in shown
    findings = len(report.findings) + bool(report.findings)
    assert count_cells(shown)[:findings] == [6] * findings
    for finding in report.findings:
        assert f"**{finding.severity}: {finding.code} {finding.name}**" in shown
    require_harmless(shown)


@pytest.mark.parametrize("text", evil.TEXTS)
def test_no_text_breaks_it(text):
    shown = render_text(evil.report(text), format="markdown")
    require_harmless(shown)
    assert count_cells(shown)[:4] == [6] * 4
    require_harmless(render_text(evil.report(text), "trace", "markdown"))
    require_harmless(render_text(make_trace(evil.report(text)), "trace", "markdown"))
    many = written_series(evil.series(text), "markdown")
    require_harmless(many)
    assert count_cells(many) == [7] * 4 + [6] * 8


@given(st.text(st.characters(codec=None), max_size=30))
@settings(max_examples=50, deadline=None)
def test_any_text_is_harmless(text):
    require_harmless(f"* {escape_line(text)}")
    require_harmless(f"**said: {escape_line(text)}**")


@given(st.text(st.characters(codec=None), max_size=30))
def test_a_code_span_holds_the_text(text):
    (span,) = [token for token in tokens(f"x {format_code(text)} y") if token.type == "code_inline"]
    assert span.content.strip() == escape_text(text).replace("|", "\\|").strip()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("epsilon is 99% of it, ×3.5 (0.2)", "epsilon is 99% of it, ×3.5 (0.2)"),
        ("at model.layers.3/add#0, and", "at `model.layers.3/add#0`, and"),
        ("(q_norm).", "(`q_norm`)."),
        ("by 1/sqrt(2L); (f/(x))", "by `1/sqrt(2L)`; (`f/(x)`)"),
        ("in [0.1, 2]", r"in \[0.1, 2\]"),
        ("<b>", "`<b>`"),
        ("@all", "`@all`"),
        ("a`b", "``a`b``"),
    ],
)
def test_what_is_not_plain_is_code(text, shown):
    assert escape_words(text) == shown


def test_a_command_can_be_copied():
    command = "normdiag trace ckpt --site 'model.layers.3/add#1'"
    (finding,) = llama().findings
    advised = replace(llama(), findings=(replace(finding, advice=f"look; see: {command}"),))
    assert f"* do: look; see: `{command}`\n" in render_text(advised, format="markdown")


def test_the_verdict_comes_first_and_the_state_beside_each_finding():
    shown = render_text(check_report(llama(), Gate(fail_on="warning")), format="markdown")
    assert shown.splitlines()[2] == "**failed: 1 warning (ND304)**"
    assert "| **fails** |" in shown
    shown = render_text(check_report(llama(), Gate(), broken(), "old.json"), format="markdown")
    assert "| new: not in the baseline |" in shown
    assert "): 1 new, 0 worse, 0 known, 2 gone" in shown
    assert "* gone: ND203 non-finite-parameter" in shown


def test_several_targets_are_one_table():
    entries = (
        SeriesEntry(target="ckpt-2", report=bert()),
        SeriesEntry(target="ckpt-10", report=llama()),
    )
    shown = written_series(Series(exit_code=0, reports=entries), "markdown")
    assert "| `ckpt-2` | 1.030 | " in shown
    assert "| +ND304 |" in shown


def test_every_section_is_there_to_unfold():
    shown = render_text(llama(), format="markdown")
    folded = re.findall(r"<details><summary>([^:<]+)", shown)
    assert folded == [
        "Target",
        "Stacks",
        "Stream of model.layers",
        "Norms",
        "Jacobians of model.layers",
        "Invariances",
        "RMSNorm or LayerNorm",
        "Findings",
        "Coverage",
    ]
    heat = render_text(make_trace(llama(4)), "trace", "markdown")
    assert "**Stream norm after each layer of model.layers**" in heat
    assert "| `   0 <s>` | `" in heat
