"""Which padding applies to which value: a decoder's values come from the decoder's inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from normdiag.graph import Graph, Node
from normdiag.measure.statistics.rows import Padding, TokenLayout

_IDS = ("input_ids", "inputs_embeds", "input_values", "input_features")


class Layouts:
    """The token layouts of one batch."""

    def __init__(self, inputs: Mapping[str, Any], graph: Graph) -> None:
        self._graph = graph
        self._encoder = self._layout(inputs, "")
        self._decoder = self._layout(inputs, "decoder_")

    def of(self, node: Node) -> TokenLayout:
        """The layout of the tokens that `node` belongs to."""
        if self._decoder is not None:
            for i, name in enumerate(self._graph.inputs):
                if name.startswith("decoder_") and node.origins >> i & 1:
                    return self._decoder
        return self._encoder or TokenLayout(0, 0, None)

    @staticmethod
    def _layout(inputs: Mapping[str, Any], prefix: str) -> TokenLayout | None:
        mask = inputs.get(f"{prefix}attention_mask")
        padding = None
        if isinstance(mask, torch.Tensor) and mask.dim() == 2 and not mask.is_meta:
            padding = Padding(mask != 0)
        for name in _IDS:
            tensor = inputs.get(prefix + name)
            if isinstance(tensor, torch.Tensor) and tensor.dim() >= 2:
                sequences, positions = tensor.shape[:2]
                if padding is not None and padding.mask.shape != (sequences, positions):
                    padding = None
                return TokenLayout(sequences, positions, padding)
        return None


def tensors_of(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in an argument of forward, with the argument's name."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_of(name, item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(name, item)
