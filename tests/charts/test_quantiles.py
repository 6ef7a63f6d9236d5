"""Bands over tokens and histograms of gains, in reports that hold them."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace

import pytest

from normdiag.charts import CHARTS, MissingDataError
from normdiag.charts.colours import VIRIDIS
from normdiag.charts.gain_histograms import ROWS, spread_counts
from normdiag.charts.places import list_adds
from normdiag.charts.token_quantiles import draw_quantiles
from normdiag.evidence.architecture import Gain
from tests.charts.reports import complete
from tests.charts.test_palette_image import read_pixels

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


def test_counts_are_spread_over_the_cells_that_their_bin_lies_in() -> None:
    cell = 4.0 / ROWS
    histogram = SimpleNamespace(min=0.0, max=32 * 1.5 * cell, counts=(6, 2, *[0] * 30))
    shares = spread_counts(histogram, 0.0, 4.0)
    assert shares[:4] == pytest.approx([0.5, 0.25 + 0.25 / 3, 0.25 * 2 / 3, 0.0])
    assert sum(shares) == pytest.approx(1.0)


def test_equal_gains_are_in_one_cell_and_a_norm_without_gain_in_none() -> None:
    equal = SimpleNamespace(min=1.0, max=1.0, counts=(7, *[0] * 31))
    shares = spread_counts(equal, 0.0, 2.0)
    assert [cell for cell, share in enumerate(shares) if share] == [ROWS // 2]
    assert sum(spread_counts(None, 0.0, 2.0)) == 0
    last = SimpleNamespace(min=0.5, max=2.0, counts=(0,) * 31 + (4,))
    assert sum(spread_counts(last, 0.0, 2.0)) == pytest.approx(1.0)


@pytest.mark.skipif(
    "histogram" not in {field.name for field in fields(Gain)},
    reason="reports of this version hold no histograms",
)
def test_a_histogram_is_a_column_of_the_image() -> None:
    from normdiag.evidence.statistics import Histogram

    first, *others = REPORT.architecture.norms
    counts = (1, 0, 5, *[0] * 28, 2)
    held = replace(first.gain, histogram=Histogram(min=-1.0, max=3.0, counts=counts))
    norms = (replace(first, gain=held), *others)
    report = replace(REPORT, architecture=replace(REPORT.architecture, norms=norms))
    spec = CHARTS["gain_histograms"](report)
    pixels = read_pixels(spec["layer"][0]["data"]["values"][0]["url"])
    assert (len(pixels), len(pixels[0])) == (ROWS, len(norms))
    assert pixels[0][0] != pixels[0][1] == VIRIDIS[0]
    assert spec["layer"][1]["encoding"]["y"]["scale"]["domain"] == [-1.0, 3.0]
