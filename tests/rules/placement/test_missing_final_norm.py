from __future__ import annotations

import pytest

from normdiag.evidence.stream import HeadInput
from normdiag.evidence.subject import InputSummary
from tests import factories
from tests.rules.builders import evidence, make_adds, norms, one, run_rule, stack


def bare(
    placement: str = "pre", read_by: str | None = "head", kind: str = "texts", later=(), **given
):
    """A stack of four layers without a final norm."""
    shape = {"final_norm": None, "placement": placement, "read_by": read_by, **given}
    subject = {"probe": InputSummary(kind=kind, sequences=1, tokens=16)}
    return evidence(
        stacks=(stack(4, **shape),),
        adds=make_adds(4, placement=placement),
        norms=(*norms(4), *later),
        subject=subject,
        head_input=HeadInput(rms=57.3, max_abs=400.0),
    )


@pytest.mark.parametrize("placement", ["pre", "sandwich", "branch-output", "parallel-pre"])
def test_a_bare_stream_before_a_head(placement: str) -> None:
    finding = one(bare(placement), "ND102")
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    assert finding.ids == ("layers", "layers.3/add#0")
    assert "rms 57.3" in finding.message and placement in finding.message
    assert "--site 'layers.3/add#0'" in finding.advice


@pytest.mark.parametrize("kind", ["texts", "user-texts", "random-ids"])
def test_text_models_without_knowing_what_reads_it(kind: str) -> None:
    finding = one(bare(read_by=None, kind=kind), "ND102")
    assert (finding.severity, finding.confidence) == ("warning", "low")


@pytest.mark.parametrize(
    ("read_by", "kind"), [("caller", "texts"), ("caller", "random"), (None, "random")]
)
def test_a_stream_that_the_caller_gets_is_information(read_by: str | None, kind: str) -> None:
    finding = one(bare(read_by=read_by, kind=kind), "ND102")
    assert (finding.severity, finding.confidence) == ("info", "low")
    assert "the caller receives the unnormalised stream" in finding.message


def test_a_final_norm_is_silent() -> None:
    assert run_rule(bare(final_norm="model.norm"), "ND102") == ()


@pytest.mark.parametrize("placement", ["post", "deepnorm", "normed-skip", "none", "other"])
def test_placements_that_need_none_are_silent(placement: str) -> None:
    assert run_rule(bare(placement), "ND102") == ()


@pytest.mark.parametrize("read_by", ["norm", "stack", "residual-add"])
def test_streams_that_go_into_a_norm_a_stack_or_a_branch_are_silent(read_by: str) -> None:
    assert run_rule(bare(read_by=read_by), "ND102") == ()


@pytest.mark.parametrize("kind", ["batchnorm", "groupnorm", "dyt", None])
def test_other_kinds_of_norm_are_silent(kind: str | None) -> None:
    assert run_rule(bare(norm_kind=kind), "ND102") == ()


def test_a_norm_behind_the_pooling_counts() -> None:
    pooled = factories.norm("pooler.layernorm", "unattached", features=64)
    assert run_rule(bare(later=(pooled,)), "ND102") == ()
    narrow = factories.norm("head.norm", "unattached", features=8)
    assert len(run_rule(bare(later=(narrow,)), "ND102")) == 1


def test_only_the_last_stack_is_judged() -> None:
    towers = (
        stack(2, "vision", final_norm=None),
        stack(2, "text", final_norm="norm"),
    )
    written = (*make_adds(2, "vision"), *make_adds(2, "text"))
    assert run_rule(evidence(stacks=towers, adds=written), "ND102") == ()


def test_the_last_layer_decides_in_a_hybrid_stack() -> None:
    """Mix-LN: post-norm below, pre-norm above, and a final norm that the upper part needs."""
    written = (*make_adds(1, placement="post"), *make_adds(4, placement="pre")[1:])
    shape = stack(4, placement="hybrid", final_norm=None, read_by="head")
    finding = one(evidence(stacks=(shape,), adds=written), "ND102")
    assert "pre" in finding.message


def test_a_layer_that_ends_with_a_norm_needs_no_other() -> None:
    """Conformers: an input norm at the last add, and a norm on the stream behind it."""
    written = make_adds(4, placement="pre", stream_norm="layers.3.final_norm")
    shape = stack(4, placement="hybrid", final_norm=None, read_by="head")
    assert run_rule(evidence(stacks=(shape,), adds=written), "ND102") == ()
