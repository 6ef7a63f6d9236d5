"""Which axis of a stream holds its features, in layouts where several axes have one size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from normdiag.inputs.batch import Batch
from normdiag.measure.passes.recorded_forward import record_forward
from normdiag.measure.passes.structure_observer import StructureObserver
from normdiag.structure.feature_axis import stream_axis
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.token_mixing import branch_mixes_tokens

SIZE = 6
"""Of every axis, so that no size tells them apart."""


class Branch(nn.Module):
    def __init__(self, compute: Callable[[Branch, Tensor], Tensor]) -> None:
        super().__init__()
        self.compute = compute
        self.norm, self.linear = nn.LayerNorm(SIZE), nn.Linear(SIZE, SIZE)
        self.conv, self.group = nn.Conv1d(SIZE, SIZE, 1), nn.GroupNorm(1, SIZE)
        self.plane = nn.Conv2d(SIZE, SIZE, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.compute(self, x)


def detect_add(compute: Callable[[Branch, Tensor], Tensor], *shape: int) -> DetectedAdd:
    model = Branch(compute)
    observer = StructureObserver()
    with torch.no_grad():
        record_forward(model, Batch(inputs={"x": torch.randn(shape)}), observer)
    (add,) = observer.reader.detected_adds
    return add


THREE, FOUR = (2, SIZE, SIZE), (2, SIZE, SIZE, SIZE)


@pytest.mark.parametrize(
    ("compute", "shape", "axis", "mixes"),
    [
        (lambda m, x: m.linear(m.norm(x)), THREE, -1, False),
        (lambda m, x: m.linear(m.norm(x).mT).mT, THREE, -1, True),
        (lambda m, x: m.conv(m.norm(x)), THREE, -1, True),
        (lambda m, x: m.linear(m.norm(x.mT)).mT, THREE, -2, False),
        (lambda m, x: m.conv(m.norm(x.mT).mT), THREE, -2, False),
        (lambda m, x: m.linear(m.norm(x.mT).mT), THREE, -2, True),
        (lambda m, x: m.conv(x), THREE, -2, False),
        (lambda m, x: m.linear(x), THREE, -1, False),
        (lambda m, x: m.linear(x.mT).mT, THREE, -2, False),
        (lambda m, x: m.linear(m.norm(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2), FOUR, -3, False),
        (lambda m, x: m.plane(m.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)), FOUR, -3, False),
        (
            lambda m, x: m.linear(m.norm(x).flatten(1, 2).mT).mT.reshape(x.shape),
            (2, 2, SIZE // 2, SIZE),
            -1,
            True,
        ),
    ],
)
def test_the_norm_of_a_stream_tells_features_from_tokens(
    compute: Callable[[Branch, Tensor], Tensor], shape: tuple[int, ...], axis: int, mixes: bool
) -> None:
    add = detect_add(compute, *shape)
    assert stream_axis(add) == axis
    between = {n for n in _ancestors(add.branches[0]) if n.index > add.root.index}
    assert branch_mixes_tokens(add, between) is mixes


def _ancestors(node: object) -> set:  # type: ignore[type-arg]
    found, pending = set(), [node]
    while pending:
        at = pending.pop()
        if at not in found:
            found.add(at)
            pending += at.parents  # type: ignore[attr-defined]
    return found
