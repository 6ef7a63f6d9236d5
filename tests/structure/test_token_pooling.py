"""Pooling is over tokens, and is no comparison of two values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from normdiag.structure.token_pooling import pools_tokens
from tests.capture.recording import record_graph


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda x: x.mean(1), True),
        (lambda x: x.amin(1), True),
        (lambda x: x.max(1).values, True),
        (lambda x: F.avg_pool1d(x, 3), True),
        (lambda x: F.adaptive_max_pool1d(x, 2), True),
        (lambda x: x.unfold(1, 2, 2).mean(-1), True),
        (lambda x: x.unfold(2, 2, 2).mean(-1), False),
        (lambda x: x.mean(-1), False),
        (lambda x: x.max(), False),
        (lambda x: torch.max(x, x * 2), False),
        (lambda x: x.softmax(1), False),
    ],
)
def test_operations(
    operation: Callable[[torch.Tensor], torch.Tensor], expected: bool, mode: Callable[[], object]
) -> None:
    graph = record_graph(operation, torch.randn(2, 6, 4), mode=mode)
    assert any(map(pools_tokens, graph)) is expected
