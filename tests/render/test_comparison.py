"""A comparison as text and as Markdown: the whole page, and what is folded."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from normdiag.render.formats import COMPARISONS
from normdiag.render.interface import Options
from normdiag.render.pages.comparison import select_adds
from normdiag.report.compare.compare import compare_reports
from normdiag.report.compare.comparison import Comparison, StreamDifference
from tests import hostile, reports
from tests.factories import add_measurement

SITE = "model.layers.9/add#1"


def comparison() -> Comparison:
    """An epsilon and a gain that differ, a stream that parts, a finding that is gone."""
    a = b = reports.llama(24)
    changed = {
        "model.layers.9.post_attention_layernorm": {"eps": 1e-6},
        "model.norm": {"kind": "layernorm"},
    }
    norms = tuple(replace(norm, **changed.get(norm.id, {})) for norm in b.architecture.norms)
    stream = b.measurements.stream | {
        site: add_measurement(20.0 + place, 0.5)
        for place, site in enumerate(list(b.measurements.stream)[19:])
    }
    b = replace(
        b,
        subject=replace(b.subject, target="./ported", class_="Port"),
        architecture=replace(b.architecture, norms=norms),
        measurements=replace(b.measurements, stream=stream),
        findings=(),
    )
    return compare_reports(a, b)


def written(found: Comparison, form: str, *, width: int = 80, **options: bool) -> str:
    buffer = io.StringIO()
    COMPARISONS[form](found, Console(file=buffer, width=width), Options(**options))
    return buffer.getvalue()


@pytest.mark.parametrize(("form", "ending"), [("text", "txt"), ("markdown", "md")])
def test_the_page(golden, form: str, ending: str) -> None:
    golden(f"comparison.{ending}", written(comparison(), form))


def test_of_no_difference() -> None:
    text = written(compare_reports(reports.llama(), reports.llama()), "text")
    assert "no difference: the streams are equal" in text.replace("\n", " ")
    assert "Differences  none" in text
    assert "Findings  the same in both" in text


@pytest.mark.parametrize("width", [60, 80, 140])
def test_it_fits_the_width(width: int) -> None:
    for found in (comparison(), compare_reports(hostile.broken(), hostile.broken())):
        lines = written(found, "text", width=width).splitlines()
        assert max(map(cell_len, lines)) <= width


def test_long_names_are_told_whole_and_floods_are_not() -> None:
    for length, is_whole in ((400, True), (40_000, False)):
        name = "m" * length
        text = written(replace(comparison(), headline=f"a {name} b"), "text")
        assert (name in text.replace("\n", "")) is is_whole
        assert len(text) < 6_000


def test_what_is_shown_of_a_long_stream() -> None:
    stream = comparison().stream
    assert select_adds(stream, SITE, all_rows=False) == [0, 1, 17, 18, 19, 20, 21, 46, 47]
    assert select_adds(stream, None, all_rows=False) == [0, 1, 2, 46, 47]
    assert select_adds(stream, SITE, all_rows=True) == list(range(48))
    assert select_adds(stream[:5], None, all_rows=False) == list(range(5))
    assert [site.a for site in stream if isinstance(site, StreamDifference)][19] == SITE
