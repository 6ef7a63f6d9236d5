"""The first sequence of a batch, cut short: for what costs much per token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from normdiag.inputs.batch import Batch
from normdiag.inputs.padding import input_side, token_mask

_EMBEDDINGS = ("inputs_embeds", "decoder_inputs_embeds")


def truncate_batch(batch: Batch, positions: int) -> Batch:
    """The first sequence, its first `positions` tokens that are not padding.

    Where the inputs are more than token ids, masks and embeddings of (sequences, positions, ..),
    such as images, the batch is given back as it is: what belongs to which token is not known.
    """
    named: dict[Any, Any] = {**dict(enumerate(batch.args)), **batch.inputs}
    tensors = {name: value for name, value in named.items() if value is not None}
    tensors = {n: v for n, v in tensors.items() if not isinstance(v, (bool, int, float, str))}
    lengths = {
        tuple(value.shape[:2])
        for name, value in tensors.items()
        if isinstance(value, torch.Tensor) and _holds_tokens(name, value)
    }
    for value in tensors.values():
        if not isinstance(value, torch.Tensor) or tuple(value.shape[:2]) not in lengths:
            return batch

    def cut(name: Any, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        start = first_token_position(batch, input_side(str(name)))
        return value[:1, start : start + positions]

    start = first_token_position(batch)
    ends = slice(start, start + positions)
    return replace(
        batch,
        inputs={name: cut(name, value) for name, value in batch.inputs.items()},
        args=tuple(cut(i, value) for i, value in enumerate(batch.args)),
        rows=batch.rows[:1],
        texts=batch.texts[:1],
        ids=None if batch.ids is None else tuple(row[ends] for row in batch.ids[:1]),
        tokens=tuple(row[ends] for row in batch.tokens[:1]),
        special=tuple(row[ends] for row in batch.special[:1]),
    )


def _holds_tokens(name: Any, value: torch.Tensor) -> bool:
    is_whole = not value.is_floating_point() and not value.is_complex()
    return (value.dim() == 2 and is_whole) or (value.dim() == 3 and name in _EMBEDDINGS)


def first_token_position(batch: Batch, side: str = "") -> int:
    """Where the padding on the left of the first sequence ends; `side`: "" or "decoder_"."""
    mask = token_mask(batch, side)
    if mask is None:
        return 0
    real = mask[0].nonzero()
    return int(real[0]) if real.numel() else 0
