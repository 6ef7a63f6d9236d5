"""The largest values between the sites: of contractions, products of activations, squares."""

from __future__ import annotations

import torch

from normdiag.graph import Node
from normdiag.measure.statistics.slab import Slab
from normdiag.structure.algebraic_forms import SquareForm
from normdiag.structure.aten_operations import CONVOLUTIONS, MATRIX_PRODUCTS

_CONTRACTIONS = MATRIX_PRODUCTS | CONVOLUTIONS
_PEAK_OPERATIONS = _CONTRACTIONS | {"mul", "pow", "square"}


def largest_magnitude(values: torch.Tensor, valid: torch.Tensor | None, slab: Slab) -> torch.Tensor:
    """max |value|, a scalar stored in `slab`, of the rows `valid` (None: all); NaN where one is."""
    if valid is not None:
        values = values.reshape(-1, values.shape[-1])[valid]
    if values.is_complex():  # the spectra of models that mix tokens by a Fourier transform
        values = values.abs()
    largest = slab.empty_tensor((), values.dtype, values.device)
    if values.numel() == 0:
        return largest.zero_()
    low, high = torch.aminmax(values)
    return torch.maximum(high, -low, out=largest)


def is_peak(node: Node) -> bool:
    """Whether outliers can arise here: where two activations, or many, are combined."""
    if node.op not in _PEAK_OPERATIONS or not (node.is_data and node.is_floating):
        return False
    if len(node.shape) < 2:
        return False
    return is_contracted(node) or is_product(node) or isinstance(node.form, SquareForm)


def is_contracted(node: Node) -> bool:
    """A sum of products, with weights or of tokens with tokens."""
    return node.op in _CONTRACTIONS and node.form is None


def is_product(node: Node) -> bool:
    """Two activations multiplied element by element, as in a gated MLP."""
    return (
        node.op == "mul"
        and node.form is None
        and len(node.parents) == 2
        and all(p.is_data and p.is_floating and p.shape == node.shape for p in node.parents)
    )
