"""Layers of the checkpoint that the configuration does not build."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from torch import nn


def find_unbuilt_layers(model: nn.Module, unexpected: Iterable[str]) -> tuple[str, ...]:
    """Find the layers behind the last one of a list of layers in `model`, by their paths.

    A layer with parameters that no built layer has is another thing (a multi-token prediction
    head, say) and is not counted.
    """
    lists = {p: m for p, m in model.named_modules() if isinstance(m, nn.ModuleList)}
    stored: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for name in unexpected:
        parts = name.split(".")
        for i, part in enumerate(parts):
            layers = lists.get(".".join(parts[:i]))
            if layers is not None and part.isdecimal() and int(part) >= len(layers):
                stored[".".join(parts[:i]), int(part)].add(".".join(parts[i + 1 :]))
                break
    return tuple(
        f"{path}.{number}"
        for (path, number), names in sorted(stored.items())
        if not len(lists[path]) or any(names <= layer.state_dict().keys() for layer in lists[path])
    )
