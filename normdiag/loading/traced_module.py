"""Modules whose code was turned into a graph: TorchScript, and what `torch.export` returns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


def describe_traced(model: nn.Module) -> tuple[str, ...]:
    """A note on what is lost in a traced module; none where the model has its Python code.

    All operations of its forward are seen. Which of its parts ran them is not: a graph calls none.
    """
    return tuple(
        f"{what}: its graph was run, so norms and adds have no module's name"
        for what, is_there in (
            ("a TorchScript module", _has_script(model)),
            ("a module of torch.export, in the mode in which it was exported", _is_export(model)),
        )
        if is_there
    )


def is_exported_program(built: Any) -> bool:
    """Whether it is an ExportedProgram, which holds a module and is none."""
    kind = getattr(sys.modules.get("torch.export"), "ExportedProgram", None)
    return kind is not None and isinstance(built, kind)


def _has_script(model: nn.Module) -> bool:
    import torch

    return any(isinstance(module, torch.jit.ScriptModule) for module in model.modules())


def _is_export(model: nn.Module) -> bool:
    """Whether it has submodules and a graph that calls none of those with parameters."""
    graph = getattr(model, "graph", None)
    kind = getattr(sys.modules.get("torch.fx"), "GraphModule", None)
    if kind is None or graph is None or not isinstance(model, kind):
        return False
    called = [model.get_submodule(n.target) for n in graph.nodes if n.op == "call_module"]
    own = dict.fromkeys(id(p) for module in called for p in module.parameters())
    return any(model.children()) and any(True for _ in model.parameters()) and not own
