"""Fabricated reports: rules, the report and renderers are tested on these, without any model.

The numbers are made up, from smooth formulas, and shaped like those of real models.
"""

from __future__ import annotations

from dataclasses import replace

from normdiag.evidence.architecture import Architecture, Gain, Norm, ResidualAdd, Scale, Stack
from normdiag.evidence.coverage import Coverage, Skipped, UnexplainedAdd
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.nonfinite import FirstNonFinite, Operand
from normdiag.evidence.norm_inputs import Amplification, NormJacobian, NormMeasurement
from normdiag.evidence.replay import Replay
from normdiag.evidence.statistics import Least, Range, Typical, Worst
from normdiag.evidence.stream import AddMeasurement, Closure, Growth, HeadInput, Position
from normdiag.evidence.subject import Loading, Probe, Subject, Versions
from normdiag.evidence.tokens import TokenTrace
from normdiag.evidence.weights import StaticPass, Tensor
from normdiag.findings import Finding, Judgement, Skip
from normdiag.report.report import Report

NONE = Scale(kind="none")
INF, NAN = float("inf"), float("nan")


# --- parts ---------------------------------------------------------------------------------------


def typical(value: float) -> Typical:
    return Typical(mean=value * 1.02, median=value, max=value * 1.3)


def subject(target: str = "org/small", **given) -> Subject:
    fields = {
        "target": target,
        "model_type": "llama",
        "class_": "LlamaForCausalLM",
        "parameters": 134_515_008,
        "dtype": "float32",
        "device": "cpu",
        "probe": Probe(kind="texts", sequences=3, tokens=41, texts=("a", "b", "c"), seed=0),
        "versions": Versions(normdiag="0.1.0", torch="2.13.0", transformers="5.1.0"),
        "weights_digest": "3f2a9c01d4e87b65",
        "command": f"normdiag inspect {target}",
    }
    return Subject(**{**fields, **given})


def norm(id: str, role: str = "branch-input", **given) -> Norm:
    fields = {
        "line": "modeling.py:62",
        "axes": (-1,),
        "kind": "rmsnorm",
        "class_": "RMSNorm",
        "features": 576,
        "eps": 1e-5,
        "calls": 1,
        "gain": Gain(rms=0.9, min_abs=0.02, max_abs=2.4, zeros=0, nonfinite=0),
        "bias_rms": None,
    }
    return Norm(id=id, role=role, **{**fields, **given})


def norm_measurement(variance: float = 1.0, eps: float = 1e-5, **given) -> NormMeasurement:
    share = eps / (variance + eps)
    slope = (variance + eps) ** -0.5
    fields = {
        "tokens": 41,
        "input_mean": 0.001,
        "input_var": Range(min=variance / 2, median=variance, p95=variance * 3, max=variance * 5),
        "eps_share": Worst(median=share, max=min(1.0, 2 * share)),
        "amplification": Amplification(median=slope, max=1.4 * slope, bound=eps**-0.5),
        "mean_energy": 0.002,
        "offset_share": 0.3,
        "max_abs": variance**0.5 * 12,
        "top_channels": (412, 7, 96),
        "jacobian": NormJacobian(
            sigma_max=Worst(median=2.4 * slope, max=3.0 * slope),
            sigma_min=Least(median=0.1 * slope, min=0.05 * slope),
            kappa=Worst(median=24.0, max=60.0),
            radial=Worst(median=1e-5, max=3e-5),
            tokens=41,
        ),
    }
    return NormMeasurement(**{**fields, **given})


def add(stack: str, layer: int, k: int, per_layer: int, **given) -> ResidualAdd:
    module = f"{stack}.{layer}"
    fields = {
        "line": f"modeling.py:{300 + 6 * k}",
        "placement": "pre",
        "input_norms": (f"{module}.norm{k + 1}",),
        "output_norms": (),
        "stream_norm": None,
        "skip_norm": None,
        "inner_norms": (),
        "branches": 1,
        "skip_scale": NONE,
        "branch_scale": NONE,
    }
    return ResidualAdd(
        id=f"{module}/add#{k}",
        stack=stack,
        layer=layer,
        module=module,
        depth=layer * per_layer + k,
        **{**fields, **given},
    )


def add_measurement(size: float = 10.0, update: float = 0.3, **given) -> AddMeasurement:
    fields = {
        "tokens": 41,
        "skip_norm": typical(size / (1 + update / 3)),
        "branch_norm": typical(size * update),
        "out_norm": typical(size),
        "update_ratio": typical(update),
        "cosine": Typical(mean=0.11, median=0.12, max=0.4),
        "angle_deg": typical(14.0),
        "max_abs": size * 0.8,
        "max_channel": 412,
        "max_token": Position(sequence=0, position=0),
        "median_abs": size * 0.02,
        "token_cosine": 0.31,
        "kurtosis": typical(9.0),
    }
    return AddMeasurement(**{**fields, **given})


