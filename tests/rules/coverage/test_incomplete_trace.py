from __future__ import annotations

from normdiag.evidence.coverage import Coverage, SkippedMeasurement, UnexplainedAdd
from tests.rules.builders import evidence, judge_rule, one, run_rule, stack

WHOLE = {"stacks": (stack(),)}


def addition(module: str, why: str = "neither operand is upstream of the other") -> UnexplainedAdd:
    return UnexplainedAdd(module=module, line=f"{module}.py:7", shape=(2, 16, 64), why=why)


def test_a_whole_trace_is_silent() -> None:
    assert run_rule(evidence(**WHOLE), "ND001") == ()


def test_an_unexplained_addition_is_a_warning_with_its_line() -> None:
    coverage = Coverage(unexplained_adds=(addition("blocks.3"),))
    finding = one(evidence(coverage=coverage, **WHOLE), "ND001")
    assert (finding.severity, finding.value, finding.ids) == ("warning", 1.0, ("blocks.3",))
    assert "1 addition" in finding.message and "blocks.3.py:7" in finding.message
    assert "upstream" in finding.message


def test_many_become_one_finding() -> None:
    adds = tuple(addition(f"blocks.{k}") for k in range(9))
    finding = one(evidence(coverage=Coverage(unexplained_adds=adds), **WHOLE), "ND001")
    assert len(finding.ids) == 9 and finding.value == 9.0
    assert "9 additions" in finding.message and "and 6 more" in finding.message
    assert finding.message.count("upstream") == 1


def test_unattached_norms_and_what_was_skipped_are_information() -> None:
    coverage = Coverage(
        unexplained_norms=("pooler.norm",),
        skipped=(SkippedMeasurement(what="jacobians", why="an opaque kernel"),),
    )
    norms, skipped = run_rule(evidence(coverage=coverage, **WHOLE), "ND001")
    assert norms.severity == skipped.severity == "info"
    assert norms.ids == ("pooler.norm",)
    assert "jacobians (an opaque kernel)" in skipped.message


def test_no_stack_at_all_is_said() -> None:
    finding = one(evidence(), "ND001")
    assert finding.severity == "info" and "no stack of residual adds" in finding.message


def test_without_a_forward_nothing_is_claimed() -> None:
    judgement = judge_rule(evidence(subject={"mode": "weights-only"}), "ND001")
    assert judgement.findings == () == judgement.passed
    assert "--weights-only" in judgement.skipped[0].why
