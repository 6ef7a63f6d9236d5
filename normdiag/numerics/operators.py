"""Linear operators given by their products with a vector and the transposed products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LinearOperator:
    """A, rows x columns, given by the products A v and A' w with flat vectors."""

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
    """Wrap a dense matrix."""
    rows, columns = values.shape
    return LinearOperator(
        rows,
        columns,
        lambda v: values @ v,
        lambda w: values.T @ w,
        values.dtype,
        values.device,
    )
