"""How the gradient of a stated loss flows back: along the stream, into the parameters."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.record import record


@record
class Loss:
    """What was differentiated."""

    kind: str
    """"causal-lm", "masked-lm", "sequence-to-sequence", "classification", "random-projection",
    or "own" where the model's output is one number."""
    value: float
    tokens: int
    """Target tokens that the loss is a mean over."""
    note: str | None = None
    """What its targets are, and why it is this one."""


@record
class GradientTrend:
    """log ||dL/dy|| = a + l log(rate) over the layers l of one stack, by least squares."""

    rate: float
    """The factor per layer, from the input to the output: above 1, early layers get less."""
    rate_error: float | None
    """Its standard error; null with two adds, through which every line goes."""
    total: float
    """From the first add to the last, along that line."""


@record
class Clipping:
    """What clipping the global norm does."""

    max_norm: float
    factor: float
    """min(1, at / global_norm): what every gradient is scaled by."""
    dominant_group: str | None
    """The parameter group with the largest share of the squared norm, so of the clipped direction;
    null where the norm is 0 or not finite."""


@record
class NormGradient:
    """||dL/dgamma|| and ||dL/dbeta|| of one norm; null where it has none, or where it is not a
    parameter as it is. A parameter that several norms share has one gradient, the sum."""

    gain: float | None
    bias: float | None


@record
class Gradients:
    """||dL/dy|| per add, as a root of the mean square over tokens; parameters by group."""

    loss: Loss
    stream: dict[str, float]
    """add id -> RMS over tokens of ||dL/dy||."""
    ratio_last_first: float | None
    """Of the longest stack: last add / first add. Null where both are 0."""
    ratios: dict[str, float] = field(default_factory=dict)
    """The same for every stack."""
    trends: dict[str, GradientTrend] = field(default_factory=dict)
    """Per stack."""
    groups: dict[str, float] = field(default_factory=dict)
    """Parameter group (a layer of a stack, or a module outside) -> share of the squared norm."""
    global_norm: float | None = None
    """Root of the sum of squares over all parameters; null where none got a gradient."""
    clipping: Clipping | None = None
    norms: dict[str, NormGradient] = field(default_factory=dict)
