"""The token layouts of one batch: a decoder's values are tokens of the decoder's inputs."""

from __future__ import annotations

import torch

from normdiag.graph import Node
from normdiag.inputs.batch import Batch
from normdiag.inputs.padding import DECODER, token_mask
from normdiag.inputs.tensors import iterate_input_tensors
from normdiag.measure.statistics.rows import TokenLayout

_TOKEN_INPUTS = ("input_ids", "inputs_embeds", "input_values", "input_features")


class TokenLayouts:
    """Finds the layout of the tokens that a node belongs to."""

    def __init__(self, batch: Batch) -> None:
        self._decoder = _read_layout(batch, DECODER)
        self._others = _read_layout(batch, "") or TokenLayout(0, 0, None)
        names = [name for name, _ in iterate_input_tensors(batch)]
        self._decoder_inputs = sum(1 << i for i, n in enumerate(names) if n.startswith(DECODER))
        """Bit i is set where input i is the decoder's, as in `Node.origins`."""

    def layout_of(self, node: Node) -> TokenLayout:
        """The decoder's layout for what derives from its inputs, else the layout of the others."""
        if self._decoder is not None and node.origins & self._decoder_inputs:
            return self._decoder
        return self._others


def _read_layout(batch: Batch, side: str) -> TokenLayout | None:
    """(sequences, positions) of one side's inputs and their padding; None without such inputs."""
    for name in _TOKEN_INPUTS:
        tensor = batch.inputs.get(side + name)
        if isinstance(tensor, torch.Tensor) and tensor.dim() >= 2:
            sequences, positions = tensor.shape[:2]
            mask = token_mask(batch, side)
            fits = mask is not None and mask.shape == (sequences, positions)
            return TokenLayout(sequences, positions, mask if fits else None)
    return None
