"""Checks and several targets as people read them: whole outputs, and what no text may break."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from normdiag.render.course import NUMBERS, rows
from normdiag.render.interface import Options
from normdiag.report.bounds import Bound
from normdiag.report.check import Ignored
from normdiag.report.gate import Gate, checked
from normdiag.report.paths import parse
from normdiag.report.series import Entry, Failure, Series
from tests import evil
from tests.hostile import broken
from tests.reports import bert, llama
from tests.written import written, written_series

GATE = Gate(
    fail_on="warning",
    bounds=(
        Bound(parse("measurements.growth.total"), "max", 50.0),
        Bound(parse("measurements.norms.jacobian.kappa.max"), "max", 10.0),
        Bound(parse("measurements.gradients.global_norm"), "max", 1.0),
    ),
    ignored=(Ignored(selector="ND305", reason="on purpose: see the model card"),),
)


def course():
    """A run in which a fault comes, and a checkpoint that is lost."""
    lost = Failure(what="ckpt-30 is empty", hint="a checkpoint has weights", exit_code=3)
    first = replace(llama(2), findings=())
    return Series(
        exit_code=3,
        reports=(
            Entry(target="ckpt-9/", report=checked(first, GATE, first, "ckpt-9.json")),
            Entry(target="ckpt-10/", report=checked(llama(4), Gate())),
            Entry(target="ckpt-30/", failure=lost),
            Entry(target="ckpt-200/", report=checked(broken(), Gate(fail_on="info"))),
        ),
    )


def verdict(report):
    """The last section of the tables; the rest is that of `inspect`."""
    return "".join(written(report).partition("Verdict  ")[1:])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("check.txt", lambda: verdict(checked(llama(4), GATE))),
        ("check-baseline.txt", lambda: verdict(checked(llama(2), GATE, broken(), "a.json"))),
        (
            "check.md",
            lambda: written(checked(llama(4), GATE, broken(), "a.json"), format="markdown"),
        ),
        ("several.txt", lambda: written_series(course())),
        ("several-all.txt", lambda: written_series(course(), options=Options(all_rows=True))),
        ("several.csv", lambda: written_series(course(), "csv")),
        ("several.md", lambda: written_series(course(), "markdown")),
    ],
)
def test_it_reads_as_reviewed(golden, name, text):
    golden(name, text())


@pytest.mark.parametrize("text", evil.TEXTS)
@pytest.mark.parametrize("form", ["text", "csv"])
def test_no_text_breaks_it(text, form):
    shown = written_series(evil.series(text), form)
    assert all(char.isprintable() or char == "\n" for char in shown)
    shown = written(evil.report(text))
    assert all(char.isprintable() or char == "\n" for char in shown)


def test_the_numbers_are_the_largest_of_each_report():
    series = course()
    for row, entry in zip(rows(series.reports), series.reports, strict=True):
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
    assert [row.moved for row in rows(course().reports)] == [
        "-",
        "+ND304",
        "-",
        "+ND203 +ND301 -ND304",
    ]
    one = Series(exit_code=0, reports=(Entry(target="a", report=bert()),) * 2)
    assert [row.moved for row in rows(one.reports)] == ["-", "same"]


def test_csv_has_the_numbers_in_full():
    (first, *_) = csv.DictReader(io.StringIO(written_series(course(), "csv")))
    names = [name.replace(" ", "_") for name in NUMBERS]
    assert list(first) == ["target", *names, "findings", "moved", "verdict"]
    assert (
        float(first["growth"])
        == course().reports[0].report.measurements.growth["model.layers"].total
    )
