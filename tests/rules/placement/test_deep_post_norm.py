from __future__ import annotations

import pytest

from tests.rules.builders import evidence, one, run_rule, stack


def deep(layers: int, placement: str = "post", **given):
    drawing = {"drawing": "ln(x + F(x))"} if placement == "post" else {}
    return evidence(stacks=(stack(layers, placement=placement, **drawing, **given),))


@pytest.mark.parametrize("layers", [25, 64])
def test_deep_post_norm(layers: int) -> None:
    finding = one(deep(layers), "ND101")
    assert (finding.severity, finding.value, finding.threshold) == ("warning", layers, 24)
    assert finding.ids == ("layers",)
    assert f"with {layers} layers (threshold 24)" in finding.message
    assert "ln(x + F(x))" in finding.message


@pytest.mark.parametrize("layers", [1, 12, 24])
def test_as_deep_as_bert_large_is_silent(layers: int) -> None:
    assert run_rule(deep(layers), "ND101") == ()


@pytest.mark.parametrize("placement", ["pre", "sandwich", "branch-output", "deepnorm", "none"])
def test_other_placements_may_be_deep(placement: str) -> None:
    assert run_rule(deep(200, placement), "ND101") == ()


def test_the_depth_can_be_set() -> None:
    assert one(deep(7), "ND101", layers=6).threshold == 6


def test_each_stack_is_judged_by_itself() -> None:
    seen = evidence(
        stacks=(
            stack(30, "encoder", placement="post"),
            stack(6, "decoder", placement="post"),
            stack(40, "tower", placement="post"),
        )
    )
    assert [finding.ids for finding in run_rule(seen, "ND101")] == [("encoder",), ("tower",)]
