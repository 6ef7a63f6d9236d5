"""Gradients of a stated loss: along the stream and of the parameters."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.record import record


@record
class Loss:
    """The differentiated loss."""

    kind: str
    """"causal-lm", "masked-lm", "sequence-to-sequence", "classification", "random-projection",
    or "own" where the model's output is one number."""
    value: float
    tokens: int
    """Number of target tokens of the mean."""
    note: str | None = None
    """How the loss was chosen and what its targets are."""


@record
class GradientTrend:
    """log ||dL/dy|| = a + l log(rate) over the layers l of one stack, by least squares."""

    rate: float
    """The factor per layer from input to output; above 1 early layers receive less."""
    rate_error: float | None
    """Its standard error; null with two adds."""
    total: float
    """The total factor from the first add to the last along that line."""


@record
class Clipping:
    """The effect of clipping by the global norm."""

    max_norm: float
    factor: float
    """min(1, at / global_norm): the factor on every gradient."""
    dominant_group: str | None
    """The parameter group with the largest share of the squared norm; null where the norm is 0 or
    not finite."""


@record
class NormGradient:
    """||dL/dgamma|| and ||dL/dbeta|| of one norm; null where it has none or where it is not itself
    a parameter. A parameter shared by several norms has one summed gradient."""

    gain: float | None
    bias: float | None


@record
class Gradients:
    """||dL/dy|| per add (RMS over tokens) and gradients of parameter groups."""

    loss: Loss
    stream: dict[str, float]
    """add id -> RMS over tokens of ||dL/dy||."""
    ratio_last_first: float | None
    """Last add / first add of the longest stack; null where both are 0."""
    ratios: dict[str, float] = field(default_factory=dict)
    """The same for every stack."""
    trends: dict[str, GradientTrend] = field(default_factory=dict)
    """Per stack."""
    groups: dict[str, float] = field(default_factory=dict)
    """Parameter group (a layer of a stack, or a module outside) -> share of the squared norm."""
    global_norm: float | None = None
    """Norm over all parameters; null where none has a gradient."""
    clipping: Clipping | None = None
    norms: dict[str, NormGradient] = field(default_factory=dict)
