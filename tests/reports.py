"""Fabricated reports of sound models; the numbers come from smooth formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from normdiag.evidence.architecture import Architecture, Norm, Scale
from normdiag.evidence.coverage import Coverage, SkippedMeasurement
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.invariances import (
    CentringEffect,
    Invariances,
    KindInvariance,
    ScaleInvariantWeight,
)
from normdiag.evidence.layers import LayerMeasurement
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.norm_swap import NormSwap, SwapLoss
from normdiag.evidence.statistics import MedianMax
from normdiag.evidence.stream import Closure, Contribution, Growth, HeadInput, TokenPosition
from normdiag.evidence.subject import InputSummary
from normdiag.evidence.weights import StaticPass, TensorSummary
from normdiag.findings import Finding, Judgement, SkippedRule
from normdiag.report.report import Report
from tests.factories import (
    add,
    add_measurement,
    blocks,
    norm,
    norm_measurement,
    replays,
    stack,
    subject,
    typical,
)


def llama(layers: int = 24) -> Report:
    """A healthy pre-norm model, two adds a layer, with one massive activation."""
    name = "model.layers"
    kinds = ("input_layernorm", "post_attention_layernorm")
    norms = [
        norm(f"{name}.{layer}.{kind}", stack=name, layer=layer)
        for layer in range(layers)
        for kind in kinds
    ]
    adds = [
        add(name, layer, k, 2, input_norms=(f"{name}.{layer}.{kind}",))
        for layer in range(layers)
        for k, kind in enumerate(kinds)
    ]
    architecture = Architecture(
        stacks=(stack(name, layers),),
        norms=(*norms, norm("model.norm", "final", stack=name)),
        residual_adds=tuple(adds),
    )
    stream = {
        site.id: add_measurement(3.1 * 1.08**site.depth, 0.45 - 0.005 * site.depth) for site in adds
    }
    massive = f"{name}.{min(4, layers - 1)}/add#1"
    stream[massive] = replace(
        stream[massive],
        max_abs=812.5,
        max_token=TokenPosition(sequence=0, position=9),
        cosine=typical(-0.62),
        sink_ratio=39.0,
    )
    for site in adds:
        part = Contribution(signed=0.9**site.depth / 12, energy=0.9**site.depth / 11, tokens=40)
        stream[site.id] = replace(stream[site.id], contribution=part)
    seen = {site.id: norm_measurement(2e-4 * 1.4**place) for place, site in enumerate(norms)} | {
        "model.norm": norm_measurement(40.0)
    }
    last, first = stream[adds[-1].id].out_norm.mean, stream[adds[0].id].out_norm.mean
    law = Growth(
        law="geometric",
        rate=1.08,
        rate_error=0.002,
        confidence=0.98,
        total=last / first,
        runner_up="power",
        init_total=last / first / 3.1,
        total_over_init=3.1,
        update_ratio_sqrt_depth=1.7,
        sink_ratio=39.0,
        initial_contribution=Contribution(signed=0.02, energy=0.03, tokens=40),
    )
    return Report.from_evidence(
        Evidence(
            subject=subject(),
            architecture=architecture,
            measurements=Measurements(
                norms=seen,
                stream=stream,
                growth={name: law},
                layers=turns(name, layers),
                blocks=blocks(adds),
                invariances=blind("rmsnorm", norms[0].id),
                norm_swap=swap(norms),
                closure={name: Closure(max_rel_error=3.1e-7, layer=min(12, layers - 1))},
                replay=replays(architecture),
                head_input=HeadInput(rms=2.1, max_abs=41.0),
                weights=StaticPass(
                    tensors=272, elements=134_515_008, nonfinite=0, dtypes={"F32": 272}, flagged=()
                ),
            ),
            coverage=Coverage(operations=1931),
        ),
        Judgement(
            findings=(
                Finding(
                    code="ND304",
                    name="massive-activation",
                    severity="warning",
                    confidence="high",
                    ids=(massive,),
                    message="one value is 812.5, 9950 times the median magnitude of the stream",
                    value=9950.0,
                    threshold=1000.0,
                    advice="keep this channel out of 8-bit quantisation of activations",
                ),
            ),
            passed=("ND101", "ND102", "ND203", "ND301", "ND302", "ND401"),
        ),
    )


def bert(layers: int = 3) -> Report:
    """A post-norm encoder with an embedding norm; tokens were padded."""
    name = "bert.encoder.layer"
    ends = ("attention.output.LayerNorm", "output.LayerNorm")
    same = {"kind": "layernorm", "class_": "LayerNorm", "features": 384, "eps": 1e-12}
    norms = [
        norm(f"{name}.{layer}.{end}", "stream", stack=name, layer=layer, bias_rms=0.2, **same)
        for layer in range(layers)
        for end in ends
    ]
    adds = [
        add(
            name,
            layer,
            k,
            2,
            placement="post",
            input_norms=(),
            stream_norm=f"{name}.{layer}.{end}",
            skip_norm=norms[2 * layer + k - 1].id if layer + k else "bert.embeddings.LayerNorm",
        )
        for layer in range(layers)
        for k, end in enumerate(ends)
    ]
    shape = stack(
        name,
        layers,
        placement="post",
        norm_kind="layernorm",
        final_norm=None,
        embedding_norm="bert.embeddings.LayerNorm",
        read_by="caller",
        width=384,
        drawing="ln(x + F(x))",
    )
    architecture = Architecture(
        stacks=(shape,),
        norms=(norm("bert.embeddings.LayerNorm", "embedding", stack=name, **same), *norms),
        residual_adds=tuple(adds),
    )
    return Report.from_evidence(
        Evidence(
            subject=subject(
                "./minilm",
                model_type="bert",
                class_="BertModel",
                parameters=22_713_216,
                special_tokens=("[CLS]", "[SEP]"),
            ),
            architecture=architecture,
            measurements=Measurements(
                norms={site.id: norm_measurement(0.6, 1e-12) for site in architecture.norms},
                stream={site.id: add_measurement(14.0 + site.depth / 10, 0.5) for site in adds},
                growth={
                    name: Growth(
                        law="constant", rate=None, rate_error=None, confidence=0.71, total=1.03
                    )
                },
                closure={name: Closure(max_rel_error=2.2e-7, layer=1)},
                layers=turns(name, layers),
                blocks=blocks(adds, zeros=2),
                invariances=blind("layernorm", norms[0].id),
                replay=replays(architecture),
            ),
            coverage=Coverage(modules_not_called=("bert.pooler", "bert.pooler.dense")),
        ),
        Judgement(
            passed=("ND102", "ND203"),
            skipped=(
                SkippedRule(code="ND401", name="geometric-growth", why="needs 8 layers, has 3"),
            ),
        ),
    )


def encoder_decoder() -> Report:
    """Two stacks of different kinds: two adds a layer, then three with branch scales."""
    sides = (("encoder.block", 2, 2), ("decoder.block", 2, 3))
    adds = [
        add(name, layer, k, count, branch_scale=Scale(kind="learned", rms=0.1, min=0.01, max=0.4))
        for name, layers, count in sides
        for layer in range(layers)
        for k in range(count)
    ]
    norms = [
        norm(site.input_norms[0], stack=site.stack, layer=site.layer, features=512, eps=1e-6)
        for site in adds
    ]
    stacks = tuple(
        stack(
            name,
            layers,
            residual_adds_per_layer=count,
            norms_per_layer=count,
            final_norm=f"{name.split('.')[0]}.final_layer_norm",
            branch_scale="learned",
            qk_norm=name.startswith("decoder"),
            width=512,
            drawing="x + b F(rms(x))",
        )
        for name, layers, count in sides
    )
    architecture = Architecture(
        stacks=stacks,
        norms=(*norms, *(norm(str(each.final_norm), "final", stack=each.id) for each in stacks)),
        residual_adds=tuple(adds),
    )
    return Report.from_evidence(
        Evidence(
            subject=subject("org/seq2seq", model_type="t5", class_="T5ForConditionalGeneration"),
            architecture=architecture,
            measurements=Measurements(
                norms={site.id: norm_measurement(3.0, 1e-6) for site in architecture.norms},
                stream={site.id: add_measurement(2.0 * (site.depth + 1) ** 0.5) for site in adds},
                growth={
                    "encoder.block": Growth(
                        law="additive",
                        rate=0.9,
                        rate_error=0.1,
                        confidence=0.8,
                        total=2.0,
                        runner_up="power",
                    ),
                    "decoder.block": Growth(
                        law="undecided", rate=None, rate_error=None, confidence=0.4, total=2.4
                    ),
                },
                closure={each.id: Closure(max_rel_error=4e-7, layer=0) for each in stacks},
                replay=replays(architecture),
            ),
        ),
        Judgement(passed=("ND101",)),
    )


def turns(stack: str, layers: int) -> dict[str, LayerMeasurement]:
    """Layers that turn the stream less and less."""
    return {
        f"{stack}/layer#{k}": LayerMeasurement(
            stack=stack,
            layer=k,
            tokens=41,
            block_influence=0.4 / (1 + k),
            angular_distance=0.3 / (1 + k) ** 0.5,
            effective_rank=30.0 - k / 2,
            stable_rank=5.0,
        )
        for k in range(layers)
    }


def blind(kind: Literal["layernorm", "rmsnorm"], site: str) -> Invariances:
    """One kind of norm that the model has, and a batch norm in its head."""
    centres = kind == "layernorm"
    own = KindInvariance(
        norm=site,
        method="module",
        scale=2e-7,
        shift=0.0 if centres else 0.7,
        batch=0.0,
        padding=0.0,
        train_vs_eval=0.0,
        batch_size_one=None,
    )
    coupled = replace(
        own,
        norm="head.bn",
        scale=0.98,
        shift=1.1,
        batch=0.4,
        padding=0.3,
        train_vs_eval=0.2,
        batch_size_one=0.0,
    )
    mean = CentringEffect(
        kind=kind,
        norms=6,
        median=0.9,
        max=140.0 if centres else 1.4,
        norm=site,
        share=0.37 if centres else 0.002,
    )
    weight = ScaleInvariantWeight(weight="head.weight", norm="head.bn", frobenius=12.5)
    return Invariances(
        kinds={kind: own, "batchnorm": coupled}, centring=(mean,), scale_invariant_weights=(weight,)
    )


def swap(norms: list[Norm]) -> NormSwap:
    """LayerNorm instead of RMSNorm, everywhere."""
    return NormSwap(
        layer_norms=0,
        rms_norms=len(norms),
        swapped=len(norms),
        alone={
            norm.id: MedianMax(median=0.01 * (place % 5), max=0.03 * (place % 5))
            for place, norm in enumerate(norms)
        },
        hidden_change=0.1326,
        tokens=512,
        loss=SwapLoss(kind="causal-lm", tokens=508, before=2.6727, after=2.7691),
    )


def weights_only() -> Report:
    """Nothing was run: only the stored tensors were gone over."""
    vectors = tuple(
        TensorSummary(
            name=f"model.layers.{layer}.input_layernorm.weight",
            shape=(576,),
            dtype="BF16",
            loaded_dtype=None,
            nonfinite=0,
            zeros=layer,
            elements=576,
            max_abs=2.0 + layer,
        )
        for layer in range(3)
    )
    return Report.from_evidence(
        Evidence(
            subject=subject(
                "./quantised",
                mode="weights-only",
                probe=InputSummary(kind="none", sequences=0, tokens=0),
            ),
            measurements=Measurements(
                weights=StaticPass(
                    tensors=12,
                    elements=9_000_000,
                    nonfinite=0,
                    dtypes={"BF16": 3, "I8": 9},
                    flagged=(),
                    vectors=vectors,
                )
            ),
            coverage=Coverage(skipped=(SkippedMeasurement(what="forward", why="--weights-only"),)),
        ),
        Judgement(
            passed=("ND203",), skipped=(SkippedRule(code="ND101", name="x", why="no stacks"),)
        ),
    )
