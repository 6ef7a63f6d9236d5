"""The effect of LayerNorm instead of RMSNorm, or the reverse, at all norms of these kinds."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.record import record
from normdiag.evidence.statistics import MedianMax


@record
class SwapLoss:
    """The loss of the model as it is and with every norm swapped, on the same tokens."""

    kind: str
    """As in `gradients.loss`."""
    tokens: int
    """The targets that it is a mean over."""
    before: float
    after: float


@record
class NormSwap:
    """LayerNorms without their centring, RMSNorms with one; gain, bias and epsilon stay."""

    layer_norms: int
    """How many there are."""
    rms_norms: int
    swapped: int
    """How many were swapped in the forward; the others could not be recomputed there."""
    alone: dict[str, MedianMax] = field(default_factory=dict)
    """Norm id -> ||N'(x) - N(x)|| / ||N(x)|| per sampled row of its own input x, bias included."""
    hidden_change: float | None = None
    """All norms swapped in one forward of the first batch (with the masks of a masked-lm loss in
    place): ||h' - h|| / ||h||, h the last hidden state (after the final norm) of all tokens that
    are not padding."""
    tokens: int = 0
    """That h holds."""
    loss: SwapLoss | None = None
    """Null where the model has no loss whose targets are given."""
