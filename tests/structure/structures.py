"""What normdiag finds in a model, without any measuring."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from normdiag.evidence.architecture import Architecture
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import RowSampling, run_forward
from normdiag.measure.passes.site_observer import MeasuredQuantities
from normdiag.measure.sites.site_statistics import assemble


def architecture(model: nn.Module, inputs: dict[str, Any]) -> Architecture:
    """The structure of one forward."""
    wanted = MeasuredQuantities(False, False)
    done = run_forward(model, Batch(inputs=inputs), wanted, RowSampling(tokens=4, seed=0))
    return assemble([done], [()]).sites.architecture


def stirred(model: nn.Module) -> nn.Module:
    """Small noise on every parameter, so that no gate is zero and no LayerScale is tiny."""
    draws = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=draws)
    return model
