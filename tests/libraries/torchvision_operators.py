"""torchvision beside a build of torch that its compiled operators do not fit.

Wheels of torchvision on the package index are compiled for torch with CUDA. Beside a CPU build its
operators stay away, and `import torchvision` fails at the first of them that it describes. No
model that is read here calls one of them: it is enough that they have a signature.
"""

from __future__ import annotations

import importlib

import torch

_SIGNATURE = "(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor"
_DESCRIBED = ("nms", "qnms")
_KEPT: list[torch.library.Library] = []
"""The operators live as long as their library."""


def declare_missing_operators() -> None:
    """Give the operators a signature where torchvision is installed and cannot load them."""
    if _KEPT or not _lacks_operators():
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in _DESCRIBED:
        if not hasattr(torch.ops.torchvision, name):
            library.define(name + _SIGNATURE)
    _KEPT.append(library)


def _lacks_operators() -> bool:
    try:
        importlib.import_module("torchvision")
    except ImportError:  # not there at all
        return False
    except RuntimeError:  # operator torchvision::nms does not exist
        return True
    return False
