"""Which tokens of a batch are padding: the one place where attention masks are read."""

from __future__ import annotations

import torch

from normdiag.inputs.batch import Batch

DECODER = "decoder_"
"""Prefix of the inputs of a decoder that has an encoder before it."""


def input_side(name: str) -> str:
    """The prefix of the side that an input belongs to: `DECODER`, or "" for the others."""
    return DECODER if name.startswith(DECODER) else ""


def token_mask(batch: Batch, side: str = "") -> torch.Tensor | None:
    """True where a token is real, (sequences, positions); None where no mask says.

    Masks of another rank than two, which say what attends to what, are not read, nor are those
    without values.
    """
    mask = batch.inputs.get(f"{side}attention_mask")
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2 or mask.is_meta:
        return None
    return mask != 0


def has_partial_mask(batch: Batch) -> bool:
    """Whether an attention mask of any rank leaves something out."""
    mask = batch.inputs.get("attention_mask")
    return isinstance(mask, torch.Tensor) and not bool((mask != 0).all())
