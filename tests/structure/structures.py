"""What normdiag finds in a model, without any measuring."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from normdiag.evidence.architecture import Architecture
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import Sampling, run
from normdiag.measure.passes.observer import Wanted
from normdiag.measure.sites.assembly import assemble


def architecture(model: nn.Module, inputs: dict[str, Any]) -> Architecture:
    """The structure of one forward."""
    wanted = Wanted(False, False)
    done = run(model, Batch(inputs=inputs), wanted, Sampling(tokens=4, seed=0))
    return assemble([done], [()]).sites.architecture


def stirred(model: nn.Module) -> nn.Module:
    """Small noise on every parameter, so that no gate is zero and no LayerScale is tiny."""
    draws = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=draws)
    return model
