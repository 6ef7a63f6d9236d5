"""nnsight: every call and assignment of a forward can be read by its place in the source."""

from __future__ import annotations

from typing import Any

import torch
from nnsight import NNsight

from docs.generators.peers.answer import ToolAnswer, is_among
from docs.generators.peers.models import Case

PACKAGE = "nnsight"


def ask_tool(case: Case) -> ToolAnswer:
    """Which of the sums are the value of some named place; nothing says which places those are."""
    model = case.build()
    truth = case.true_sums(model)
    traced, inputs = NNsight(model), case.inputs()
    parts = {path.removeprefix("model."): part for path, part in traced.modules(names=True)}
    true_sums, names = 0, []
    for layer, sums in truth.items():
        left = list(sums)
        for path in _with_children(model, layer):
            for name in _operation_names(parts[path]):
                for side in ("output", "input"):
                    value = _read_value(traced, (parts[path], name, side), inputs) if left else None
                    hit = next(
                        (s for s in left if value is not None and is_among(s, [value])), None
                    )
                    if hit is not None:
                        left = [s for s in left if s is not hit]
                        names.append(f"{path.removeprefix(layer)}.source.{name}.{side}")
        true_sums += len(sums) - len(left)
    return ToolAnswer(
        true_sums=true_sums, names=", ".join(dict.fromkeys(name.lstrip(".") for name in names))
    )


def _with_children(model: torch.nn.Module, layer: str) -> list[str]:
    """The layer and every module below it that has modules of its own."""
    return [
        f"{layer}.{name}".rstrip(".")
        for name, module in model.get_submodule(layer).named_modules()
        if any(True for _ in module.children())
    ]


def _operation_names(part: Any) -> tuple[str, ...]:
    try:
        return tuple(part.source.names)
    except Exception:  # no Python source, which nnsight says in several ways
        return ()


def _read_value(traced: Any, place: tuple[Any, str, str], inputs: dict[str, torch.Tensor]) -> Any:
    part, name, side = place
    try:
        with torch.no_grad(), traced.trace(**inputs):
            value = getattr(getattr(part.source, name), side).save()
    except Exception:  # a place that was not run has no value
        return None
    return value[0] if isinstance(value, tuple) else value
