"""Attention logits as the softmax receives them."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class AttentionLogits:
    """The logits of one attention over the first forward: scaled, soft-capped and with any bias.

    Of query rows that are not padding, over pairs to which the softmax gives a weight above 0 in
    float32, so that pairs removed by a mask do not count.
    """

    add: str | None
    """Id of the residual add whose branch it is on; null outside the stacks."""
    layer: int | None
    heads: int
    query_rows: int
    """Query rows of all sequences, per head."""
    max_abs: float
    """The largest |logit|; infinite where q . k overflows."""
    sequence: int
    """Of the pair with the largest |logit|, with its head, query and key."""
    head: int
    query: int
    key: int
    median_max: float
    """Median over heads of the largest |logit| of each."""
    median_weight: float | None
    """Median over query rows of the largest weight of the softmax; 1: a single key is read. Null
    where every row reads one key alone because the mask leaves no other."""
    head_width: int | None
    """d, the width of q and k."""
    scale: float | None
    """The constant that multiplies q . k, as applied; null where it is learned or was not found."""
    is_fused: bool
    """One fused operation: its logits were computed again from q, k and the mask."""
    value: float | None = None
    """The logit of `max_abs` with its sign; below 0 the pair hardly counts."""
