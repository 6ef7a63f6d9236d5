"""Matrix products that leave out the rows of zeros.

The gradient of one token's output is zero for every other token until something mixes tokens: of a
batch of such gradients through an MLP, all rows but one in `positions` are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_SMALL = 1 << 14
"""Left factors of fewer elements are multiplied as they are."""


class ZeroRows(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside it A B, of a finite B, costs the rows of A that are not zero. It is the same."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.mm.default and args[0].numel() > _SMALL:
            left, right = args
            largest = torch.linalg.vector_norm(left, ord=float("inf"), dim=1)
            rows = largest.nonzero().flatten()
            if 2 * len(rows) <= len(left):
                product = left.new_zeros(len(left), right.shape[1])
                product[rows] = func(left[rows], right)
                return product
        return func(*args, **(kwargs or {}))