def stack(id: str, layers: int, **given) -> Stack:
    fields = {
        "placement": "pre",
        "norm_kind": "rmsnorm",
        "norms_per_layer": 2,
        "residual_adds_per_layer": 2,
        "qk_norm": False,
        "branch_scale": "none",
        "skip_scale": "none",
        "final_norm": "model.norm",
        "embedding_norm": None,
        "width": 576,
        "drawing": "x + F(rms(x))",
    }
    return Stack(id=id, layers=layers, **{**fields, **given})


def replays(architecture: Architecture, error: float = 2e-7) -> dict[str, Replay]:
    sites = (*architecture.norms, *architecture.residual_adds)
    return {
        site.id: Replay(max_rel_error=error * (1 + place / len(sites)))
        for place, site in enumerate(sites)
    }


# --- whole reports -------------------------------------------------------------------------------


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
    stream[massive] = replace(stream[massive], max_abs=812.5, cosine=typical(-0.62))
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
    )
    return Report.from_evidence(
        Evidence(
            subject=subject(),
            architecture=architecture,
            measurements=Measurements(
                norms=seen,
                stream=stream,
                growth={name: law},
                closure={name: Closure(max_rel_error=3.1e-7, layer=min(12, layers - 1))},
                replay=replays(architecture),
                head_input=HeadInput(rms=2.1, max_abs=41.0),
                weights=StaticPass(
                    tensors=272, elements=134_515_008, nonfinite=0, dtypes={"F32": 272}, noted=()
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
            passed=("ND101", "ND102", "ND202", "ND301", "ND302", "ND401"),
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
                replay=replays(architecture),
            ),
            coverage=Coverage(modules_not_called=("bert.pooler", "bert.pooler.dense")),
        ),
        Judgement(
            passed=("ND102", "ND202"),
            skipped=(Skip(code="ND401", name="geometric-growth", why="needs 8 layers, has 3"),),
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
    lost = Typical(mean=NAN, median=NAN, max=INF)
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
            sigma_max=Worst(median=9.0, max=INF),
            sigma_min=Least(median=0.0, min=0.0),
            kappa=Worst(median=INF, max=INF),
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
            probe=Probe(
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
                noted=(
                    Tensor(
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
            skipped=(Skipped(what="jacobians", why="values are not finite from layer 1 on"),),
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


def weights_only() -> Report:
    """Nothing was run: only the stored tensors were gone over."""
    vectors = tuple(
        Tensor(
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
                probe=Probe(kind="none", sequences=0, tokens=0),
            ),
            measurements=Measurements(
                weights=StaticPass(
                    tensors=12,
                    elements=9_000_000,
                    nonfinite=0,
                    dtypes={"BF16": 3, "I8": 9},
                    noted=(),
                    vectors=vectors,
                )
            ),
            coverage=Coverage(skipped=(Skipped(what="forward", why="--weights-only"),)),
        ),
        Judgement(passed=("ND203",), skipped=(Skip(code="ND101", name="x", why="no stacks"),)),
    )


def traced(base: Report | None = None) -> Report:
    """A report with the tokens of two sequences; the first token of each is an attention sink."""
    base = base or llama(6)
    texts = (
        ("The capital of France is", ("<s>", "The", "\u0120capital", "\u0120of", "\u0120France")),
        (None, ("<s>", "\u65e5\u672c\u8a9e", " ", "\n", "\x1b[31mred", "[b]x[/b]", "=1+1")),
    )
    return replace(
        base,
        trace=tuple(
            _token_trace(base, sequence, text, tokens)
            for sequence, (text, tokens) in enumerate(texts)
        ),
    )


def _token_trace(
    base: Report, sequence: int, text: str | None, tokens: tuple[str, ...]
) -> TokenTrace:
    count = range(len(tokens))
    adds, norms = base.architecture.residual_adds, base.architecture.norms
    sink = [12.0 if place == 0 else 1.0 + 0.05 * place for place in count]
    sizes = {site.id: base.measurements.stream[site.id].out_norm.median for site in adds}
    channel = {site.id: tuple(412 if place == 0 else 7 + place for place in count) for site in adds}
    return TokenTrace(
        sequence=sequence,
        text=text,
        ids=tuple(100 + place for place in count) if text else None,
        tokens=tokens,
        special=tuple(place == 0 for place in count),
        out_norm={
            site.id: tuple(
                sizes[site.id] * (sink[place] if site.layer > 1 else 1.0) for place in count
            )
            for site in adds
        },
        update_ratio={
            site.id: tuple(0.3 / (1 + place * site.depth / 10) for place in count) for site in adds
        },
        input_var={
            site.id: tuple(1e-3 * 1.5**at * (1 + place) for place in count)
            for at, site in enumerate(norms)
        },
        max_abs={
            site.id: tuple(sizes[site.id] * 0.8 * sink[place] for place in count) for site in adds
        },
        max_channel=channel,
    )
