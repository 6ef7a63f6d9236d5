"""Seeded inputs for language models."""

from __future__ import annotations

import torch


def token_ids(rows: int, length: int, vocabulary: int, seed: int) -> torch.Tensor:
    """Seeded token ids, none of them 0 to 2 (padding and its kin)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, vocabulary, (rows, length), generator=generator)


def mask(lengths: list[int], side: str) -> torch.Tensor:
    """An attention mask for sequences of these lengths, padded on one side."""
    width = max(lengths)
    rows = [[1] * length + [0] * (width - length) for length in lengths]
    return torch.tensor([row if side == "right" else row[::-1] for row in rows])


def corner(batch: dict, rows: int, length: int) -> dict:
    """The first tokens of the first sequences."""
    return {key: tensor[:rows, :length] for key, tensor in batch.items()}
