"""Checks and several targets as people read them: whole outputs, and what no text may break."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from normdiag.render.interface import Options
from normdiag.render.series_table import NUMBERS, iterate_series_rows
from normdiag.report.bounds import Bound
from normdiag.report.check import IgnoredRule
from normdiag.report.gate import Gate, check_report
from normdiag.report.paths import parse_path
from normdiag.report.series import Series, SeriesEntry, TargetFailure
from tests import evil
from tests.hostile import broken
from tests.reports import bert, llama
from tests.written import render_text, written_series

GATE = Gate(
    fail_on="warning",
    bounds=(
        Bound(parse_path("measurements.growth.total"), "max", 50.0),
        Bound(parse_path("measurements.norms.jacobian.kappa.max"), "max", 10.0),
        Bound(parse_path("measurements.gradients.global_norm"), "max", 1.0),
    ),
    ignored=(IgnoredRule(selector="ND305", reason="on purpose: see the model card"),),
)


def make_series():
    """A run in which a fault comes, and a checkpoint that is lost."""
    lost = TargetFailure(what="ckpt-30 is empty", hint="a checkpoint has weights", exit_code=3)
    first = replace(llama(2), findings=())
    return Series(
        exit_code=3,
        reports=(
            SeriesEntry(target="ckpt-9/", report=check_report(first, GATE, first, "ckpt-9.json")),
            SeriesEntry(target="ckpt-10/", report=check_report(llama(4), Gate())),
            SeriesEntry(target="ckpt-30/", failure=lost),
            SeriesEntry(target="ckpt-200/", report=check_report(broken(), Gate(fail_on="info"))),
        ),
    )


def verdict(report):
    """The last section of the tables; the rest is that of `inspect`."""
    return "".join(render_text(report).partition("Verdict  ")[1:])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("check.txt", lambda: verdict(check_report(llama(4), GATE))),
        ("check-baseline.txt", lambda: verdict(check_report(llama(2), GATE, broken(), "a.json"))),
        (
            "check.md",
            lambda: render_text(
                check_report(llama(4), GATE, broken(), "a.json"), format="markdown"
            ),
        ),
        ("several.txt", lambda: written_series(make_series())),
        ("several-all.txt", lambda: written_series(make_series(), options=Options(all_rows=True))),
        ("several.csv", lambda: written_series(make_series(), "csv")),
        ("several.md", lambda: written_series(make_series(), "markdown")),
    ],
)
def test_it_reads_as_reviewed(golden, name, text):
    golden(name, text())


@pytest.mark.parametrize("text", evil.TEXTS)
@pytest.mark.parametrize("form", ["text", "csv"])
def test_no_text_breaks_it(text, form):
    shown = written_series(evil.series(text), form)
    assert all(char.isprintable() or char == "\n" for char in shown)
    shown = render_text(evil.report(text))
    assert all(char.isprintable() or char == "\n" for char in shown)


def test_the_numbers_are_the_largest_of_each_report():
    series = make_series()
    for row, entry in zip(iterate_series_rows(series.reports), series.reports, strict=True):
        if entry.report is None:
            assert set(row.numbers.values()) == {None}
            continue
        seen = entry.report.measurements
        assert row.numbers["growth"] == max(each.total for each in seen.growth.values())
        kappas = [
            each.jacobian.kappa.max for each in seen.norms.values() if each.jacobian is not None
        ]
        assert row.numbers["kappa"] == max(kappas)
        shares = [each.eps_share.max for each in seen.norms.values()]
        assert row.numbers["eps share"] == max(shares)


def test_what_came_and_went_is_told_across_a_target_without_a_report():
    assert [row.changes for row in iterate_series_rows(make_series().reports)] == [
        "-",
        "+ND304",
        "-",
        "+ND203 +ND301 -ND304",
    ]
    one = Series(exit_code=0, reports=(SeriesEntry(target="a", report=bert()),) * 2)
    assert [row.changes for row in iterate_series_rows(one.reports)] == ["-", "same"]


def test_csv_has_the_numbers_in_full():
    (first, *_) = csv.DictReader(io.StringIO(written_series(make_series(), "csv")))
    names = [name.replace(" ", "_") for name in NUMBERS]
    assert list(first) == ["target", *names, "findings", "changes", "verdict"]
    assert (
        float(first["growth"])
        == make_series().reports[0].report.measurements.growth["model.layers"].total
    )
