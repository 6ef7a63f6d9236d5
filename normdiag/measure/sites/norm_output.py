"""The size of a norm's output."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from normdiag.measure.sites.samples import NormSample


def output_rms(samples: Sequence[NormSample]) -> float | None:
    """Root mean square over the sampled rows of all passes; None without an output."""
    outputs = [sample.output_rows for sample in samples if sample.output_rows is not None]
    count = sum(rows.numel() for rows in outputs)
    if not count:
        return None
    squares = sum(torch.linalg.vector_norm(rows, dtype=torch.float64) ** 2 for rows in outputs)
    return float((squares / count) ** 0.5)
