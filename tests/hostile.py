"""A fabricated report of a broken model that wishes its reader ill."""

from __future__ import annotations

from dataclasses import replace

from normdiag.evidence.coverage import Coverage, SkippedMeasurement, UnexplainedAdd
from normdiag.evidence.gains import Gain
from normdiag.evidence.nonfinite import FirstNonFinite, Operand
from normdiag.evidence.norm_inputs import NormJacobian
from normdiag.evidence.statistics import MeanMedianMax, MedianMax, MedianMin
from normdiag.evidence.stream import Closure, Growth, HeadInput
from normdiag.evidence.subject import InputSummary, Loading
from normdiag.evidence.weights import StaticPass, TensorSummary
from normdiag.findings import Finding
from normdiag.report.report import Report
from tests.factories import (
    INF,
    NAN,
    add_measurement,
    norm,
    norm_measurement,
    subject,
)
from tests.reports import llama

HOSTILE = "blocks.\x1b[31m[red]0[/red]\u202e\r\nevil"
"""A module name with a terminal escape, rich markup, a bidirectional override and a line break."""


def broken() -> Report:
    """All that can be wrong at once: non-finite values, weights not loaded, hostile names."""
    base = llama(2)
    first, second = base.architecture.norms[:2]
    evil = norm(f"{HOSTILE}.norm", "unattached", eps=None, gain=None, class_="[bold]X[/bold]")
    dead = replace(first, gain=Gain(rms=NAN, min_abs=0.0, max_abs=INF, zeros=3, nonfinite=2))
    architecture = replace(
        base.architecture, norms=(dead, second, evil, *base.architecture.norms[2:])
    )
    sites = [site.id for site in base.architecture.residual_adds]
    lost = MeanMedianMax(mean=NAN, median=NAN, max=INF)
    stream = dict(base.measurements.stream) | {
        site: add_measurement(
            NAN, NAN, out_norm=lost, cosine=lost, max_abs=INF, token_cosine=None, max_channel=3
        )
        for site in sites[2:]
    }
    seen = dict(base.measurements.norms)
    seen[first.id] = replace(
        norm_measurement(1e-7),
        jacobian=NormJacobian(
            sigma_max=MedianMax(median=9.0, max=INF),
            sigma_min=MedianMin(median=0.0, min=0.0),
            kappa=MedianMax(median=INF, max=INF),
            radial=None,
            tokens=41,
        ),
    )
    seen[evil.id] = norm_measurement(NAN, 1e-5, jacobian=None)
    return Report(
        subject=subject(
            "evil/\x1b]0;owned\x07[link=http://x]name",
            class_=None,
            model_type=None,
            dtype="float16",
            probe=InputSummary(
                kind="random-ids", sequences=2, tokens=16, note="no tokenizer: seeded token ids"
            ),
            loading=Loading(
                missing=(f"{first.id}.weight", "lm_head.weight"),
                unexpected=(f"{HOSTILE}.weight",),
                mismatched=("model.norm.weight",),
                norm_parameters=(f"{first.id}.weight", "model.norm.weight"),
            ),
        ),
        architecture=architecture,
        measurements=replace(
            base.measurements,
            norms=seen,
            stream=stream,
            growth={
                "model.layers": Growth(
                    law="undecided", rate=NAN, rate_error=NAN, confidence=None, total=INF
                )
            },
            closure={"model.layers": Closure(max_rel_error=NAN, layer=1)},
            head_input=HeadInput(rms=NAN, max_abs=INF),
            first_nonfinite=FirstNonFinite(
                operation="aten.add.Tensor",
                module="model.layers.1",
                line="modeling.py:300",
                site=sites[2],
                layer=1,
                kind="inf",
                count=3,
                operands=(
                    Operand(name="skip", min=-6.1e4, max=6.3e4, nonfinite=0),
                    Operand(name="branch", min=-8.0e3, max=9.5e3, nonfinite=0),
                ),
                exact_max=7.2e4,
            ),
            weights=StaticPass(
                tensors=20,
                elements=1_000_000,
                nonfinite=2,
                dtypes={"BF16": 19, "F32": 1},
                flagged=(
                    TensorSummary(
                        name=f"{first.id}.weight",
                        shape=(576,),
                        dtype="BF16",
                        loaded_dtype="float16",
                        nonfinite=2,
                        zeros=3,
                        elements=576,
                        max_abs=2.4,
                        first_nonfinite=(17,),
                    ),
                ),
            ),
        ),
        coverage=Coverage(
            unexplained_adds=(
                UnexplainedAdd(
                    module=HOSTILE, line="evil.py:1", shape=(1, 8, 576), why="[b]no parent[/b]"
                ),
            ),
            unexplained_norms=(evil.id,),
            modules_not_called=tuple(
                f"vision.layers.{layer}.{part}" for layer in range(12) for part in ("q", "k", "v")
            ),
            skipped=(
                SkippedMeasurement(what="jacobians", why="values are not finite from layer 1 on"),
            ),
            operations=88,
        ),
        findings=(
            Finding(
                code="ND203",
                name="non-finite-parameter",
                severity="error",
                confidence="high",
                ids=(f"{first.id}.weight", f"{HOSTILE}.weight"),
                message="2 of 576 values are not finite, the first at [17]",
                value=2.0,
                threshold=0.0,
                advice="restore the tensor from an earlier checkpoint",
            ),
            Finding(
                code="ND301",
                name="epsilon-dominates",
                severity="info",
                confidence="low",
                ids=tuple(site.id for site in architecture.norms),
                message="epsilon is 99% of the denominator",
                value=NAN,
                threshold=None,
                advice="[red]see[/red] the page of the rule",
            ),
        ),
        rules=base.rules,
    )
