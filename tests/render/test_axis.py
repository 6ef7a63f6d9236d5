"""One axis gives all its values bars, sparks and shades that keep their order."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from normdiag.render.axis import SHADES, Axis

ANY = st.lists(st.floats(), max_size=20)


def test_it_is_linear_from_zero_where_the_values_are_alike_and_logarithmic_where_not():
    assert Axis.over([10.0, 14.0]) == Axis(low=0.0, high=14.0, log=False, gaps=False)
    assert Axis.over([0.5, 14.0]) == Axis(low=0.5, high=14.0, log=True, gaps=False)
    assert Axis.over([0.0, 14.0, math.nan]) == Axis(low=0.0, high=14.0, log=False, gaps=True)
    assert Axis.over([14.0, 0.5]).words() == "log scale, 0.500 to 14.0"
    assert Axis.over([]).words() == "linear scale, 0 to 0"


def test_bars_are_as_long_as_the_values_say():
    axis = Axis.over([4.0, 8.0])
    assert axis.bar(8.0, 10) == "█" * 10
    assert axis.bar(4.0, 10) == "█" * 5
    assert axis.bar(4.1, 10) == "█████▏"
    assert axis.bar(0.0, 10) == "▏", "a bar of nothing would look like a missing one"
    assert axis.bar(math.inf, 10) == "!"


def test_shades_and_sparks_step_evenly():
    axis = Axis.over([1.0, 10.0, 1e5])
    decades = [1.0, 10.1, 101.0, 1010.0, 10100.0]
    assert "".join(map(axis.shade, decades)) == SHADES
    assert axis.legend() == "· 1.0  ░ 10  ▒ 100  ▓ 1,000  █ 10,000"
    assert axis.sparkline([1.0, 1e5, math.nan]) == "▁█!"
    assert Axis.over([1.0, math.nan]).legend().endswith("! not finite")


@given(ANY, st.integers(1, 60))
def test_whatever_the_values_a_bar_fits(values, width):
    axis = Axis.over(values)
    for value in values:
        assert 1 <= cell_len(axis.bar(value, width)) <= width
        assert len(axis.shade(value)) == 1
    assert len(axis.sparkline(values)) == len(values)
    assert axis.legend() and axis.words()


@given(st.lists(st.floats(0, 1e300), min_size=2, max_size=20))
def test_larger_values_are_never_lighter(values):
    axis = Axis.over(values)
    levels = [axis.level(value) for value in sorted(values)]
    assert levels == sorted(levels)
