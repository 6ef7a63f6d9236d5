"""What is run through a model: what the options give, or what the model's own facts tell."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from normdiag.evidence.subject import Probe
from normdiag.inputs import model_inputs
from normdiag.inputs.batch import Batch
from normdiag.loading.interface import Runnable
from normdiag.options import Options


def probe_of(
    loaded: Runnable, options: Options
) -> tuple[tuple[Batch, ...], Probe, tuple[str, ...]]:
    """The batches, what they are, and the special tokens that the tokenizer added."""
    if options.inputs is None:
        asked = model_inputs.ProbeOptions(
            texts=options.texts,
            ids=options.ids,
            chat=options.chat,
            special_tokens=options.special_tokens,
            seed=options.seed,
        )
        return model_inputs.build(loaded, asked)
    given = options.inputs
    if isinstance(given, Path):
        given = model_inputs.read_inputs(given, _float_dtype(loaded.model))
    batches = model_inputs.from_inputs(given, model=loaded.model, tokenizer=loaded.tokenizer)
    return batches, model_inputs.describe(batches, "inputs"), ()


def _float_dtype(model: nn.Module) -> torch.dtype:
    floating = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next(floating, torch.float32)
