"""Products that leave out rows of zeros give what the whole products give."""

import pytest
import torch

from normdiag.measure.zero_rows import ZeroRows


@pytest.mark.parametrize("filled", [0, 1, 100, 256, 512])
def test_the_product_is_the_same(filled):
    generator = torch.Generator().manual_seed(0)
    left, right = torch.zeros(512, 64), torch.randn(64, 48, generator=generator)
    left[:filled] = torch.randn(filled, 64, generator=generator)
    left = left[torch.randperm(512, generator=generator)]
    with ZeroRows():
        found = left @ right
    assert torch.allclose(found, left @ right, rtol=1e-5, atol=1e-5)


def test_rows_that_are_tiny_are_no_zeros():
    left = torch.zeros(512, 64)
    left[3] = 1e-30
    with ZeroRows():
        assert (left @ torch.ones(64, 48))[3].tolist() == pytest.approx([64e-30] * 48)


def test_fewer_rows_are_multiplied():
    """Counted below: what reaches the kernel."""
    seen = []

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.mm.default:
                seen.append(len(args[0]))
            return func(*args, **(kwargs or {}))

    left = torch.zeros(512, 64)
    left[::8] = 1.0
    with Counting(), ZeroRows():
        left @ torch.ones(64, 48)
    assert seen == [64]
