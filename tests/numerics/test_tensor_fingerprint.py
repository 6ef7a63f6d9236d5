"""Sums that tell a tensor's values and their order, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from normdiag.numerics import tensor_fingerprint
from normdiag.numerics.tensor_fingerprint import fingerprint_tensor, position_weights


@pytest.mark.parametrize("chunk", [5, 64, 1 << 20])
def test_sums_are_those_of_the_formula(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_fingerprint, "_CHUNK", chunk)
    x = torch.randn(7, 3, 4, generator=torch.Generator().manual_seed(0))
    m = x.double().reshape(7, 12).numpy()
    r, c = position_weights(7).numpy(), position_weights(12).numpy()
    got = fingerprint_tensor(x)
    assert np.allclose(
        [got.sum, got.squares, got.by_row, got.by_column, got.by_cell],
        [m.sum(), (m**2).sum(), r @ m.sum(1), m.sum(0) @ c, r @ m @ c],
        rtol=1e-12, atol=1e-12,
    )  # fmt: skip


def test_what_each_sum_keeps() -> None:
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    f, rows, turned = (fingerprint_tensor(t) for t in (x, x.flip(0), x.T))
    assert rows.by_column == pytest.approx(f.by_column) and rows.by_row != pytest.approx(f.by_row)
    assert turned.by_row == pytest.approx(f.by_column)
    assert turned.by_cell == pytest.approx(f.by_cell)


def test_weights_of_positions_are_fixed() -> None:
    assert position_weights(5)[2:].tolist() == position_weights(3, 2).tolist()
    assert bool((position_weights(1000).abs() <= 1).all())
    assert abs(float(position_weights(1000).mean())) < 0.1
