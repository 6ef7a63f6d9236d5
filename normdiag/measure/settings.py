"""How forwards of a model in hand are sampled, and what their losses are computed with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardSettings:
    """Settings of `measure_forward`; each has a default."""

    seed: int = 0
    """Of sampled tokens, and of the labels and projections of losses."""
    all_tokens: bool = False
    """Replay, closure and norm Jacobians on every token instead of a seeded sample of 16."""
    keep_tokens: bool = False
    """Keep the numbers of every token, for a trace."""
    clip: float = 1.0
    """The global gradient norm at which the training in mind clips."""
    mask_token: int | None = None
    """The id that stands for a masked token, where the model is trained to fill it."""
