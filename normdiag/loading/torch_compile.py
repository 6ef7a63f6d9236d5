"""Remove `torch.compile` from a module, so that its own code runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

_ORIGINAL = "_orig_mod"


def unwrap_compiled(model: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    """The original of a compiled module, and a note where any part of it is compiled.

    A compiled graph fuses norms and adds into kernels that no dispatch mode sees into. The same
    parameters run in the original's code, so nothing that is measured differs but for rounding.
    """
    wrapper = _compiled_module_class()
    original: Any = model
    while wrapper is not None and isinstance(original, wrapper):
        original = getattr(original, _ORIGINAL)
    inside = original is not model or any(
        (wrapper is not None and isinstance(m, wrapper)) or m._compiled_call_impl is not None
        for m in original.modules()
    )
    note = "torch.compile was disabled; the uncompiled code was run"
    return original, (note,) if inside else ()


def _compiled_module_class() -> type | None:
    """The class of compiled modules; None where torch never imported it, so that none exist."""
    module = sys.modules.get("torch._dynamo.eval_frame")
    return getattr(module, "OptimizedModule", None)
