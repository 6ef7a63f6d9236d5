"""Sections and pages are data: no drawer's library is in them, and a drawer escapes all of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import normdiag.render
from normdiag.number_text import format_percent
from normdiag.render.axis import Axis
from normdiag.render.elements import Bar, Column, Heading, HeatMap, Name, Number, Page, Row, Table
from normdiag.render.formats import DRAWERS, FORMATS, SERIES
from normdiag.render.interface import Options
from normdiag.render.pages.inspection import build_inspection
from normdiag.render.pages.trace import build_trace
from tests.reports import llama
from tests.traces import make_trace

RENDER = Path(normdiag.render.__file__).parent
NEUTRAL = sorted([*(RENDER / "sections").glob("*.py"), RENDER / "elements.py", RENDER / "axis.py"])


@pytest.mark.parametrize("path", NEUTRAL, ids=lambda path: path.name)
def test_no_section_imports_a_drawer(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert not name.startswith("rich")
            assert not name.startswith(("normdiag.render.text", "normdiag.render.markdown"))


def test_every_drawer_draws_every_view() -> None:
    for formats in (*FORMATS.values(), SERIES):
        assert set(DRAWERS) <= set(formats)


def test_series_and_heat_maps_hold_every_value() -> None:
    report = make_trace(llama(60))
    page = build_trace(report, Options())
    heat = next(each for each in page.elements if isinstance(each, HeatMap))
    assert len(heat.columns) == 60
    assert len(heat.rows) == len(heat.cells) == len(report.trace[0].tokens)


def test_what_is_folded_depends_on_all_rows() -> None:
    def count_rows(*, all_rows: bool) -> int:
        page: Page = build_inspection(llama(24), Options(all_rows=all_rows))
        return max(len(each.rows) for each in page.elements if isinstance(each, Table))

    assert count_rows(all_rows=False) < count_rows(all_rows=True) == 49


def test_a_number_says_how_it_is_written() -> None:
    assert Number(value=0.0751, write=format_percent).written_value == "7.5%"
    assert Number(value=3.0, bound=">").written_value == ">3.00"
    assert Number(value=None, bound=">").written_value == "-"


def test_elements_are_values() -> None:
    axis = Axis.fit_values([1.0, 2.0])
    row = Row(cells=(Name(text="a"), Bar(value=1.0, axis=axis)))
    table = Table(columns=(Column(title="name"), Column(title="")), rows=(row,))
    assert hash(table) and hash(Heading(title="x"))


def test_a_stack_at_the_root_has_a_name() -> None:
    from dataclasses import replace

    report = llama(2)
    architecture = replace(
        report.architecture,
        stacks=tuple(replace(stack, id="") for stack in report.architecture.stacks),
        residual_adds=tuple(replace(add, stack="") for add in report.architecture.residual_adds),
    )
    page = build_inspection(replace(report, architecture=architecture), Options())
    titles = [each.title for each in page.elements if isinstance(each, Heading)]
    assert "Stream of the model (root)" in titles
