from __future__ import annotations

from tests.rules.builders import evidence, make_adds, one, run_rule, stack


def test_branches_that_read_their_norm_alone_are_silent() -> None:
    assert run_rule(evidence(stacks=(stack(4),), adds=make_adds(4)), "ND110") == ()


def test_the_readers_and_the_norm_are_named() -> None:
    adds = make_adds(4, raw_readers=("attn.k", "attn.v"), input_norms=("ln",))
    finding = one(evidence(stacks=(stack(4),), adds=adds[1:2]), "ND110")
    assert finding.message == "attn.k and attn.v read the raw stream past the norm ln of " + (
        adds[1].id
    )
    assert (finding.severity, finding.ids, finding.value) == ("warning", (adds[1].id,), 1.0)


def test_the_layers_of_one_stack_are_one_finding() -> None:
    adds = make_adds(4, raw_readers=("attn.k",))
    finding = one(evidence(stacks=(stack(4),), adds=adds), "ND110")
    assert "attn.k reads the raw stream" in finding.message
    assert finding.message.endswith("4 adds in all, layers 0-3 of layers")
    assert len(finding.ids) == 4
