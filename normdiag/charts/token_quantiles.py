"""The 5 % and the 95 % quantile over tokens, where a report holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from normdiag.charts.depth_chart import Band
from normdiag.charts.places import Place


def draw_quantiles(
    name: str, colour: str, places: Sequence[Place], records: Iterable[Any], quantity: str
) -> tuple[Band, ...]:
    """Return the band between both quantiles of `quantity`; none where no record has them.

    `records` are the measurements at each place, None where there are none.
    """
    ranges = [_read_range(record, quantity) for record in records]
    if not any(ranges):
        return ()
    return (Band(name=name, colour=colour, places=places, ranges=ranges),)


def _read_range(record: Any, quantity: str) -> tuple[float, float] | None:
    # Reports of normdiag before these keys existed have neither the field nor its value.
    held = getattr(getattr(record, "quantiles", None), quantity, None)
    return None if held is None else (held.p5, held.p95)
