"""Assumed values for a forward on the meta device, where tensors have none."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from normdiag.capture.source_line import source_line

_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_unsafe_index")


class MetaForwardMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets a forward run on shapes alone: where it reads a value, one is assumed.

    New tensors are on the meta device too. A single value is True where it is boolean and 0
    otherwise; a mask is True everywhere, so that it selects all elements. `value_reads` holds the
    lines of code that read values, each once, in the order of the forward.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.value_reads: dict[str, None] = {}
        self._device = torch.device("meta")

    def __enter__(self) -> Self:
        self._device.__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        self._device.__exit__(*exception)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not args or not isinstance(args[0], torch.Tensor) or not args[0].is_meta:
            return func(*args, **kwargs)
        name = func.name().partition(".")[0]
        if name == "aten::_grouped_mm":
            return _compute_grouped_product(func, args, kwargs)
        if name == "aten::_local_scalar_dense":
            self._note_value_read()
            return _assumed_value(args[0].dtype)
        if name == "aten::nonzero":
            self._note_value_read()
            return torch.stack(_mask_indices(args[0]), dim=-1)
        if name in _INDEXING and any(_is_mask(index) for index in args[1]):
            self._note_value_read()
            args = (args[0], _replace_masks(args[1]), *args[2:])
        return func(*args, **kwargs)

    def _note_value_read(self) -> None:
        self.value_reads[source_line() or "a line of torch"] = None


def _assumed_value(dtype: torch.dtype) -> bool | int | float:
    if dtype is torch.bool:
        return True
    return 0.0 if dtype.is_floating_point else 0


def _compute_grouped_product(func: Any, args: tuple[Any, ...], kwargs: Any) -> torch.Tensor:
    """The meta kernel supports bfloat16 alone; without values the dtype does not matter."""
    a, b, *rest = args
    product: torch.Tensor = func(a.bfloat16(), b.bfloat16(), *rest, **kwargs)
    return product.to(a.dtype)


def _replace_masks(indices: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """The same indices, with integer indices in place of masks."""
    integer_indices: list[torch.Tensor | None] = []
    for index in indices:
        integer_indices += (
            _mask_indices(index) if index is not None and _is_mask(index) else [index]
        )
    return integer_indices


def _mask_indices(mask: torch.Tensor) -> list[torch.Tensor]:
    """One integer index per dimension of a mask that is True everywhere."""
    return [mask.new_empty(mask.numel(), dtype=torch.int64) for _ in range(mask.dim())]


def _is_mask(index: torch.Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)
