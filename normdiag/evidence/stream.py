"""What the residual stream does: per add, per stack."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record
from normdiag.evidence.statistics import MeanMedianMax


@record
class TokenPosition:
    """A token: which sequence of the probe, and where in it."""

    sequence: int
    position: int


@record
class Contribution:
    """One write u as a part of x_L, the last value of its stack; means over tokens.

    With what the stack starts from (`Growth.start`), the shares of all its adds sum to 1, each kind
    for itself. u is taken as it arrives: times the scales on the skips of later adds."""

    signed: float
    """<u, x_L> / ||x_L||^2: below 0 where the write was taken back later."""
    energy: float
    """||u||^2 / sum over the start and all writes of the same."""
    tokens: int
    """How many of the first sequence; its first one is left out."""


@record
class AddRms:
    """Root mean squares over tokens and features: sizes that do not depend on the width."""

    skip: float
    branch: float
    out: float


@record
class AddMeasurement:
    """One residual add y = x + u: x the skip operand, u all branches as added; L2 norms."""

    tokens: int
    skip_norm: MeanMedianMax
    branch_norm: MeanMedianMax
    out_norm: MeanMedianMax
    update_ratio: MeanMedianMax
    """||u|| / ||x|| per token."""
    cosine: MeanMedianMax
    """cos(x, u) per token."""
    angle_deg: MeanMedianMax
    """The angle between x and y per token."""
    max_abs: float
    """The largest |y|."""
    max_channel: int
    max_token: TokenPosition
    median_abs: float
    """Median over tokens of a token's median |y| over channels: what `max_abs` stands out from."""
    token_cosine: float | None
    """Mean cosine over pairs of tokens of one sequence; null where every sequence has one token."""
    kurtosis: MeanMedianMax
    """Of y over channels, 3 for a Gaussian."""
    out_ratio: MeanMedianMax | None = None
    """||y|| / ||x|| per token: below 1 the write takes away."""
    sink_ratio: float | None = None
    """Mean ||y|| of each sequence's first token / that of all others: an attention sink's."""
    rms: AddRms | None = None
    nonfinite: int = 0
    """Tokens, padded ones too, whose y is not finite in some channel."""
    contribution: Contribution | None = None
    """Null behind which a norm stands on the stream: through it nothing is additive."""
    skip_dtype: str | None = None
    """The format of x as added, and of u; that of y is the add's own."""
    branch_dtype: str | None = None
    skip_max_abs: float | None = None
    """The largest |x|."""
    branch_max_abs: float | None = None
    """The largest |u|."""
    padded_nonfinite: int = 0
    """How many of those of `nonfinite` are padded."""
    nonfinite_elements: int = 0
    """Of y, how many values are not finite, padding included."""


@record
class GrowthPhase:
    """A run of adds whose norms grow by one factor."""

    first: int
    last: int
    """Depths of the adds where it begins and ends, that one included."""
    factor: float
    """Per add."""
    step: float | None
    """By which factor the fit changes where the phase begins; null for the first one."""


@record
class Growth:
    """The law of ||y|| with depth, by AICc on log mean norms, position 0 left out."""

    law: Literal["constant", "additive", "geometric", "power", "undecided"]
    rate: float | None
    """Per add: the factor (geometric), b of sqrt(1 + b l) (additive), the exponent (power)."""
    rate_error: float | None
    confidence: float | None
    """Akaike weight of the chosen law among those tried."""
    total: float
    """out_norm of the last add / out_norm of the first."""
    runner_up: str | None = None
    phases: tuple[GrowthPhase, ...] = ()
    """Where the law is off by 5 % or more and runs of adds, each geometric, do better."""
    init_total: float | None = None
    """`total` of the same architecture at random initialisation, seeded, on the first sequence."""
    init_note: str | None = None
    """Why there is none."""
    total_over_init: float | None = None
    """total / init_total."""
    update_ratio_sqrt_depth: float | None = None
    """Median over the later half of the adds of update_ratio.median sqrt(l), l adds before: 1 where
    equal independent writes add up, each diluted as 1/sqrt(l); sqrt(l) where none is."""
    sink_ratio: float | None = None
    """The largest `sink_ratio` of its adds."""
    initial_contribution: Contribution | None = None
    """What the stack starts from (embeddings), as a part of its last value."""


@record
class Closure:
    """Does what came in plus what the adds wrote equal what went out, layer by layer?"""

    max_rel_error: float
    layer: int | None
    """The layer where the error is largest."""


@record
class HeadInput:
    """What the head, or the caller of a model without one, receives."""

    rms: float
    max_abs: float
