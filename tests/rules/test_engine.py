"""Skipped, passed or found: no rule is passed over in silence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from normdiag.evidence.evidence import Evidence
from normdiag.findings import SEVERITIES, Finding
from normdiag.rules import engine
from normdiag.rules.engine import judge_evidence
from normdiag.rules.norm_inputs.epsilon_dominates import EpsilonDominates
from normdiag.rules.registry import RULES
from normdiag.rules.thresholds import Limits
from tests import reports
from tests.rules.builders import evidence, make_measurement, norms, stack

ALL = [rule.code for rule in RULES]


def outcome(judgement) -> list[str]:
    found = dict.fromkeys(finding.code for finding in judgement.findings)
    return sorted([*found, *judgement.passed, *(skip.code for skip in judgement.skipped)])


@pytest.mark.parametrize(
    "seen",
    [reports.llama().to_evidence(), reports.bert().to_evidence(), evidence()],
    ids=["llama", "bert", "nothing"],
)
def test_every_rule_has_an_outcome(seen: Evidence) -> None:
    assert outcome(judge_evidence(seen)) == ALL
    some = outcome(judge_evidence(seen, select=["ND3"], ignore=["ND302"]))
    assert some == ["ND301", "ND303", "ND304", "ND305"]


def test_without_evidence_nothing_passes_but_the_loading() -> None:
    judgement = judge_evidence(evidence())
    assert judgement.passed == ("ND003", "ND005", "ND109", "ND705")
    assert [finding.code for finding in judgement.findings] == ["ND001"]
    assert all(skip.why and skip.name for skip in judgement.skipped)


def test_severe_findings_come_first_and_equal_ones_in_the_order_of_codes() -> None:
    (norm,) = norms(1, eps=0.0)
    seen = evidence(
        norms=(norm,),
        stacks=(stack(65, placement="post"),),
        norm_inputs={norm.id: make_measurement(0.3, constant=3)},
    )
    findings = judge_evidence(seen).findings
    ranks = [SEVERITIES.index(finding.severity) for finding in findings]
    assert ranks == sorted(ranks, reverse=True) and len(set(ranks)) == 3
    warnings = [finding.code for finding in findings if finding.severity == "warning"]
    assert warnings == sorted(warnings) and len(warnings) == 2


def test_a_rule_that_raises_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        yield from ()
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(EpsilonDominates, "check", broken)
    (norm,) = norms(1)
    with pytest.raises(ZeroDivisionError, match="a fault of ours"):
        judge_evidence(evidence(norms=(norm,), norm_inputs={norm.id: make_measurement(0.3)}))


def test_the_engine_says_which_evidence_is_missing() -> None:
    judgement = judge_evidence(evidence(norms=norms(1)), select=["ND301"])
    (skip,) = judgement.skipped
    assert (skip.code, skip.name) == ("ND301", "epsilon-dominates")
    assert skip.why == "it was not measured (add 'norm-inputs' to --measure)"
    assert judgement.passed == () == judgement.findings


def test_one_forward_without_measuring_gives_only_what_needs_no_measure() -> None:
    """`measure=()` is judged by ND0, ND1 and ND705, whatever else the architecture shows."""
    made = reports.llama().to_evidence()
    bare = replace(
        made,
        measurements=replace(evidence().measurements, replay=made.measurements.replay),
    )
    judgement = judge_evidence(bare)
    looked = {*judgement.passed, *(finding.code for finding in judgement.findings)}
    of_structure = {"ND005", "ND110", *(f"ND10{k}" for k in range(1, 10))}
    assert looked == {"ND001", "ND002", "ND003", "ND705"} | of_structure


def test_the_public_name_of_the_engine() -> None:
    assert engine.judge_evidence is judge_evidence
