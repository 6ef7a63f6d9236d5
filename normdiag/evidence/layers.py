"""Measurements of whole layers: angle and rank of the stream."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class LayerMeasurement:
    """From the layer input x_in to its output x_out, over `tokens` tokens of one sequence."""

    stack: str
    layer: int
    tokens: int
    block_influence: float | None
    """Block influence, the mean over tokens of 1 - cos(x_in, x_out) (ShortGPT, arXiv 2403.03853): a
    weak estimate of the effect of removing the layer."""
    angular_distance: float | None
    """Mean over tokens of arccos(cos(x_in, x_out)) / pi (Gromov et al., arXiv 2403.17887)."""
    effective_rank: float | None
    """Of the matrix of x_out, (tokens, features), not centred: exp of the entropy of s / sum s (Roy
    and Vetterli 2007); at most `tokens`."""
    stable_rank: float | None
    """||X||_F^2 / ||X||_2^2 of the same matrix."""
