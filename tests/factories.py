"""Fabricated pieces of evidence, for tests that need no model.

The numbers are made up and shaped like those of real models; every field can be overridden.
"""

from __future__ import annotations

import math
from dataclasses import replace

from normdiag.evidence.architecture import Architecture, Norm, ResidualAdd, Scale, Stack
from normdiag.evidence.blocks import BlockJacobian, TokenBlock
from normdiag.evidence.gains import Gain
from normdiag.evidence.norm_inputs import Amplification, NormJacobian, NormMeasurement
from normdiag.evidence.replay import Replay
from normdiag.evidence.statistics import MeanMedianMax, MedianMax, MedianMin, Range
from normdiag.evidence.stream import AddMeasurement, TokenPosition
from normdiag.evidence.subject import InputSummary, Subject, Versions

NONE = Scale(kind="none")
INF, NAN = float("inf"), float("nan")


def typical(value: float) -> MeanMedianMax:
    return MeanMedianMax(mean=value * 1.02, median=value, max=value * 1.3)


def subject(target: str = "org/small", **given) -> Subject:
    fields = {
        "target": target,
        "model_type": "llama",
        "class_": "LlamaForCausalLM",
        "parameters": 134_515_008,
        "dtype": "float32",
        "device": "cpu",
        "probe": InputSummary(kind="texts", sequences=3, tokens=41, texts=("a", "b", "c"), seed=0),
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
        "eps_share": MedianMax(median=share, max=min(1.0, 2 * share)),
        "amplification": Amplification(median=slope, max=1.4 * slope, bound=eps**-0.5),
        "mean_energy": 0.002,
        "offset_share": 0.3,
        "max_abs": variance**0.5 * 12,
        "top_channels": (412, 7, 96),
        "jacobian": NormJacobian(
            sigma_max=MedianMax(median=2.4 * slope, max=3.0 * slope),
            sigma_min=MedianMin(median=0.1 * slope, min=0.05 * slope),
            kappa=MedianMax(median=24.0, max=60.0),
            radial=MedianMax(median=1e-5, max=3e-5),
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
        "cosine": MeanMedianMax(mean=0.11, median=0.12, max=0.4),
        "angle_deg": typical(14.0),
        "max_abs": size * 0.8,
        "max_channel": 412,
        "max_token": TokenPosition(sequence=0, position=0),
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
        "read_by": "norm",
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


def block(largest: float, smallest: float, **given) -> BlockJacobian:
    fields = {
        "span": "layer",
        "token": TokenPosition(sequence=0, position=7),
        "sigma_max": largest,
        "sigma_min": smallest,
        "kappa": largest / smallest,
        "mean_square": 1.0 + largest / 100,
        "effective_rank": 500.0,
        "zeros": 0,
        "distance": None if given.get("zeros") else largest - 1,
        "method": "dense",
        "error": 2.4e-6,
    }
    whole = BlockJacobian(**{**fields, **given})
    names = ("mean_square", "distance", "method", "error", "is_bound")
    shared = {name: getattr(whole, name) for name in names}
    tokens = tuple(
        TokenBlock(
            token=TokenPosition(sequence=0, position=position),
            sigma_max=whole.sigma_max,
            sigma_min=smallest / factor,
            kappa=largest / smallest * factor,
            **shared,
        )
        for position, factor in zip((1, 3, 4, 6, 7), (0.5, 0.8, 1.0, 2.0, 1.5), strict=True)
    )
    return replace(whole, tokens=tokens)


def blocks(adds: list[ResidualAdd], zeros: int = 0) -> dict[str, BlockJacobian]:
    """Of one stack: the first layer is extreme, the later ones are milder and milder."""
    made = {}
    for add in adds:
        large = 1.5 + 60.0 / (1 + add.depth) ** 2
        made[add.id] = block(large, 0.01, span="add", layer=add.layer, zeros=zeros)
        whole = f"{add.stack}/layer#{add.layer}"
        if whole not in made:
            hidden = {"is_bound": add.layer == 1}
            made[whole] = block(1.3 * large, 0.002, layer=add.layer, zeros=zeros, **hidden)
    largest = [b.sigma_max for b in made.values() if b.span == "layer"]
    ends = {"span": "stack", "zeros": zeros, "distance": None, "product": math.prod(largest)}
    made[adds[0].stack] = block(474.0, 9e-4, **ends)
    return made
