"""Random weights that give every quantity of a report a value worth comparing."""

from __future__ import annotations

import torch
from torch import nn


def enliven(model: nn.Module, seed: int) -> nn.Module:
    """Redraw all parameters in place: gains of both signs, biases, branches as large as streams."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                parameter.copy_(noise * parameter.shape[-1] ** -0.5)
            else:
                parameter.copy_(0.5 * noise + (0.0 if name.endswith("bias") else 1.0))
    return model.eval()
