"""The largest stream value that a model would have in float32, where half precision overflows."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from normdiag.errors import NormdiagError
from normdiag.evidence.nonfinite import StreamMaximum
from normdiag.inputs.batch import Batch
from normdiag.inputs.tensors import map_input_tensors
from normdiag.loading.reinitialised import MAX_PARAMETER_BYTES
from normdiag.measure.passes.forward import RowSampling, run_forward
from normdiag.measure.passes.site_observer import MeasuredQuantities
from normdiag.measure.sites.site_statistics import SiteStatistics


def find_float32_peak(model: nn.Module, batch: Batch) -> StreamMaximum | None:
    """The largest |y| of all residual adds in one forward of a float32 copy of the model.

    None for a model that is not in half precision, is offloaded or too large to be copied, and
    where the copy does not run or overflows as well.
    """
    parameters = list(model.parameters())
    size = sum(4 * p.numel() for p in parameters)
    is_half = any(p.dtype in (torch.float16, torch.bfloat16) for p in parameters)
    if any(p.is_meta for p in parameters):
        return None
    if not is_half or size > MAX_PARAMETER_BYTES or getattr(model, "is_quantized", False):
        return None
    try:
        wide_model, wide_batch = deepcopy(model).float(), map_input_tensors(batch, _widen_tensor)
        quantities = MeasuredQuantities(norms=False, peaks=False)
        forward = run_forward(wide_model, wide_batch, quantities, RowSampling(1))
    except (NormdiagError, RuntimeError):  # what cannot be copied or cast
        return None
    adds = SiteStatistics.from_pass(forward, batch.rows).add_accumulators
    peaks = {id: a.largest.value for id, a in adds.items() if a.largest.value is not None}
    if not peaks or not forward.is_finite:
        return None
    site = max(peaks, key=lambda id: peaks[id])
    return StreamMaximum(site=site, max_abs=peaks[site])


def _widen_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor
