"""Token by site: what `trace` shows."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class TokenTrace:
    """One sequence through every residual add and every norm. Lists run over the tokens."""

    sequence: int
    text: str | None
    ids: tuple[int, ...] | None
    tokens: tuple[str, ...]
    """The token texts as the tokenizer writes them, or the positions where there is none."""
    special: tuple[bool, ...]
    out_norm: dict[str, tuple[float, ...]]
    """add id -> ||y|| per token."""
    update_ratio: dict[str, tuple[float, ...]]
    input_var: dict[str, tuple[float, ...]]
    """norm id -> m2 per token."""
    max_abs: dict[str, tuple[float, ...]]
    max_channel: dict[str, tuple[int, ...]]
