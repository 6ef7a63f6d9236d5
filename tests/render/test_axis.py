"""One axis gives all its values bars, sparks and shades that keep their order."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from normdiag.render.axis import Axis
from normdiag.render.glyphs import (
    SHADES,
    describe_shades,
    draw_bar,
    draw_shade,
    draw_sparkline,
    find_shade_level,
)

ANY = st.lists(st.floats(), max_size=20)


def test_it_is_linear_from_zero_where_the_values_are_alike_and_logarithmic_where_not():
    assert Axis.fit_values([10.0, 14.0]) == Axis(low=0.0, high=14.0, is_log=False, has_gaps=False)
    assert Axis.fit_values([0.5, 14.0]) == Axis(low=0.5, high=14.0, is_log=True, has_gaps=False)
    assert Axis.fit_values([0.0, 14.0, math.nan]) == Axis(
        low=0.0, high=14.0, is_log=False, has_gaps=True
    )
    assert Axis.fit_values([0.0, 0.5, 14.0]) == Axis(
        low=0.5, high=14.0, is_log=True, has_gaps=False, has_zeros=True
    )
    assert Axis.fit_values([14.0, 0.5]).describe_scale() == "log scale, 0.500 to 14.0"
    assert Axis.fit_values([]).describe_scale() == "linear scale, 0 to 0"


def test_bars_are_as_long_as_the_values_say():
    axis = Axis.fit_values([4.0, 8.0])
    assert draw_bar(axis, 8.0, 10) == "█" * 10
    assert draw_bar(axis, 4.0, 10) == "█" * 5
    assert draw_bar(axis, 4.1, 10) == "█████▏"
    assert draw_bar(axis, 0.0, 10) == "▏", "a bar of nothing would look like a missing one"
    assert draw_bar(axis, math.inf, 10) == "!"


def test_shades_and_sparks_step_evenly():
    axis = Axis.fit_values([1.0, 10.0, 1e5])
    decades = [1.0, 10.1, 101.0, 1010.0, 10100.0]
    assert "".join(draw_shade(axis, value) for value in decades) == SHADES
    assert describe_shades(axis) == "· 1.0  ░ 10  ▒ 100  ▓ 1,000  █ 10,000"
    assert draw_sparkline(axis, [1.0, 1e5, math.nan]) == "▁█!"
    assert describe_shades(Axis.fit_values([1.0, math.nan])).endswith("! not finite")


@given(ANY, st.integers(1, 60))
def test_whatever_the_values_a_bar_fits(values, width):
    axis = Axis.fit_values(values)
    for value in values:
        assert 1 <= cell_len(draw_bar(axis, value, width)) <= width
        assert len(draw_shade(axis, value)) == 1
    assert len(draw_sparkline(axis, values)) == len(values)
    assert describe_shades(axis) and axis.describe_scale()


@given(st.lists(st.floats(0, 1e300), min_size=2, max_size=20))
def test_larger_values_are_never_lighter(values):
    axis = Axis.fit_values(values)
    levels = [find_shade_level(axis, value) for value in sorted(values)]
    assert levels == sorted(levels)


def test_the_legend_says_where_zeros_are_on_a_logarithmic_scale():
    assert describe_shades(Axis.fit_values([0.0, 0.5, 14.0])).startswith("· 0 and 0.50  ░")
    assert describe_shades(Axis.fit_values([0.5, 14.0])).startswith("· 0.50  ░")
    assert describe_shades(Axis.fit_values([0.0, 14.0])).startswith("· 0  ░")
