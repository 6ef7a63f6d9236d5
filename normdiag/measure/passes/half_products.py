"""Products of float16 matrices on a CPU: computed in float32 and rounded, as a GPU does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

_ATEN = torch.ops.aten
_PRODUCTS = frozenset(
    {
        _ATEN.mm.default,
        _ATEN.bmm.default,
        _ATEN.addmm.default,
        _ATEN.baddbmm.default,
        _ATEN.mv.default,
        _ATEN.addmv.default,
        _ATEN.dot.default,
        _ATEN.convolution.default,
        _ATEN.convolution_backward.default,
    }
)
"""Those that return a new tensor of the operands' dtype: the dtype of `out=` is the caller's."""


@contextmanager
def fast_half_products(model: nn.Module) -> Iterator[None]:
    """Let derivatives of a float16 `model` on a CPU take as long as those of a float32 one.

    PyTorch's own float16 product there is 50 times slower where a processor has no float16
    arithmetic (1,500 x 2,048 by 2,048 x 512: 2.26 s, in float32 0.040 s). Both sum in float32 and
    round once, so they differ by the order of the sums alone. Nothing changes for other models.
    """
    if any(p.dtype == torch.float16 and p.device.type == "cpu" for p in model.parameters()):
        with _RoundedProducts():  # type: ignore[no-untyped-call]
            yield
    else:
        yield


class _RoundedProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs products with a float16 operand on a CPU in float32."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        first = args[0] if args else None
        if (
            func in _PRODUCTS
            and isinstance(first, Tensor)
            and first.dtype == torch.float16
            and first.device.type == "cpu"
        ):
            wide = func(*tree_map_only(Tensor, _widen_tensor, args), **named)
            return tree_map_only(Tensor, Tensor.half, wide)
        return func(*args, **named)


def _widen_tensor(tensor: Tensor) -> Tensor:
    """In float32; one that was expanded stays so, instead of a copy for every gradient of many."""
    single = tensor
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0:
            single = single.narrow(axis, 0, min(1, tensor.shape[axis]))
    return single.float().expand(tensor.shape)
