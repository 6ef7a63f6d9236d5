"""Whether a tensor holds finite values alone, without a second tensor of its size."""

from __future__ import annotations

import torch


def holds_finite_values(tensor: torch.Tensor) -> bool:
    """Whether no value is NaN or infinite. True of whole numbers, and where there are no values."""
    if not tensor.is_floating_point() or tensor.is_meta or tensor.numel() == 0:
        return True
    low, high = torch.aminmax(tensor)  # NaN where there is one
    return bool(torch.isfinite(low) & torch.isfinite(high))
