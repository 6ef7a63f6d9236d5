"""What is learned on the branches of a residual add, as numbers that any layout of it shares."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class BranchWeights:
    """The weights and biases that one residual add's branches use, those of norms left out.

    Transposed, split or fused, they have the same numbers.
    """

    elements: int
    norm: float
    """Root of the sum of squares."""
    sum: float
