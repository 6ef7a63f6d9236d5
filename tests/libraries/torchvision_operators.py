"""torchvision beside a build of torch that its compiled operators do not fit.

Wheels of torchvision from the package index are compiled for CUDA builds of torch. Beside a CPU build its
operators stay away, and `import torchvision` fails at the first of them that it describes. The
models that are tested here call none of these operators: it is enough that they have a signature.
"""

from __future__ import annotations

import torch

_SIGNATURE = "(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor"
_DESCRIBED = ("nms", "qnms")
_KEPT: list[torch.library.Library] = []
"""A library's operators live as long as it does."""


def declare_missing_operators() -> None:
    """Give the operators a signature where the compiled ones cannot be loaded."""
    if _KEPT or _loads_compiled():
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in _DESCRIBED:
        library.define(name + _SIGNATURE)
    _KEPT.append(library)


def _loads_compiled() -> bool:
    try:
        import torchvision
    except RuntimeError:
        return False
    return torchvision is not None
