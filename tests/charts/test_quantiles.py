"""Bands over tokens and histograms of gains, in reports that hold them."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace

import pytest

from normdiag.charts import CHARTS, MissingDataError
from normdiag.charts.places import list_adds
from normdiag.charts.token_quantiles import draw_quantiles
from normdiag.evidence.architecture import Gain
from tests.charts.reports import complete

REPORT = complete(2)
PLACES = list_adds(REPORT)


def test_a_band_between_5_and_95_percent_where_records_have_it() -> None:
    held = SimpleNamespace(out_norm=SimpleNamespace(p5=1.0, p95=9.0))
    records = [SimpleNamespace(quantiles=held), SimpleNamespace(quantiles=None), None, object()]
    (band,) = draw_quantiles("5 to 95 %", "#000000", PLACES, records, "out_norm")
    assert band.ranges == [(1.0, 9.0), None, None, None]
    assert draw_quantiles("5 to 95 %", "#000000", PLACES, records[1:], "out_norm") == ()


def test_a_report_without_histograms_says_so() -> None:
    with pytest.raises(MissingDataError, match="no histograms"):
        CHARTS["gain_histograms"](REPORT)


@pytest.mark.skipif(
    "histogram" not in {field.name for field in fields(Gain)},
    reason="reports of this version hold no histograms",
)
def test_cells_of_a_histogram_are_its_counts() -> None:
    from normdiag.evidence.statistics import Histogram

    first, *others = REPORT.architecture.norms
    counts = (1, 0, 5, *[0] * 28, 2)
    held = replace(first.gain, histogram=Histogram(min=-1.0, max=3.0, counts=counts))
    norms = (replace(first, gain=held), *others)
    report = replace(REPORT, architecture=replace(REPORT.architecture, norms=norms))
    cells = CHARTS["gain_histograms"](report)["layer"][0]["data"]["values"]
    assert [cell["share"] for cell in cells] == [1 / 8, 5 / 8, 2 / 8]
    assert (cells[0]["y"], cells[-1]["y2"]) == (-1.0, 3.0)
    assert {cell["site"] for cell in cells} == {first.id}
