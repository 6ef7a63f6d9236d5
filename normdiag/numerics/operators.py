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


def jacobian(function: Callable[[Tensor], Tensor], x: Tensor) -> LinearOperator:
    """dy/dx of y = function(x) at x, tensors of any shape, by forward and backward differentiation.

    Forward mode needs operations that have it: plain attention does, fused kernels may not.
    """
    primal = torch.func.vjp(function, x)
    y: Tensor = primal[0]
    pull = primal[1]

    def matvec(v: Tensor) -> Tensor:
        pushed: Tensor = torch.func.jvp(function, (x,), (v.view_as(x),))[1]
        return pushed.flatten()

    def rmatvec(w: Tensor) -> Tensor:
        pulled: Tensor = pull(w.view_as(y))[0]
        return pulled.flatten()

    return LinearOperator(y.numel(), x.numel(), matvec, rmatvec, x.dtype, x.device)
