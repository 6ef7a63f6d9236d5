"""Pages with one number that is not the report's are refused: each page kind, several places."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import normdiag
from normdiag.render.elements import HeatMap, Page
from normdiag.render.elements import Sentence as Paragraph
from normdiag.render.interface import Options
from normdiag.render.pages.comparison import build_comparison
from normdiag.render.pages.first_screen import build_first_screen
from normdiag.render.pages.inspection import build_inspection
from normdiag.render.pages.trace import build_trace
from sample_models import pre_norm
from tests.sentences import heat_map_check, model_pairs
from tests.sentences.comparison_check import (
    ComparedReports,
    check_series,
    check_stream_table,
    compare_with_reports,
)
from tests.sentences.heat_map_check import check_heat_map, check_lines, draw_lines
from tests.sentences.mutations import assert_all_refused, change_number, mutate_page
from tests.sentences.page_check import check_page, choose_sites
from tests.sentences.report_values import read_document
from tests.sentences.site_table_check import check_site_table, iterate_site_tables

WHOLE = Options(all_rows=True)


@pytest.fixture(scope="module")
def report() -> normdiag.Report:
    model, inputs = pre_norm.build(layers=6)
    return normdiag.trace(model, inputs=inputs)


@pytest.fixture(scope="module")
def compared() -> ComparedReports:
    model = model_pairs.make_gpt2()
    changed = model_pairs.change_copy(model, model_pairs.GPT2_CHANGES["gain"])
    return compare_with_reports(model, changed, ids=model_pairs.IDS)


@pytest.mark.parametrize(
    ("number", "other"),
    [("24,837", "34,837"), ("<0.001%", "0.002%"), ("nan", "0"), ("0", "1"), ("9.5", "8.5")],
)
def test_a_changed_number_is_another_one(number: str, other: str) -> None:
    assert change_number(number) == other


@pytest.mark.parametrize("build", [build_inspection, build_trace, build_first_screen])
def test_every_other_number_is_refused(
    report: normdiag.Report, build: Callable[[normdiag.Report, Options], Page]
) -> None:
    mutations = mutate_page(build(report, WHOLE), read_document(report))
    assert len(mutations) > (80 if build is build_inspection else 5)
    assert_all_refused(mutations)


def test_every_other_number_of_a_comparison_is_refused(compared: ComparedReports) -> None:
    page = build_comparison(compared.comparison, WHOLE)
    mutations = mutate_page(page, compared.document, "comparison", check_stream_table)
    assert len(mutations) > 20
    assert_all_refused(mutations)


def test_what_passes_is_named(report: normdiag.Report) -> None:
    with pytest.raises(AssertionError, match="other numbers pass as well:\nStream of blocks"):
        assert_all_refused(
            [
                replace(each, is_refused=False)
                for each in mutate_page(build_inspection(report, WHOLE), read_document(report))
                if each.place.startswith("Stream of blocks")
            ]
        )


@pytest.mark.parametrize("kind", ["report", "comparison"])
def test_an_unknown_sentence_is_refused(
    report: normdiag.Report, compared: ComparedReports, kind: Any
) -> None:
    if kind == "report":
        page, document = build_trace(report, WHOLE), read_document(report)
    else:
        page, document = build_comparison(compared.comparison, WHOLE), compared.document
    check_rows = check_stream_table
    text = "Of 12 knots 13 are tied."
    longer = replace(page, elements=(*page.elements, Paragraph(text=text)))
    with pytest.raises(AssertionError, match=f"no claim knows:\n.*{text}"):
        check_page(longer, document, kind, check_rows)


class TestHeatMaps:
    @pytest.fixture(params=range(3))
    def heat_map(self, request: pytest.FixtureRequest, report: normdiag.Report) -> HeatMap:
        maps = [each for _, each in heat_map_check.iterate_heat_maps(build_trace(report, WHOLE))]
        return maps[request.param]

    def test_a_cell(self, report: normdiag.Report, heat_map: HeatMap) -> None:
        document = read_document(report)
        check_heat_map(heat_map, document["trace"][0], document)
        row = (*heat_map.cells[3][:2], heat_map.cells[3][2] * 1.001, *heat_map.cells[3][3:])
        cells = (*heat_map.cells[:3], row, *heat_map.cells[4:])
        with pytest.raises(AssertionError):
            check_heat_map(replace(heat_map, cells=cells), document["trace"][0], document)

    def test_a_title(self, report: normdiag.Report, heat_map: HeatMap) -> None:
        document = read_document(report)
        other = heat_map.title.replace("norm", "size").replace("ratio", "share")
        with pytest.raises(AssertionError, match="no check knows the map"):
            check_heat_map(replace(heat_map, title=other), document["trace"][0], document)

    def test_the_largest_of_a_row(self, heat_map: HeatMap) -> None:
        lines = draw_lines(heat_map, 600)
        check_lines(lines, heat_map)
        (place,) = (k for k, line in enumerate(lines) if line.lstrip().startswith("3 3 "))
        number = lines[place].split()[-1]
        lines[place] = lines[place].replace(number, change_number(number))
        with pytest.raises(AssertionError):
            check_lines(lines, heat_map)

    def test_a_shade(self, heat_map: HeatMap) -> None:
        lines = draw_lines(heat_map, 600)
        (place,) = (k for k, line in enumerate(lines) if line.lstrip().startswith("3 3 "))
        darkest = next(shade * 3 for shade in "█▓▒░" if shade * 3 in lines[place])
        lines[place] = lines[place].replace(darkest, "···", 1)
        with pytest.raises(AssertionError):
            check_lines(lines, heat_map)

    def test_the_legend(self, heat_map: HeatMap) -> None:
        lines = draw_lines(heat_map, 600)
        (place,) = (k for k, line in enumerate(lines) if "from: " in line)
        number = lines[place].split("▓ ")[1].split()[0]
        lines[place] = lines[place].replace(f"▓ {number}", "▓ 0.000001")
        with pytest.raises(AssertionError):
            check_lines(lines, heat_map)


def test_a_cell_of_a_site(report: normdiag.Report) -> None:
    document = read_document(report)
    page = build_trace(report, replace(WHOLE, sites=choose_sites(report)))
    tables = list(iterate_site_tables(page))
    assert len(tables) == 8
    for site, sequence, rows in tables:
        trace = document["trace"][sequence]
        check_site_table(site, rows, trace, document)
        for title in rows[0].keys() - {"token"}:
            changed = copy.deepcopy(rows)
            changed[5][title] = change_number(changed[5][title])
            with pytest.raises(AssertionError, match="token 5"):
                check_site_table(site, changed, trace, document)


def test_a_point_of_a_series(compared: ComparedReports) -> None:
    page = build_comparison(compared.comparison, WHOLE)
    check_series(page, compared.document)
    document = copy.deepcopy(compared.document)
    document["comparison"]["stream"][-1]["out"]["median"] *= 1.001
    with pytest.raises(AssertionError):
        check_series(page, document)
