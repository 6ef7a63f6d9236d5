"""Small bodies of evidence with one thing in them, from the parts that all tests share."""

from __future__ import annotations

from dataclasses import replace

from normdiag.evidence.architecture import Architecture, Norm, ResidualAdd, Stack
from normdiag.evidence.coverage import Coverage
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.statistics import MedianMax
from normdiag.findings import Finding, Judgement
from normdiag.rules.engine import judge_evidence
from tests import factories

STACK = "layers"


def evidence(
    *,
    norms: tuple[Norm, ...] = (),
    adds: tuple[ResidualAdd, ...] = (),
    stacks: tuple[Stack, ...] = (),
    subject: dict | None = None,
    coverage: Coverage | None = None,
    norm_inputs: dict[str, NormMeasurement] | None = None,
    **measurements,
) -> Evidence:
    """`norm_inputs` is `measurements.norms`, since `norms` are those of the architecture."""
    return Evidence(
        subject=factories.subject(**(subject or {})),
        architecture=Architecture(stacks=stacks, norms=norms, residual_adds=adds),
        measurements=Measurements(norms=norm_inputs or {}, **measurements),
        coverage=coverage or Coverage(),
    )


def stack(layers: int = 32, id: str = STACK, **given) -> Stack:
    return factories.stack(id, layers, **{"width": 64, **given})


def norms(layers: int = 32, id: str = STACK, **given) -> tuple[Norm, ...]:
    """One norm per layer."""
    fields = {"features": 64, **given}
    return tuple(
        factories.norm(f"{id}.{layer}.norm", stack=id, layer=layer, **fields)
        for layer in range(layers)
    )


def make_adds(layers: int = 32, id: str = STACK, **given) -> tuple[ResidualAdd, ...]:
    """One add per layer."""
    return tuple(factories.add(id, layer, 0, 1, **given) for layer in range(layers))


def make_measurement(share: float, **given) -> NormMeasurement:
    """A norm input with this eps_share, the same for every token."""
    eps = 1e-5
    made = factories.norm_measurement(eps / share - eps, eps, **given)
    return replace(made, eps_share=MedianMax(median=share, max=share))


def run_rule(evidence: Evidence, rule: str, **limits: float) -> tuple[Finding, ...]:
    """What one rule finds; it must have looked."""
    judgement = judge_rule(evidence, rule, **limits)
    assert judgement.skipped == ()
    return judgement.findings


def judge_rule(evidence: Evidence, rule: str, **limits: float) -> Judgement:
    return judge_evidence(evidence, select=[rule], thresholds={rule: limits})


def one(evidence: Evidence, rule: str, **limits: float) -> Finding:
    """The only finding of one rule."""
    (finding,) = run_rule(evidence, rule, **limits)
    return finding
