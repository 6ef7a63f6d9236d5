"""How large what a norm puts out is."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from normdiag.measure.passes.observer import NormRecord


def output_rms(records: Sequence[NormRecord]) -> float | None:
    """Root mean square over the sampled rows of all passes; None where no output was seen."""
    kept = [r.output_rows for r in records if r.output_rows is not None]
    count = sum(rows.numel() for rows in kept)
    if not count:
        return None
    squares = sum(torch.linalg.vector_norm(rows, dtype=torch.float64) ** 2 for rows in kept)
    return float((squares / count) ** 0.5)
