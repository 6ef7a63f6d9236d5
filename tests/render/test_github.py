"""Annotations: one line each, which GitHub's runner reads back as they were meant."""

from __future__ import annotations

import re

import pytest

from normdiag.report.gate import Gate, check_report
from tests import evil
from tests.hostile import broken
from tests.reports import bert, encoder_decoder, llama, weights_only
from tests.written import render_text, written_series

LINE = re.compile(r"::(error|warning|notice) title=([^:,]*)::(.*)")


def read(text):
    """What the runner makes of the lines: command, title, message."""
    found = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        command, title, message = match.groups()
        title = title.replace("%3A", ":").replace("%2C", ",")
        plain = [
            part.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
            for part in (title, message)
        ]
        found.append((command, *plain))
    return found


@pytest.mark.parametrize("make", [llama, bert, encoder_decoder, weights_only, broken])
def test_there_is_one_line_per_finding(make):
    report = make()
    lines = read(render_text(report, format="github"))
    assert sorted(title for _, title, _ in lines) == sorted(
        f"{finding.code} {finding.name}" for finding in report.findings
    )


@pytest.mark.parametrize("text", evil.TEXTS)
def test_no_text_breaks_it(text):
    lines = read(render_text(evil.report(text), format="github"))
    assert [command for command, _, _ in lines] == ["error", "notice", "notice", *["error"] * 4]
    assert all(
        char.isprintable() or char == "\n"
        for _, title, message in lines
        for char in title + message
    )
    assert len(read(written_series(evil.series(text), "github"))) == 2 * len(lines) + 1


def test_a_line_says_what_where_and_what_to_do():
    ((command, title, message),) = read(render_text(llama(), format="github"))
    assert (command, title) == ("warning", "ND304 massive-activation")
    said, do = message.split("\n")
    assert "one value is 812.5" in said
    assert said.endswith("; at model.layers.4/add#1")
    assert do == f"do: {llama().findings[0].advice}"


def test_what_fails_comes_first_and_the_verdict_last():
    lines = read(render_text(check_report(broken(), Gate(fail_on="info")), format="github"))
    assert [command for command, _, _ in lines] == ["error", "notice", "error"]
    assert lines[-1][2] == "failed: 1 error (ND203); 1 info (ND301)"
    known = read(render_text(check_report(broken(), Gate(), broken(), "a.json"), format="github"))
    assert [command for command, _, _ in known] == ["notice"] * 3
