"""The shortest period of branch kinds, and positions in the tree of modules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normdiag.structure.module_tree import is_inside, parent_path, paths_between
from normdiag.structure.repeated_layers import common_module_path, find_period


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(2, 4), st.integers(0, 11))
def test_a_repeated_pattern_has_a_period_that_fits_it(
    pattern: list[bool], times: int, spare: int
) -> None:
    kinds = pattern * times + pattern[: spare % len(pattern)]
    period = find_period(kinds)
    assert period is not None and period <= len(pattern)
    assert kinds == (kinds[:period] * len(kinds))[: len(kinds)]
    for shorter in range(1, period):
        assert kinds != (kinds[:shorter] * len(kinds))[: len(kinds)]


@pytest.mark.parametrize("kinds", ["", "1", "10", "110", "1101", "10010"])
def test_what_never_starts_anew_has_none(kinds: str) -> None:
    assert find_period([kind == "1" for kind in kinds]) is None


def test_positions_in_the_tree() -> None:
    assert is_inside("a.b", "a") and is_inside("a", "") and not is_inside("ab", "a")
    assert not is_inside("a", "a")
    assert paths_between("a", "a.b.0.c") == ["a.b", "a.b.0"]
    assert paths_between("", "a.b") == ["a"]
    assert paths_between("b", "a.b.c") == [] == paths_between("a.b", "a")
    assert (parent_path("a.b.0"), parent_path("a")) == ("a.b", "")


@pytest.mark.parametrize(
    ("paths", "shared"),
    [
        (["m.layers.0", "m.layers.1"], "m.layers"),
        (["m.layers.0"], "m.layers"),
        (["first.0", "rest.0"], ""),
        (["encoder"], "encoder"),
    ],
)
def test_the_path_that_layers_share(paths: list[str], shared: str) -> None:
    assert common_module_path(paths) == shared
