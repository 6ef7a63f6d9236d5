"""What a model that overflows in half precision would reach in float32."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from normdiag.errors import NormdiagError
from normdiag.evidence.nonfinite import Reached
from normdiag.inputs.batch import Batch
from normdiag.loading.reinitialised import LARGEST
from normdiag.measure.passes.forward import Sampling, run
from normdiag.measure.passes.observer import Wanted
from normdiag.measure.sites.assembly import Assembly


def reached_in_float32(model: nn.Module, batch: Batch) -> Reached | None:
    """The largest |y| of all adds of one forward of a float32 copy, which lives no longer.

    None for a model that is wide enough already or too large to be copied, and where the copy does
    not run or overflows as well.
    """
    parameters = list(model.parameters())
    size = sum(4 * p.numel() for p in parameters)
    is_half = any(p.dtype in (torch.float16, torch.bfloat16) for p in parameters)
    if not is_half or size > LARGEST or getattr(model, "is_quantized", False):
        return None
    try:
        done = run(deepcopy(model).float(), _widened(batch), Wanted(norms=False), Sampling(1))
    except (NormdiagError, RuntimeError):  # what cannot be copied or cast
        return None
    streams = Assembly.of(done, batch.rows).add_streams
    peaks = {name: s.largest[0] for name, s in streams.items() if s.largest is not None}
    if not peaks or not done.is_finite:
        return None
    site = max(peaks, key=lambda name: peaks[name])
    return Reached(site=site, max_abs=peaks[site])


def _widened(batch: Batch) -> Batch:
    def wide(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.float() if is_float else value

    return replace(
        batch,
        args=tuple(map(wide, batch.args)),
        inputs={name: wide(value) for name, value in batch.inputs.items()},
    )
