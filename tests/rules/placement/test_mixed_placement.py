from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.builders import evidence, make_adds, one, run_rule, stack


def make_stack(
    odd: dict[int, str], layers: int = 12, placement: str = "hybrid", note: str = "as seen"
):
    """Layer -> the placement of its add; `pre` elsewhere."""
    made = tuple(replace(add, placement=odd.get(add.layer, "pre")) for add in make_adds(layers))
    return evidence(adds=made, stacks=(stack(layers, placement=placement, note=note),))


def test_one_placement_is_silent() -> None:
    assert run_rule(make_stack({}, placement="pre"), "ND104") == ()


def test_an_add_that_the_stack_explains_is_none_of_ours() -> None:
    assert run_rule(make_stack({0: "none"}, placement="pre"), "ND104") == ()


def test_one_layer_without_its_norm() -> None:
    finding = one(make_stack({5: "none"}), "ND104")
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    assert finding.value == pytest.approx(1 / 12) and finding.threshold == 0.25
    assert finding.ids == ("layers", "layers.5/add#0")
    assert "layer 5 of layers is none, the other 11 layers pre" in finding.message
    assert "--site 'layers.5/add#0'" in finding.advice


def test_several_are_one_finding() -> None:
    finding = one(make_stack({5: "none", 6: "none", 11: "none"}), "ND104")
    assert finding.value == 0.25 and "layers 5-6 and 11 of layers are none" in finding.message


@pytest.mark.parametrize(
    "odd",
    [
        dict.fromkeys(range(3), "post"),  # Mix-LN, KEEL: the front of the stack
        dict.fromkeys(range(1, 12, 2), "branch-output"),  # every other layer
        {0: "post"},
    ],
)
def test_a_design_is_mentioned(odd: dict[int, str]) -> None:
    finding = one(make_stack(odd), "ND104")
    assert (finding.severity, finding.ids) == ("info", ("layers",))
    assert finding.message.endswith("as seen")


def test_layers_with_more_adds_are_of_another_kind() -> None:
    seen = make_stack({})
    extra = replace(make_adds(12)[5], id="layers.5/add#1", placement="branch-output", depth=12)
    built = replace(seen.architecture, residual_adds=(*seen.architecture.residual_adds, extra))
    assert one(replace(seen, architecture=built), "ND104").severity == "info"


def test_a_stack_without_adds_says_nothing() -> None:
    assert run_rule(evidence(stacks=(stack(4, placement="hybrid"),)), "ND104") == ()
