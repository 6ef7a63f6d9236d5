"""Reports for charts: fabricated ones with all that can be drawn, and parts of theirs."""

from __future__ import annotations

from dataclasses import replace

from normdiag.evidence.attention_logits import AttentionLogits
from normdiag.evidence.gradients import Clipping, Gradients, GradientTrend, Loss
from normdiag.evidence.precision import FormatHeadroom, InnerPeak, Precision
from normdiag.evidence.statistics import MeanMedianMax
from normdiag.evidence.stream import GrowthPhase
from normdiag.evidence.tokens import TokenTrace
from normdiag.report.report import Report
from normdiag.rules.engine import judge_evidence
from tests.reports import llama

STACK = "model.layers"


def complete(layers: int = 6, tokens: int = 0) -> Report:
    """A report with gradients, number formats, logits, ratios and phases; traced if `tokens`."""
    base = llama(layers)
    adds, measured = base.architecture.residual_adds, base.measurements
    stream = {
        site: replace(at, out_ratio=MeanMedianMax(mean=1.1, median=1.0 + 0.01 * place, max=2.0))
        for place, (site, at) in enumerate(measured.stream.items())
    }
    growth = replace(
        measured.growth[STACK],
        phases=(GrowthPhase(first=0, last=3, factor=1.1, step=None),),
        init_norms={id: 2.0 + 0.1 * place for place, id in enumerate(stream)},
    )
    gains = tuple(
        norm if norm.gain is None else replace(norm, gain=replace(norm.gain, median_abs=0.8))
        for norm in base.architecture.norms
    )
    report = replace(
        base,
        architecture=replace(base.architecture, norms=gains),
        measurements=replace(
            measured,
            stream=stream,
            norms={id: replace(at, channel_share=0.05) for id, at in measured.norms.items()},
            growth={STACK: growth},
            gradients=make_gradients(report=base),
            precision=make_precision(report=base),
            attention_logits={
                f"{add.module}.self_attn": make_logits(add.id, add.layer)
                for add in adds
                if add.id.endswith("#0")
            },
        ),
    )
    nearest = judge_evidence(report.to_evidence()).nearest
    report = replace(report, rules=replace(report.rules, nearest=nearest))
    return replace(report, trace=(make_tokens(report, tokens),)) if tokens else report


def make_gradients(report: Report) -> Gradients:
    adds = report.architecture.residual_adds
    return Gradients(
        loss=Loss(kind="causal-lm", value=3.2, tokens=40),
        stream={add.id: 0.1 / (1 + add.depth) for add in adds},
        ratio_last_first=0.2,
        trends={STACK: GradientTrend(rate=1.02, rate_error=0.01, total=1.2)},
        groups={f"{STACK}.{add.layer}": 1.0 / len(adds) for add in adds},
        global_norm=2.5,
        clipping=Clipping(max_norm=1.0, factor=0.4, dominant_group=f"{STACK}.0"),
    )


def make_precision(report: Report) -> Precision:
    adds, norms = report.architecture.residual_adds, report.architecture.norms
    half = FormatHeadroom(
        largest=65504.0,
        headroom=40.0,
        headroom_site=adds[-1].id,
        square_headroom=None,
        square_headroom_site=None,
        absorbed_updates={add.id: 0.01 * add.depth for add in adds},
    )
    wide = replace(half, largest=3.4e38, headroom=1e35)
    return Precision(
        formats={"float16": half, "bfloat16": wide},
        max_abs={site.id: 4.0 + place for place, site in enumerate((*adds, *norms))},
        max_square={norm.id: 16.0 + place for place, norm in enumerate(norms)},
        inner_peaks=tuple(
            InnerPeak(
                id=f"{add.module}/product#0",
                module=add.module,
                kind="product",
                number=0,
                add=add.id,
                value=2.0 + add.depth,
                dtype="float32",
            )
            for add in adds
        ),
    )


def make_logits(add: str, layer: int) -> AttentionLogits:
    return AttentionLogits(
        add=add,
        layer=layer,
        heads=9,
        query_rows=40,
        max_abs=20.0 + layer,
        sequence=0,
        head=1,
        query=3,
        key=2,
        median_max=11.0,
        median_weight=0.4,
        head_width=64,
        scale=0.125,
        is_fused=True,
    )


def make_tokens(report: Report, tokens: int, names: tuple[str, ...] | None = None) -> TokenTrace:
    """A trace whose numbers differ at every token and site."""
    count = range(tokens)
    adds, norms = report.architecture.residual_adds, report.architecture.norms

    def spread(seed: int, factor: float) -> tuple[float, ...]:
        return tuple(factor * (1 + (place * 7919 + seed * 104729) % 997 / 97) for place in count)

    return TokenTrace(
        sequence=0,
        text=None,
        ids=None,
        tokens=names or tuple(f"t{place}" for place in count),
        special=(False,) * tokens,
        out_norm={add.id: spread(at, 3.1) for at, add in enumerate(adds)},
        update_ratio={add.id: spread(at, 0.31) for at, add in enumerate(adds)},
        input_var={norm.id: spread(at, 0.0123) for at, norm in enumerate(norms)},
        max_abs={add.id: spread(at, 2.0) for at, add in enumerate(adds)},
        max_channel={add.id: (1,) * tokens for add in adds},
    )
