"""LayerNorm and RMSNorm timed at the shapes, dtype and device of a model's norms."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import median
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normdiag.evidence.norm_speed import NormSpeed
from normdiag.structure.build_architecture import SiteMap

RUNS, _WARM_UP, _SHAPES = 30, 3, 4
_EPS = 1e-5
Form = Literal["fused", "composed"]
Operation = Callable[[], Tensor]


def measure_norm_speed(model: nn.Module, sites: SiteMap, runs: int = RUNS) -> tuple[NormSpeed, ...]:
    """Time both kinds, both forms of each, for the most frequent shapes of norm inputs."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    inputs = Counter(
        (norm.source.shape, norm.count, norm.source.dtype)
        for norm in sites.norms
        if norm.kind in ("layernorm", "rmsnorm")
    )
    return tuple(
        time_norms(form, shape, features, getattr(torch, dtype), device, many, runs)
        for (shape, features, dtype), many in inputs.most_common(_SHAPES)
        for form in ("fused", "composed")
    )


@torch.no_grad()
def time_norms(
    form: Form,
    shape: tuple[int, ...],
    features: int,
    dtype: torch.dtype,
    device: torch.device,
    norms: int = 1,
    runs: int = RUNS,
) -> NormSpeed:
    """Run both kinds in turn, so that what disturbs one disturbs the other."""
    rows = torch.Size(shape).numel() // features
    x = torch.randn(rows, features, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    gain, bias = torch.ones(features).to(x), torch.zeros(features).to(x)
    forms: dict[str, tuple[Operation, Operation]] = {
        "fused": (
            lambda: F.layer_norm(x, (features,), gain, bias, _EPS),
            lambda: F.rms_norm(x, (features,), gain, _EPS),
        ),
        "composed": (
            lambda: compose_layer_norm(x, gain, bias),
            lambda: compose_rms_norm(x, gain),
        ),
    }
    kinds = forms[form]
    for _ in range(_WARM_UP):
        for run in kinds:
            run()
    layer, rms = zip(*_iterate_pairs(kinds, runs, device), strict=True)
    ratios = [b / a for a, b in zip(layer, rms, strict=True)]
    return NormSpeed(
        form=form,
        shape=tuple(shape),
        features=features,
        dtype=str(dtype).removeprefix("torch."),
        device=str(device),
        norms=norms,
        runs=runs,
        layer_norm_ms=1e3 * median(layer),
        rms_norm_ms=1e3 * median(rms),
        ratio=median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
    )


def compose_layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """gain (x - mean) / sqrt(var + eps) + bias."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + _EPS) * gain + bias


def compose_rms_norm(x: Tensor, gain: Tensor) -> Tensor:
    """gain x / sqrt(mean(x^2) + eps)."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + _EPS) * gain


def _iterate_pairs(
    kinds: tuple[Operation, Operation], runs: int, device: torch.device
) -> Iterator[tuple[float, float]]:
    """Seconds of each kind, run after run."""
    for _ in range(runs):
        first, second = (_time_run(run, device) for run in kinds)
        yield first, second


def _time_run(run: Operation, device: torch.device) -> float:
    _wait_for(device)
    start = time.perf_counter()
    run()
    _wait_for(device)
    return max(time.perf_counter() - start, 1e-9)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
