"""Small results that outlive the forward, laid side by side in large blocks.

Kept one by one between the activations that come and go, they would pin the allocator's free
space: the forward's peak grew by more than its activations.
"""

from __future__ import annotations

import torch

_BLOCK_BYTES = 1 << 19


class Slab:
    """Hands out uninitialised tensors that share blocks of memory."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[torch.dtype, torch.device], tuple[torch.Tensor, int]] = {}

    def empty_tensor(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """A tensor of `shape`; it lives as long as anything of its block does."""
        count = 1
        for size in shape:
            count *= size
        block, used = self._blocks.get((dtype, device), (torch.empty(0), 0))
        if used + count > block.numel() or block.dtype != dtype:
            size = max(count, _BLOCK_BYTES // dtype.itemsize)
            block, used = torch.empty(size, dtype=dtype, device=device), 0
        self._blocks[dtype, device] = (block, used + count)
        return block[used : used + count].view(shape)

    def store_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of `tensor`."""
        return self.empty_tensor(tuple(tensor.shape), tensor.dtype, tensor.device).copy_(tensor)

    def store_rows(self, tensor: torch.Tensor, picked: torch.Tensor) -> torch.Tensor:
        """A copy of the `picked` rows of `tensor`."""
        rows = self.empty_tensor((picked.numel(), tensor.shape[1]), tensor.dtype, tensor.device)
        return torch.index_select(tensor, 0, picked, out=rows)
