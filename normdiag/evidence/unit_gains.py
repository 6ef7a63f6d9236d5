"""Whether the gains of a model are all exactly 1."""

from __future__ import annotations

from collections.abc import Iterable

from normdiag.evidence.architecture import Norm

MIN_NORMS = 2
"""A single norm shows nothing about training."""


def have_unit_gains(norms: Iterable[Norm]) -> bool:
    """Return whether at least two norms have a gain and every gain is exactly 1.

    So it is before training, since gains begin at 1, and where gains were merged into the weights
    behind them.
    """
    gains = [norm.gain for norm in norms if norm.gain is not None]
    return len(gains) >= MIN_NORMS and all(
        gain.min_abs == gain.max_abs == 1.0 and not (gain.negatives or gain.nonfinite)
        for gain in gains
    )
