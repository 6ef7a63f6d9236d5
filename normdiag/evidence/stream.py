"""Measurements of the residual stream, per add and per stack."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from normdiag.evidence.record import record
from normdiag.evidence.statistics import MeanMedianMax, Quantiles


@record
class TokenPosition:
    """A token: the sequence of the inputs and the position in it."""

    sequence: int
    position: int


@record
class Contribution:
    """The contribution of one write u to x_L, the last value of its stack; means over tokens.

    Together with `Growth.initial_contribution` the shares of all adds sum to 1, `signed` and
    `energy` each. u includes the scales on the skips of later adds."""

    signed: float
    """<u, x_L> / ||x_L||^2: below 0 where later writes cancel it."""
    energy: float
    """||u||^2 / sum over the start and all writes of the same."""
    tokens: int
    """Number of tokens of the first sequence, without its first."""


@record
class AddRms:
    """RMS over tokens and features, independent of the width."""

    skip: float
    branch: float
    out: float


@record
class AddQuantiles:
    """Quantiles over all tokens of all sequences; padding is left out."""

    out_norm: Quantiles
    """||y||."""
    update_ratio: Quantiles
    """||u|| / ||x||."""
    cosine: Quantiles
    """cos(x, u)."""


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
    """Median over tokens of the median |y| over channels."""
    token_cosine: float | None
    """Mean cosine over pairs of tokens of one sequence; null where every sequence has one token."""
    kurtosis: MeanMedianMax
    """Of y over channels, 3 for a Gaussian."""
    out_ratio: MeanMedianMax | None = None
    """||y|| / ||x|| per token."""
    sink_ratio: float | None = None
    """Mean ||y|| of each sequence's first token / that of all others: large for an attention
    sink."""
    rms: AddRms | None = None
    nonfinite: int = 0
    """Tokens, padded ones too, whose y is not finite in some channel."""
    contribution: Contribution | None = None
    """Null where a later norm acts on the stream, which is then not additive."""
    skip_dtype: str | None = None
    """The format of x as added, and of u; that of y is the add's own."""
    branch_dtype: str | None = None
    skip_max_abs: float | None = None
    """The largest |x|."""
    branch_max_abs: float | None = None
    """The largest |u|."""
    padded_nonfinite: int = 0
    """Number of padded tokens in `nonfinite`."""
    nonfinite_elements: int = 0
    """Number of non-finite values of y, padding included."""
    first_norm: float | None = None
    """Mean ||y|| of each sequence's first token, which is often an attention sink."""
    quantiles: AddQuantiles | None = None
    """Null in older reports."""


@record
class GrowthPhase:
    """A range of adds with one growth factor."""

    first: int
    last: int
    """Depths of the adds where it begins and ends, that one included."""
    factor: float
    """Per add."""
    step: float | None
    """By which factor the fit changes where the phase begins; null for the first one."""


@record
class GrowthLeap:
    """One residual add that changes ||y|| by far more than the adds around it."""

    add: str
    """Its id."""
    factor: float
    """out_norm / out_norm of the add before."""


@record
class Growth:
    """The law of ||y|| with depth: the mean over tokens, the first of each sequence left out.

    `constant`: within a factor of 2. Another law is named where it leads all others, misses no add
    by more than a factor of 1.5 and 15 % as a root mean square, and its rate is known.
    """

    law: Literal["constant", "additive", "geometric", "power", "bounded", "undecided"]
    rate: float | None
    """Per add: the factor (geometric), b of sqrt(1 + b l) (additive), the exponent (power); for
    bounded the limit / the first norm."""
    rate_error: float | None
    confidence: float | None
    """Akaike weight of the chosen law among all laws."""
    total: float
    """out_norm of the last add / out_norm of the first."""
    total_after_start: float | None = None
    """out_norm of the last add / that of the add `start`; equal to `total` without one."""
    start: str | None = None
    """The add whose update starts the stream: the law is that of this add and those behind it."""
    leaps: tuple[GrowthLeap, ...] = ()
    """Behind the start; the law is that of the other adds."""
    range: float | None = None
    """Largest / smallest out_norm from the start on."""
    misfit: float | None = None
    """Root mean square residual of the log norms; null where no law is named."""
    add_variance: float | None = None
    """q per add: what an add contributes to the mean ||y||^2 on average, over the mean ||x||^2 that
    enters the stack (all tokens); null where the stream shrinks."""
    runner_up: str | None = None
    phases: tuple[GrowthPhase, ...] = ()
    """Geometric phases, where the law deviates by 5 % or more and phases fit better."""
    init_total: float | None = None
    """`total` of the same architecture at random initialisation, seeded, on the first sequence."""
    init_norms: dict[str, float] = field(default_factory=dict)
    """add id -> mean ||y|| of that model: one drawing of the weights, up to 64 tokens of the first
    sequence, its first token left out. Empty where there is no such model, or where the report's
    own is at initialisation."""
    init_note: str | None = None
    """Why it is missing."""
    total_over_init: float | None = None
    """total / init_total."""
    update_ratio_sqrt_depth: float | None = None
    """Median over the later half of the adds of update_ratio.median sqrt(l), l adds before: 1 for
    equal independent writes, whose ratio falls as 1/sqrt(l)."""
    sink_ratio: float | None = None
    """The largest `sink_ratio` of its adds."""
    initial_contribution: Contribution | None = None
    """The contribution of the stack's initial value (embeddings) to its last value."""


@record
class Closure:
    """Reconstruction error per layer: x_in + Σ u vs x_out."""

    max_rel_error: float
    layer: int | None
    """The layer with the largest error."""


@record
class HeadInput:
    """The input of the head, or the output of a model without one."""

    rms: float
    max_abs: float
