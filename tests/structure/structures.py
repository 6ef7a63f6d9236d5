"""The architecture that normdiag detects in a model, without measurements."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from normdiag.evidence.architecture import Architecture
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import RowSampling, run_forward
from normdiag.measure.passes.site_observer import MeasuredQuantities


def architecture(model: nn.Module, inputs: dict[str, Any]) -> Architecture:
    """Return the architecture of one forward."""
    quantities = MeasuredQuantities(False, False)
    forward = run_forward(model, Batch(inputs=inputs), quantities, RowSampling(tokens=4, seed=0))
    return forward.sites.architecture


def add_noise(model: nn.Module) -> nn.Module:
    """Small noise on every parameter, so that no gate is zero and no LayerScale is tiny."""
    draws = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=draws)
    return model
