"""The energy share of the largest channel of a norm's input, at the typical token."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from normdiag.measure.sites.samples import NormSample
from normdiag.structure.algebraic_forms import DetectedNorm


def channel_share(norm: DetectedNorm, samples: Sequence[NormSample]) -> tuple[float, int] | None:
    """The largest over channels of the median over sampled tokens of x_j^2 / ||x||^2; that channel.

    A median, since one token's massive activation is no outlier channel. None where a row is no
    token's vector of channels (heads, groups, batch norms), or no row has a length.
    """
    if norm.axes != (-1,) or norm.kind == "batchnorm" or samples[0].rows_per_token != 1:
        return None
    rows = torch.cat([sample.input_rows.double() for sample in samples])
    sizes = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    keep = (torch.isfinite(sizes) & (sizes > 0))[:, 0]
    if not bool(keep.any()):
        return None
    shares = (rows[keep] / sizes[keep]).square().quantile(0.5, dim=0)
    top = int(shares.argmax())
    return float(shares[top]), top
