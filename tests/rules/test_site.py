"""Many places become one finding, and say where they are."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normdiag.rules.site import (
    RatedSite,
    describe_places,
    describe_sites,
    format_layers,
    grade_sites,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from tests.rules.builders import evidence


def spot(
    id: str, value: float = 1.0, stack: str | None = "layers", layer: int | None = None
) -> RatedSite:
    return RatedSite(id=id, value=value, stack=stack, layer=layer)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([4], "layer 4"),
        ([3, 4], "layers 3-4"),
        ([5, 3, 4, 4], "layers 3-5"),
        ([0, 2], "layers 0 and 2"),
        ([0, *range(3, 32), 35], "layers 0, 3-31 and 35"),
    ],
)
def test_layers_in_words(layers: list[int], expected: str) -> None:
    assert format_layers(layers) == expected


@given(st.sets(st.integers(0, 60), min_size=1))
def test_every_layer_can_be_read_back(layers: set[int]) -> None:
    words = format_layers(layers).partition(" ")[2].replace(" and ", ", ").split(", ")
    read = set()
    for word in words:
        first, _, last = word.partition("-")
        read |= set(range(int(first), int(last or first) + 1))
    assert read == layers


def test_a_single_site_is_named() -> None:
    assert describe_places([spot("layers.3.norm", layer=3)]) == "layers.3.norm"


def test_sites_of_one_stack_become_a_range() -> None:
    assert (
        describe_places([spot(f"n{layer}", layer=layer) for layer in (5, 3, 4, 3)])
        == "layers 3-5 of layers"
    )


def test_stacks_and_sites_outside_of_layers_stand_apart() -> None:
    sites = [
        spot("a", layer=0),
        spot("embed", layer=None),
        spot("b", layer=1),
        spot("c", stack="decoder", layer=7),
    ]
    assert describe_places(sites) == "layers 0-1 of layers, layer 7 of decoder and embed"


def test_a_long_list_is_cut() -> None:
    sites = [spot(f"loose{k}", stack=None) for k in range(9)]
    assert describe_places(sites) == "loose0, loose1, loose2, loose3 and 5 more"


def test_the_worst_comes_first_and_equal_ones_keep_their_order() -> None:
    ranked = sort_worst_first([spot("a", 1.0), spot("b", 3.0), spot("c", 1.0), spot("d", 2.0)])
    assert site_ids(ranked) == ("b", "d", "a", "c")


def test_the_first_of_several_is_named_beside_them() -> None:
    assert describe_sites([spot("layers.3.norm", layer=3)], "norm") == "at layers.3.norm"
    several = [spot("b", layer=4), spot("a", layer=3)]
    assert describe_sites(several, "norm") == "at 2 norms, layers 3-4 of layers; worst b"


def test_two_thresholds_grade_sites_and_a_value_at_one_is_not_past_it() -> None:
    sites = [spot(str(value), value) for value in (1.0, 2.0, 3.0, 4.0, 5.0)]
    found = [
        (site_ids(group), severity, limit)
        for group, severity, limit in grade_sites(sites, 4.0, 2.0)
    ]
    assert found == [(("5.0",), "warning", 4.0), (("4.0", "3.0"), "info", 2.0)]
    assert [severity for _, severity, _ in grade_sites(sites[:3], 4.0, 2.0)] == ["info"]
    assert list(grade_sites(sites[:2], 4.0, 2.0)) == []


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_command_survives_a_shell(target: str, site: str) -> None:
    command = trace_hint(evidence(subject={"target": target}), site)
    words = shlex.split(command.removeprefix("see: "))
    assert words == ["normdiag", "trace", target, "--site", site]
