"""What hides values from autograd's user, run so that every stream value has a gradient edge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.checkpoint
from torch.overrides import TorchFunctionMode

_FUSED = (torch.addmm, torch.Tensor.addmm, torch.baddbmm, torch.Tensor.baddbmm)
_PLAIN = "_checkpoint_without_reentrant_generator"


class SplitFusedAdds(TorchFunctionMode):
    """Computes x + alpha A B of one operation in two: autograd then follows the product as well."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _FUSED or len(args) != 3 or not kwargs.keys() <= {"alpha", "beta"}:
            return func(*args, **kwargs)
        x, a, b = args
        is_whole = x.shape == (*a.shape[:-1], b.shape[-1])  # not the bias of a linear map
        if not is_whole or kwargs.get("beta", 1) != 1:
            return func(*args, **kwargs)
        return x + kwargs.get("alpha", 1) * (a @ b)


@contextmanager
def keep_checkpointed_values() -> Iterator[None]:
    """Let `torch.utils.checkpoint` run its function as it is, once.

    A checkpointed function runs again in the backward, outside the recorder, on other operations
    than those that were recorded.
    """
    checkpoints: Any = torch.utils.checkpoint
    original = {name: getattr(checkpoints, name, None) for name in (_PLAIN, "CheckpointFunction")}
    if any(value is None for value in original.values()):
        yield  # another version of torch: what fails is listed as not measured
        return
    try:
        setattr(checkpoints, _PLAIN, _run_once)
        checkpoints.CheckpointFunction = _PlainCall
        yield
    finally:
        for name, value in original.items():
            setattr(checkpoints, name, value)


def _run_once(*args: Any, **kwargs: Any) -> Iterator[None]:
    """What `checkpoint` enters before and leaves behind the function: nothing."""
    yield


class _PlainCall:
    @staticmethod
    def apply(function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """Call the function with autograd as it is."""
        return function(*args)
