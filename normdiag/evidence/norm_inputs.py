"""Statistics of norm inputs, and the Jacobians of norms."""

from __future__ import annotations

from normdiag.evidence.record import record
from normdiag.evidence.statistics import MedianMax, MedianMin, Quantiles, Range


@record
class Amplification:
    """1/s, the factor of a norm on small changes before the gain; its bound is 1/sqrt(eps)."""

    median: float
    max: float
    bound: float | None


@record
class NormJacobian:
    """Singular values of the Jacobian of one norm at one token: extremes and medians over tokens.

    With s_1 >= .. >= s_H: sigma_max = s_1; sigma_min = s_(H-2) for LayerNorm and s_(H-1) for
    RMSNorm; radial = the next smaller one; kappa = sigma_max / sigma_min. live_kappa leaves one
    more small value out for each of the D gains that are 0 beside the largest (2^-23 of it or
    less): sigma_max / s_(H-2-D) for LayerNorm, sigma_max / s_(H-1-D) for RMSNorm.
    """

    sigma_max: MedianMax
    sigma_min: MedianMin | None
    kappa: MedianMax | None
    radial: MedianMax | None
    tokens: int
    """Number of tokens that the largest and smallest values are over: all that are not padding.
    1 for a batch norm with running statistics: diag(gain / s) is the same at every token, and
    no direction is left out of sigma_min."""
    live_kappa: MedianMax | None = None
    sample: int | None = None
    """Number of tokens that the medians are over: a sample of them. Null in older reports, whose
    extremes are over the sample too."""


@record
class NormQuantiles:
    """Quantiles over the numbers that `input_var` is over; padding is left out."""

    input_var: Quantiles
    """m2."""
    eps_share: Quantiles
    """eps / (m2 + eps)."""


@record
class NormMeasurement:
    """The statistics of one norm's input x; m2 = mean of the (centred, for LayerNorm) squares."""

    tokens: int
    """Number of statistics, where a norm has several per token (GroupNorm)."""
    input_mean: float
    input_var: Range
    """m2: what epsilon is added to."""
    eps_share: MedianMax
    """eps / (m2 + eps)."""
    amplification: Amplification
    mean_energy: float
    """H mean(x)^2 / ||x||^2, mean over tokens: the share that centring removes; chance level
    1/H."""
    offset_share: float
    """||mean over tokens of x||^2 / mean over tokens of ||x||^2: the share of the component common
    to all tokens."""
    max_abs: float
    top_channels: tuple[int, ...]
    """The channels of largest magnitude, largest first."""
    jacobian: NormJacobian | None = None
    constant: int = 0
    """Of `tokens`, how many have 1e6 m2 <= eps (m2 = 0 where eps is 0): their input is constant
    (zero, for RMSNorm) relative to epsilon, and the output is the bias."""
    constant_without_input: int = 0
    """Of `constant`, how many are tokens that the model makes of its parameters alone (class,
    distillation and register tokens): there is nothing of the input in them yet."""
    padded_constant: int = 0
    """The same count over padded tokens, which are excluded from all other numbers."""
    channel_share: float | None = None
    """The largest over channels of the median over sampled tokens of x_j^2 / ||x||^2: the share of
    one channel at the typical token. Null where the input has no channel axis."""
    dominant_channel: int | None = None
    """The channel with this share."""
    output_rms: float | None = None
    """RMS of the norm's output over the sampled tokens."""
    constant_indices: tuple[int, ...] = ()
    """Indices of the groups (GroupNorm) or channels (BatchNorm) in `constant`, up to 32."""
    eps_dominated: int = 0
    """Of `tokens`, how many have an eps_share above 1/2, the constant ones among them."""
    quantiles: NormQuantiles | None = None
    """Null in older reports."""
