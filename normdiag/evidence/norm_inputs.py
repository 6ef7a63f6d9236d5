"""What each norm sees, and what its Jacobian does to a small change of it."""

from __future__ import annotations

from normdiag.evidence.record import record
from normdiag.evidence.statistics import MedianMax, MedianMin, Range


@record
class Amplification:
    """1/s, by which a norm multiplies a small change before the gain; its bound is 1/sqrt(eps)."""

    median: float
    max: float
    bound: float | None


@record
class NormJacobian:
    """Singular values of the Jacobian of one norm at one token, summarised over `tokens` of them.

    With s_1 >= .. >= s_H: sigma_max = s_1; sigma_min = s_(H-2) for LayerNorm and s_(H-1) for
    RMSNorm; radial = the next smaller one; kappa = sigma_max / sigma_min.
    """

    sigma_max: MedianMax
    sigma_min: MedianMin | None
    kappa: MedianMax | None
    radial: MedianMax | None
    tokens: int


@record
class NormMeasurement:
    """The statistics of one norm's input x; m2 = mean of the (centred, for LayerNorm) squares."""

    tokens: int
    """Statistics, not tokens, where a norm has several per token (GroupNorm)."""
    input_mean: float
    input_var: Range
    """m2: what epsilon is added to."""
    eps_share: MedianMax
    """eps / (m2 + eps)."""
    amplification: Amplification
    mean_energy: float
    """H mean(x)^2 / ||x||^2, mean over tokens: what centring removes; chance level is 1/H."""
    offset_share: float
    """||mean over tokens of x||^2 / mean over tokens of ||x||^2: what all tokens have in common."""
    max_abs: float
    top_channels: tuple[int, ...]
    """The channels of largest magnitude, largest first."""
    jacobian: NormJacobian | None = None
    constant: int = 0
    """Of `tokens`, how many have 1e6 m2 <= eps (m2 = 0 where eps is 0): as far as the norm can
    tell, their input is constant (zero, for RMSNorm), and what comes out is the bias."""
    padded_constant: int = 0
    """The same count over padded tokens, which enter no other number here."""
    channel_share: float | None = None
    """The largest over channels of the median over sampled tokens of x_j^2 / ||x||^2: what one
    channel holds of the input at every token. Null where a row is no vector of channels."""
    dominant_channel: int | None = None
    """That channel."""
    output_rms: float | None = None
    """Root mean square of what the norm puts out, over the sampled tokens."""
    constant_indices: tuple[int, ...] = ()
    """Which groups (GroupNorm) or channels (BatchNorm) `constant` counts, up to 32 of them."""
    eps_dominated: int = 0
    """Of `tokens`, how many have an eps_share above 1/2, the constant ones among them."""
