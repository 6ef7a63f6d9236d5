"""Consequences are folded under their cause where the evidence shows it, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import normdiag
from normdiag.findings import SEVERITIES, Finding
from normdiag.report.report import Report
from normdiag.rules.engine import judge_evidence
from normdiag.rules.explanations import EXPLANATIONS
from normdiag.rules.page import format_rule_page
from normdiag.rules.registry import RULES
from normdiag.rules.rounded_signals import is_rounded_away, rounding_step
from sample_models import gains, nan_gain

WIDTH = 32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fc = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.3 * torch.tanh(self.fc(self.norm(x)))


class Offset(nn.Module):
    """An embedding of unit variance with a constant added to every feature."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embed = nn.Embedding(50, WIDTH)
        self.embed.weight.data += offset
        self.blocks = nn.Sequential(*(Block() for _ in range(5)))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.blocks(self.embed(ids)))


def inspect_offset(offset: float, dtype: torch.dtype) -> Report:
    ids = torch.randint(50, (2, 12), generator=torch.Generator().manual_seed(4))
    return normdiag.inspect(Offset(offset).to(dtype).eval(), inputs=ids)


def by_code(report: Report) -> dict[str, Finding]:
    return {finding.code: finding for finding in report.findings}


def test_what_an_offset_in_bfloat16_does_is_one_warning() -> None:
    """At 2,000 a step of bfloat16 is 8: the embedding's unit variance rounds to nothing."""
    report = inspect_offset(2000.0, torch.bfloat16)
    rounded = Offset(2000.0).bfloat16().embed.weight.double()
    assert float((rounded - rounded.mean(-1, keepdim=True)).abs().max()) <= 8.0
    assert rounding_step(report.to_evidence(), "blocks.0.norm") == 8.0
    findings = by_code(report)
    warnings = [each.code for each in report.findings if each.severity == "warning"]
    assert warnings == ["ND303"]
    assert "bfloat16 has a step of 8.00" in findings["ND303"].message
    folded = [each for each in report.findings if each.explained_by is not None]
    assert {"ND302", "ND703"} <= {each.code for each in folded}
    for each in folded:
        assert each.explained_by is not None
        assert (each.explained_by.code, each.severity, each.severity_alone) == (
            "ND303",
            "info",
            "warning",
        )
        assert each.advice.startswith("first mend the cause, ND303")


def test_the_same_offset_in_float32_explains_nothing() -> None:
    """There a step is 1.2e-4, and the signal of unit variance is whole."""
    report = inspect_offset(2000.0, torch.float32)
    assert not is_rounded_away(report.to_evidence(), "blocks.0.norm")
    assert "rounded away" not in by_code(report)["ND303"].message
    assert all(each.explained_by is None for each in report.findings)


def test_an_error_stays_an_error() -> None:
    model, inputs = nan_gain.build()
    finding = by_code(normdiag.inspect(model, inputs=inputs))["ND705"]
    assert finding.explained_by is not None
    assert finding.explained_by.code == "ND203"
    assert (finding.severity, finding.severity_alone) == ("error", "error")


def test_an_outlying_gain_explains_the_branch_behind_it_and_no_other() -> None:
    model, inputs = gains.build_outlier()
    report = normdiag.inspect(model, inputs=inputs)
    overwriting = by_code(report)["ND403"]
    assert overwriting.explained_by is not None
    assert (overwriting.explained_by.code, overwriting.explained_by.id) == (
        "ND202",
        "blocks.3.norm",
    )
    evidence = report.to_evidence()
    adds = tuple(
        replace(add, input_norms=("blocks.1.norm",)) if add.id in overwriting.ids else add
        for add in evidence.architecture.residual_adds
    )
    moved = replace(evidence, architecture=replace(evidence.architecture, residual_adds=adds))
    (alone,) = (each for each in judge_evidence(moved).findings if each.code == "ND403")
    assert alone.explained_by is None and alone.severity == "warning"


def test_without_its_cause_a_consequence_is_a_finding_of_its_own() -> None:
    evidence = inspect_offset(2000.0, torch.bfloat16).to_evidence()
    judgement = judge_evidence(evidence, ignore=("ND303",))
    assert all(each.explained_by is None for each in judgement.findings)
    assert {"ND302", "ND703"} <= {e.code for e in judgement.findings if e.severity == "warning"}


def test_findings_are_sorted_by_what_they_are_after_folding() -> None:
    report: Any = inspect_offset(2000.0, torch.bfloat16)
    order = [SEVERITIES.index(each.severity) for each in report.findings]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("relation", EXPLANATIONS, ids=lambda r: f"{r.cause}-{r.consequence}")
def test_every_relation_is_between_rules_and_on_both_pages(relation: Any) -> None:

    pages = {rule.code: format_rule_page(rule) for rule in RULES}
    assert f"It explains {relation.consequence} where {relation.why}" in pages[relation.cause]
    assert f"It follows from {relation.cause} where {relation.why}" in pages[relation.consequence]
