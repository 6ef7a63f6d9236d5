from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.evidence.architecture import Doubling, StreamBreak
from normdiag.evidence.evidence import Evidence
from tests.rules.builders import evidence, one, run_rule, stack


def broken(*breaks: StreamBreak, doublings: tuple[Doubling, ...] = ()) -> Evidence:
    made = evidence(stacks=(stack(),))
    built = replace(made.architecture, breaks=breaks, doublings=doublings)
    return replace(made, architecture=built)


def lost(layer: int, **given) -> StreamBreak:
    module = f"layers.{layer}.attn"
    fields = {"first_module": f"{module}.q", "last_module": f"{module}.o", "stack": "layers"}
    return StreamBreak(**{**fields, **given})


def test_a_whole_stream_is_silent() -> None:
    assert run_rule(evidence(stacks=(stack(),)), "ND109") == ()


def test_one_branch_is_named_from_its_first_module_to_its_last() -> None:
    finding = one(broken(lost(2)), "ND109")
    assert finding.message == (
        "no residual around layers.2.attn.q to layers.2.attn.o: its output replaces the stream"
    )
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.ids, finding.value) == (("layers.2.attn.o",), 1.0)


def test_a_branch_of_one_module_is_named_once() -> None:
    finding = one(broken(lost(2, first_module="fc", last_module="fc")), "ND109")
    assert "around fc: its" in finding.message


def test_several_are_one_finding() -> None:
    finding = one(broken(*(lost(layer) for layer in range(6))), "ND109")
    assert "around 6 branches" in finding.message and "and 2 more" in finding.message
    assert finding.value == 6.0 and len(finding.ids) == 6


def test_a_model_without_adds_has_no_layer_to_compare_with() -> None:
    finding = one(broken(lost(0, stack=None), lost(1, stack=None)), "ND109")
    assert finding.message.startswith("no layer has a residual add: 2 branches replace")
    assert finding.confidence == "medium"


@pytest.mark.parametrize("is_doubled", [True, False])
def test_a_doubling_is_said_once(is_doubled: bool) -> None:
    """With the break that it belongs to, else by itself."""
    doublings = (Doubling(module="layers.2", line="net.py:7"),)
    breaks = (lost(2, is_doubled=True),) if is_doubled else ()
    finding = one(broken(*breaks, doublings=doublings), "ND109")
    assert "x + x" in finding.message and finding.severity == "warning"
    assert ("net.py:7" in finding.message) is not is_doubled


def test_a_doubling_of_the_root_is_named_by_its_stack() -> None:
    doublings = (Doubling(module="", line=None, stack="layers"),)
    finding = one(broken(doublings=doublings), "ND109")
    assert finding.ids == ("layers",)
    assert finding.message == "the stream is added to itself, x + x, in the model, which doubles it"


def test_breaks_that_can_be_meant_are_a_finding_of_their_own() -> None:
    meant = (lost(0, is_first=True, contractions=4), lost(5, contractions=1))
    findings = run_rule(broken(lost(2, contractions=4), *meant), "ND109")
    assert [(f.severity, f.confidence, f.value) for f in findings] == [
        ("warning", "high", 1.0),
        ("info", "low", 2.0),
    ]
    assert "a projection between two streams" in findings[1].advice
    assert one(broken(lost(2, contractions=1, is_doubled=True)), "ND109").severity == "warning"
    assert one(broken(lost(2, contractions=1, stack=None)), "ND109").severity == "warning"
