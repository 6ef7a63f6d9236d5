"""Sites of one kind on the axis, each with what was measured there: curves and bands read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from normdiag.charts.depth_chart import Band, Curve
from normdiag.charts.places import Place, list_adds, list_layers, list_norms
from normdiag.charts.token_quantiles import draw_quantiles
from normdiag.evidence.layers import LayerMeasurement
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.stream import AddMeasurement
from normdiag.report.report import Report

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSites(Generic[Record]):
    """Places, and the record of each: None where nothing was measured."""

    x_title: str
    places: Sequence[Place]
    records: Sequence[Record | None]

    def draw_curve(
        self,
        name: str,
        colour: str,
        read_value: Callable[[Record], float | None],
        form: Literal["line", "dots", "bars"] = "line",
    ) -> Curve:
        """Return the curve of what `read_value` reads from the records."""
        values = [None if record is None else read_value(record) for record in self.records]
        return Curve(name=name, colour=colour, places=self.places, values=values, form=form)

    def draw_values(
        self,
        name: str,
        colour: str,
        values: Mapping[str, float],
        form: Literal["line", "dots", "bars"] = "line",
    ) -> Curve:
        """Return the curve of values that are held by the ids of the sites."""
        found = [values.get(place.id) for place in self.places]
        return Curve(name=name, colour=colour, places=self.places, values=found, form=form)

    def draw_band(
        self, name: str, colour: str, read_ends: Callable[[Record], tuple[float, float] | None]
    ) -> Band:
        """Return the band between the two values that `read_ends` reads from the records."""
        ranges = [None if record is None else read_ends(record) for record in self.records]
        return Band(name=name, colour=colour, places=self.places, ranges=ranges)

    def draw_quantiles(self, colour: str, quantity: str) -> tuple[Band, ...]:
        """Return the band from 5 to 95 % of the tokens; none where no record has quantiles."""
        return draw_quantiles("5 to 95 % of tokens", colour, self.places, self.records, quantity)


def read_adds(report: Report) -> MeasuredSites[AddMeasurement]:
    """Return the residual adds with their measurements."""
    return _pair_with("residual add", list_adds(report), report.measurements.stream)


def read_norms(report: Report) -> MeasuredSites[NormMeasurement]:
    """Return the norms with their measurements."""
    return place_norms(report, report.measurements.norms)


def place_norms(report: Report, records: Mapping[str, Record]) -> MeasuredSites[Record]:
    """Return the norms with `records`, which are held by their ids."""
    return _pair_with("norm", list_norms(report), records)


def read_layers(report: Report) -> MeasuredSites[LayerMeasurement]:
    """Return the layers with their measurements."""
    return _pair_with("layer", list_layers(report), report.measurements.layers)


def _pair_with(
    noun: str, places: Sequence[Place], records: Mapping[str, Record]
) -> MeasuredSites[Record]:
    return MeasuredSites(
        x_title=f"{noun}, in the order of the forward",
        places=places,
        records=[records.get(place.id) for place in places],
    )
