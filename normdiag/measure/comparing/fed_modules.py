"""Modules of the second model, fed with what norms of the first received: inputs are equal then."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from normdiag.errors import RunError
from normdiag.evidence.differences import RelativeDifference
from normdiag.inputs.batch import Batch
from normdiag.measure.comparing.differences import compare_rows
from normdiag.measure.comparing.snapshot import SnapshotNorm
from normdiag.measure.passes.model_call import call_model, quiet_model


def compare_fed_modules(
    model: nn.Module, norms: Mapping[str, SnapshotNorm]
) -> dict[str, RelativeDifference]:
    """By id of a norm, which is the path of its module where that does nothing else.

    Left out are norms without a module of that path in `model`, and modules that do not turn the
    rows into as many of the same width.
    """
    modules = dict(model.named_modules())
    differences = {}
    with torch.no_grad(), quiet_model(model):
        for name, norm in norms.items():
            rows = _feed_module(modules[name], norm.input_rows) if name in modules else None
            if rows is not None:
                differences[name] = compare_rows(norm.output_rows.double(), rows.double())
    return differences


def _feed_module(module: nn.Module, rows: torch.Tensor) -> torch.Tensor | None:
    like = next((p for p in module.parameters() if p.is_floating_point()), rows)
    try:
        output = call_model(module, Batch(args=(rows.to(like)[None],)))
    except RunError:
        return None
    is_like = isinstance(output, torch.Tensor) and output.shape == (1, *rows.shape)
    return output[0].cpu() if is_like else None
