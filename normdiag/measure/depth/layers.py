"""What each layer as a whole does to the stream of one sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from normdiag.evidence.architecture import layer_id
from normdiag.evidence.layers import LayerMeasurement
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.records import AddRecord
from normdiag.measure.sites.replay import apply_norm
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stack_structure import StackStructure


def measure_layers(
    name: str,
    stack: StackStructure,
    records: Mapping[DetectedAdd, AddRecord],
    learned: LearnedValues,
) -> dict[str, LayerMeasurement]:
    """By "<stack>/layer#k"."""
    layers = {}
    for layer, tokens, before, after in _iterate_layers(stack, records, learned):
        influence, angular = _compute_rotation(before, after)
        effective, stable = _compute_ranks(after[tokens])
        layers[layer_id(name, layer)] = LayerMeasurement(
            stack=name,
            layer=layer,
            tokens=after.shape[0],
            block_influence=influence,
            angular_distance=angular,
            effective_rank=effective,
            stable_rank=stable,
        )
    return layers


def _iterate_layers(
    stack: StackStructure, records: Mapping[DetectedAdd, AddRecord], learned: LearnedValues
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Layer, which rows are no first token, x_in and x_out in float64; of layers with tokens."""
    records_by_depth = [records.get(add) for add in stack.chain.adds]
    of_add = stack.layers.layer_of_add
    starts = [i for i, layer in enumerate(of_add) if i == 0 or layer != of_add[i - 1]]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        first = records_by_depth[start]
        last = records_by_depth[-1] if end is None else records_by_depth[end]
        if first is None or last is None or not torch.equal(first.rows, last.rows):
            continue
        before, after = (
            _to_float64(first.skip_rows),
            _to_float64(last.out_rows if end is None else last.skip_rows),
        )
        if end is None:
            for norm in stack.adds[-1].stream_norms:
                normed = apply_norm(norm, after, learned)
                after = after if normed is None else normed
        if before.shape == after.shape and before.shape[0]:
            _, position = first.tokens.token_places(first.rows.cpu().numpy())
            yield of_add[start], torch.from_numpy(position > position.min()), before, after


def _compute_rotation(
    before: torch.Tensor, after: torch.Tensor
) -> tuple[float | None, float | None]:
    """Block influence and angular distance, means over tokens.

    The angle is taken between unit vectors by its half chord: an arccos would lose small ones.
    """
    sizes = [torch.linalg.vector_norm(t, dim=-1, keepdim=True) for t in (before, after)]
    if not all(bool((size > 0).all() & torch.isfinite(size).all()) for size in sizes):
        return None, None
    x, y = before / sizes[0], after / sizes[1]
    half = torch.linalg.vector_norm(x - y, dim=-1) / 2
    angle = 2 * torch.atan2(half, torch.linalg.vector_norm(x + y, dim=-1) / 2)
    return float((2 * half.square()).mean()), float(angle.mean() / torch.pi)


def _compute_ranks(matrix: torch.Tensor) -> tuple[float | None, float | None]:
    """Effective and stable rank of (tokens, features), by its smaller Gram matrix."""
    if matrix.shape[0] < 2 or not bool(torch.isfinite(matrix).all()):
        return None, None
    size = matrix.abs().max()
    if not size:
        return None, None
    scaled = matrix / size
    gram = scaled @ scaled.T if matrix.shape[0] <= matrix.shape[1] else scaled.T @ scaled
    squares = torch.linalg.eigvalsh(gram).clamp_min(0)
    share = squares.sqrt() / squares.sqrt().sum()
    entropy = -torch.special.xlogy(share, share).sum()
    return float(entropy.exp()), float(squares.sum() / squares[-1])


def _to_float64(records_by_depth: torch.Tensor) -> torch.Tensor:
    return records_by_depth.detach().double().cpu()
