"""Truncate a batch to the first tokens of its first sequence, for costly measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from normdiag.inputs.batch import Batch
from normdiag.inputs.padding import input_side, token_mask

_Item = TypeVar("_Item")
_EMBEDDINGS = ("inputs_embeds", "decoder_inputs_embeds")


def truncate_batch(batch: Batch, positions: int, *, keeps_last: bool = False) -> Batch:
    """Keep the first `positions` tokens of the first sequence that are not padding.

    With `keeps_last` the last of them is the sequence's last token, such as a [SEP].

    A batch is returned unchanged where inputs are more than token ids, masks and embeddings of
    shape (sequences, positions, ...), such as images, since their relation to tokens is unknown.
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

    def cut_value(name: Any, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        chosen = _select_positions(batch, positions, keeps_last, input_side(str(name)))
        return value[:1, [k for k in chosen if k < value.shape[1]]]

    chosen = _select_positions(batch, positions, keeps_last)

    def cut_row(row: Sequence[_Item]) -> tuple[_Item, ...]:
        return tuple(row[k] for k in chosen if k < len(row))

    return replace(
        batch,
        inputs={name: cut_value(name, value) for name, value in batch.inputs.items()},
        args=tuple(cut_value(i, value) for i, value in enumerate(batch.args)),
        rows=batch.rows[:1],
        texts=batch.texts[:1],
        ids=None if batch.ids is None else tuple(cut_row(row) for row in batch.ids[:1]),
        tokens=tuple(cut_row(row) for row in batch.tokens[:1]),
        special=tuple(cut_row(row) for row in batch.special[:1]),
    )


def _holds_tokens(name: Any, value: torch.Tensor) -> bool:
    is_whole = not value.is_floating_point() and not value.is_complex()
    return (value.dim() == 2 and is_whole) or (value.dim() == 3 and name in _EMBEDDINGS)


def _select_positions(batch: Batch, positions: int, keeps_last: bool, side: str = "") -> list[int]:
    start = first_token_position(batch, side)
    end = count_positions(batch, side)
    mask = token_mask(batch, side)
    if keeps_last:
        real = [] if mask is None else mask[0].nonzero().flatten().tolist()
        last = real[-1] if real else end - 1
        if last >= start + positions:
            return [*range(start, start + positions - 1), last]
    return list(range(start, start + positions))


def count_positions(batch: Batch, side: str = "") -> int:
    """Positions of the longest input of one side, "" or "decoder_"."""
    named: dict[Any, Any] = {**dict(enumerate(batch.args)), **batch.inputs}
    lengths = [
        value.shape[1]
        for name, value in named.items()
        if isinstance(value, torch.Tensor) and value.dim() > 1 and input_side(str(name)) == side
    ]
    return max(lengths, default=0)


def first_token_position(batch: Batch, side: str = "") -> int:
    """The first position without padding; `side` is "" or "decoder_"."""
    mask = token_mask(batch, side)
    if mask is None:
        return 0
    real = mask[0].nonzero()
    return int(real[0]) if real.numel() else 0
