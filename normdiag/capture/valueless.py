"""Tensors without values: what a forward that asks for values on the meta device is told."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from normdiag.capture.sourceline import source_line

_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_unsafe_index")


class Valueless(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Answers what the meta device cannot, so that a forward runs on shapes alone.

    What it makes meanwhile has no values either. A single value is true where it is boolean and
    else 0, and a mask is set everywhere, so that it selects all there is. `asked` holds the lines
    of code that were told so, each once, in the order in which they asked.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.asked: dict[str, None] = {}
        self._place = torch.device("meta")

    def __enter__(self) -> Self:
        self._place.__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self._place.__exit__(*raised)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not args or not isinstance(args[0], torch.Tensor) or not args[0].is_meta:
            return func(*args, **kwargs)
        name = func.name().partition(".")[0]
        if name == "aten::_grouped_mm":
            return _grouped_product(func, args, kwargs)
        if name == "aten::_local_scalar_dense":
            self._told()
            return _value(args[0].dtype)
        if name == "aten::nonzero":
            self._told()
            return torch.stack(_places(args[0]), dim=-1)
        if name in _INDEXING and any(_is_mask(index) for index in args[1]):
            self._told()
            args = (args[0], _without_masks(args[1]), *args[2:])
        return func(*args, **kwargs)

    def _told(self) -> None:
        self.asked[source_line() or "a line of torch"] = None


def _value(dtype: torch.dtype) -> bool | int | float:
    if dtype is torch.bool:
        return True
    return 0.0 if dtype.is_floating_point else 0


def _grouped_product(func: Any, args: tuple[Any, ...], kwargs: Any) -> torch.Tensor:
    """Its meta kernel knows bfloat16 alone, its others more; without values that is all one."""
    a, b, *rest = args
    product: torch.Tensor = func(a.bfloat16(), b.bfloat16(), *rest, **kwargs)
    return product.to(a.dtype)


def _without_masks(indices: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """The same indices, with places where masks stand."""
    found: list[torch.Tensor | None] = []
    for index in indices:
        found += _places(index) if index is not None and _is_mask(index) else [index]
    return found


def _places(mask: torch.Tensor) -> list[torch.Tensor]:
    """One index per dimension of a mask that is set everywhere."""
    return [mask.new_empty(mask.numel(), dtype=torch.int64) for _ in range(mask.dim())]


def _is_mask(index: torch.Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)
