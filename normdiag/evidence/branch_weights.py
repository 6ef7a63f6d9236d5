"""Summaries of branch weights that do not depend on their layout."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class BranchWeights:
    """The weights and biases of one residual add's branches, without those of norms.

    Transposing, splitting or fusing the weights does not change these numbers.
    """

    elements: int
    norm: float
    """Root of the sum of squares."""
    sum: float
