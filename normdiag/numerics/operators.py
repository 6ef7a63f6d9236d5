"""A linear map known by what it does to a vector, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LinearOperator:
    """A, rows x columns, of which only A v and A' w are known. Vectors are flat."""

    rows: int
    columns: int
    matvec: Callable[[Tensor], Tensor]
    """A v, (rows,), for v (columns,)."""
    rmatvec: Callable[[Tensor], Tensor]
    """A' w, (columns,), for w (rows,)."""
    dtype: torch.dtype = torch.float64
    device: torch.device | str = "cpu"

    @property
    def transpose(self) -> LinearOperator:
        """A'."""
        return LinearOperator(
            self.columns, self.rows, self.rmatvec, self.matvec, self.dtype, self.device
        )


def matrix_operator(values: Tensor) -> LinearOperator:
    """A matrix that is held as one."""
    rows, columns = values.shape
    return LinearOperator(
        rows,
        columns,
        lambda v: values @ v,
        lambda w: values.T @ w,
        values.dtype,
        values.device,
    )
