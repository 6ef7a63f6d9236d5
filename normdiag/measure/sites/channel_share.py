"""What the largest channel of a norm's input holds of it, at the typical token."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from normdiag.measure.passes.observer import NormRecord


def channel_share(records: Sequence[NormRecord]) -> tuple[float, int] | None:
    """The largest over channels of the median over sampled tokens of x_j^2 / ||x||^2; that channel.

    A median, since one token's massive activation is no outlier channel. None where a row is no
    token's vector of channels (heads, groups, batch norms), or no row has a length.
    """
    norm = records[0].found
    if norm.axes != (-1,) or norm.kind == "batchnorm" or records[0].tokens.per_token != 1:
        return None
    rows = torch.cat([record.input_rows.detach().double().cpu() for record in records])
    sizes = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    keep = (torch.isfinite(sizes) & (sizes > 0))[:, 0]
    if not bool(keep.any()):
        return None
    shares = (rows[keep] / sizes[keep]).square().quantile(0.5, dim=0)
    top = int(shares.argmax())
    return float(shares[top]), top
