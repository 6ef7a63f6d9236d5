"""Losses of the output of a forward, before it is computed: each a mean over target tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from normdiag.inputs.batch import Batch
from normdiag.measure.gradients.reads_ahead import (
    floating_outputs,
    input_tensor,
    real_tokens,
    replace_input,
)

MASKED = 0.15
"""The share of the tokens that are targets of a masked LM (Devlin et al. 2019)."""
_FEATURE_AXIS = 1
"""Of maps with channels: (batch, channels, ..)."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A loss, before it is computed."""

    kind: str
    note: str
    batch: Batch
    """What is run for it: for a masked LM, with the masks in place."""
    compute_loss: Callable[[Any], tuple[torch.Tensor, int]]
    """From the output of forward to the loss and the target tokens that it is a mean over."""


_ROWS = 64
"""Rows of scores over a vocabulary that are turned into losses at a time."""


@dataclass(frozen=True, slots=True)
class LossSettings:
    """Settings of a loss that do not follow from the model's behaviour."""

    mask_id: int | None = None
    """The token that stands for a masked one, where that is known."""
    seed: int = 0

    def seeded_generator(self) -> torch.Generator:
        """A fresh source of random numbers, on the CPU."""
        return torch.Generator().manual_seed(self.seed)


def scalar_output_loss(batch: Batch, which: int) -> Objective:
    """The one number that forward gives back."""
    note = "the one number that the model gives back is taken as its loss"
    return Objective("own", note, batch, lambda output: (floating_outputs(output)[which].sum(), 1))


def next_token_loss(kind: str, batch: Batch, name: str, which: int, how: str) -> Objective:
    """Mean of -log p(token t+1 | tokens to t), t and t+1 real."""
    ids = input_tensor(batch, name)
    assert ids is not None
    real = real_tokens(batch, name, tuple(ids.shape)).to(ids.device)
    targets = real[..., 1:] & real[..., :-1]
    labels = ids[..., 1:][targets]
    places = torch.nn.functional.pad(targets, (0, 1)).flatten().nonzero().flatten()

    def compute_loss(output: Any) -> tuple[torch.Tensor, int]:
        return _cross_entropy(floating_outputs(output)[which], places, labels)

    note = (
        f"every token of {name} is predicted from those before it: its output is the same "
        f"whatever comes later ({how})"
    )
    return Objective(kind, note, batch, compute_loss)


def masked_token_loss(batch: Batch, name: str, which: int, choice: LossSettings) -> Objective:
    """Mean of -log p(token) at the tokens that were masked; special tokens never are."""
    ids = input_tensor(batch, name)
    assert ids is not None
    real = real_tokens(batch, name, tuple(ids.shape)).to(ids.device)
    special = torch.tensor(batch.special, device=ids.device) if batch.special else real
    if special.shape == real.shape and bool((real & ~special).any()):
        real = real & ~special
    places = real.flatten().nonzero().flatten()
    generator = choice.seeded_generator()
    count = max(1, round(MASKED * len(places)))
    chosen = places[torch.randperm(len(places), generator=generator)[:count]].sort().values
    flat = ids.flatten().clone()
    labels = flat[chosen]
    if choice.mask_id is None:
        flat[chosen] = flat[places[torch.randint(len(places), (count,), generator=generator)]]
        stand_in = "other tokens of the same text"
    else:
        flat[chosen] = choice.mask_id
        stand_in = f"the mask token {choice.mask_id}"

    def compute_loss(output: Any) -> tuple[torch.Tensor, int]:
        return _cross_entropy(floating_outputs(output)[which], chosen, labels)

    note = (
        f"{count} of {len(places)} tokens of {name}, drawn by seed {choice.seed}, are the targets; "
        f"{stand_in} stand in their places and the rest of the text is whole. Outputs depend on "
        "later tokens (tried)"
    )
    return Objective(
        "masked-lm", note, replace_input(batch, name, flat.view(ids.shape)), compute_loss
    )


def classification_loss(batch: Batch, classes: int, which: int, choice: LossSettings) -> Objective:
    """Mean of -log p(label) over the real rows of (.., classes)."""

    def compute_loss(output: Any) -> tuple[torch.Tensor, int]:
        scores = floating_outputs(output)[which]
        places = _real_rows(batch, scores).flatten().nonzero().flatten()
        chances = scores.detach().flatten(0, -2)[places].cpu().double().nan_to_num().softmax(-1)
        labels = torch.multinomial(chances, 1, generator=choice.seeded_generator()).flatten()
        return _cross_entropy(scores, places, labels.to(scores.device))

    note = (
        f"the output has {classes} features, which is neither the width of the stream nor the "
        f"number of tokens: classes. Labels are drawn by seed {choice.seed} from what the model "
        "itself predicts: the loss is that of a model that is as often right as it believes"
    )
    return Objective("classification", note, batch, compute_loss)


def random_projection_loss(batch: Batch, which: int, choice: LossSettings) -> Objective:
    """Mean over tokens of <r, y> / sqrt(H), r standard normal and drawn for every token."""

    def compute_loss(output: Any) -> tuple[torch.Tensor, int]:
        y = _widen_half(floating_outputs(output)[which])
        axis = _FEATURE_AXIS if y.dim() > 3 else -1
        r = torch.randn(y.shape, generator=choice.seeded_generator()).to(y) * y.shape[axis] ** -0.5
        if y.dim() < 3 or axis == _FEATURE_AXIS:
            tokens = y.numel() // y.shape[axis]
            return (r * y).sum() / tokens, tokens
        real = _real_rows(batch, y)
        return (r * y)[real].sum() / real.sum(), int(real.sum())

    note = (
        "no head: mean over tokens of <r, y> / sqrt(H), y the output with H features, r normal "
        f"numbers drawn for each token by seed {choice.seed}; another r gives another trend"
    )
    return Objective("random-projection", note, batch, compute_loss)


def _real_rows(batch: Batch, output: torch.Tensor) -> torch.Tensor:
    """Which rows of (.., features) are tokens that are not padding."""
    side = "decoder_" if "decoder_input_ids" in batch.inputs else ""
    return real_tokens(batch, side, tuple(output.shape[:-1])).to(output.device)


def _cross_entropy(
    scores: torch.Tensor, places: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, int]:
    """Mean of -log p(label) over the rows `places` of (.., classes), and how many these are."""
    rows = scores.flatten(0, -2)
    if scores.requires_grad:  # autograd keeps all of them anyway
        return cross_entropy(_widen_half(rows[places]), labels), len(labels)
    total = scores.new_zeros((), dtype=torch.float32 if scores.element_size() < 4 else None)
    pairs = zip(torch.split(places, _ROWS), torch.split(labels, _ROWS), strict=True)
    for place, label in pairs:
        total = total + cross_entropy(_widen_half(rows[place]), label, reduction="sum")
    return total / len(labels), len(labels)


def _widen_half(values: torch.Tensor) -> torch.Tensor:
    """Half precision is too short for a sum over a vocabulary."""
    return values.float() if values.element_size() < 4 else values
