"""The libraries whose models are read, and why one of them cannot be."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from tests.libraries.torchvision_operators import declare_missing_operators

LIBRARIES = {
    "torch_nn": "torch.nn",
    "torchvision": "torchvision",
    "timm": "timm",
    "open_clip": "open_clip",
    "litgpt": "litgpt.model",
    "x_transformers": "x_transformers",
    "diffusers": "diffusers",
}
"""Each with the module that its models need."""


@cache
def missing_because(library: str) -> str | None:
    """Why the models of this library cannot be built here; None where they can."""
    module = LIBRARIES[library]
    if find_spec(module.partition(".")[0]) is None:
        return f"{library} is not installed: .ci/run shows how"
    declare_missing_operators()  # for transformers too, which normdiag imports
    try:
        import_module(module)
    except ImportError as error:
        return f"{library} cannot be imported: {error}"
    return None
