"""How the gradient of a stated loss flows back: along the stream, into the parameters."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.record import record


@record
class Loss:
    """What was differentiated."""

    kind: str
    """"causal-lm", "masked-lm", "sequence-to-sequence", "classification", "random-projection"."""
    value: float
    tokens: int
    """Target tokens that the loss is a mean over."""
    note: str | None = None
    """What its targets are, and why it is this one."""


@record
class Clipping:
    """What clipping the global norm does."""

    at: float
    factor: float
    """min(1, at / global_norm): what every gradient is scaled by."""
    dominant: str | None
    """The parameter group with the largest share of the squared norm."""


@record
class NormGradient:
    """||dL/dgamma|| and ||dL/dbeta|| of one norm."""

    gain: float | None
    bias: float | None


@record
class Gradients:
    """||dL/dy|| per add, as a root of the mean square over tokens; parameters by group."""

    loss: Loss
    stream: dict[str, float]
    """add id -> RMS over tokens of ||dL/dy||."""
    ratio_last_first: float | None
    """Of the longest stack: last add / first add."""
    ratios: dict[str, float] = field(default_factory=dict)
    """The same for every stack."""
    groups: dict[str, float] = field(default_factory=dict)
    """Parameter group (a layer of a stack, or a module outside) -> share of the squared norm."""
    global_norm: float | None = None
    clipping: Clipping | None = None
    norms: dict[str, NormGradient] = field(default_factory=dict)
