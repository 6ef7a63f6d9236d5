"""Ends and ticks of a logarithmic axis."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from normdiag.charts.log_axis import choose_domain, choose_ticks


@given(st.lists(st.floats(1e-300, 1e300), min_size=1))
def test_all_values_have_room_and_ticks_lie_within(values: list[float]) -> None:
    low, high = choose_domain(values)
    assert low < min(values) and max(values) < high
    ticks = choose_ticks(low, high)
    assert ticks is None or (2 <= len(ticks) <= 8 and all(low <= tick <= high for tick in ticks))


def test_ticks() -> None:
    assert choose_ticks(0.5, 30.0) == [0.5, 1, 2, 5, 10, 20]
    assert choose_ticks(1e-4, 1e4) == [1e-4, 1e-2, 1, 1e2, 1e4]
    assert choose_ticks(0.57, 1.6) == [0.6, 0.8, 1, 1.2, 1.4, 1.6]
    assert choose_ticks(3.0, 3.5) == [3.0, 3.1, 3.2, 3.3, 3.4, 3.5]
    assert choose_ticks(3.0, 3.0) is None
