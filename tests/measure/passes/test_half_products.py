"""Products of float16 matrices are rounded once; other products are left alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from normdiag.measure.passes.half_products import fast_half_products

HALF = nn.Linear(4, 4).half()


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).half()


@pytest.mark.parametrize(
    ("product", "shapes"),
    [
        (torch.mm, [(5, 64), (64, 3)]),
        (torch.bmm, [(2, 5, 64), (2, 64, 3)]),
        (torch.addmm, [(5, 3), (5, 64), (64, 3)]),
        (torch.conv1d, [(1, 8, 16), (4, 8, 3), (4,)]),
    ],
)
def test_a_product_is_the_exact_one_rounded(product, shapes) -> None:
    operands = [draw(*shape) for shape in shapes]
    exact = product(*(operand.double() for operand in operands))
    with fast_half_products(HALF):
        found = product(*operands)
    assert found.dtype == torch.float16
    # half an ulp, and what summing in float32 adds
    assert torch.all((found.double() - exact).abs() <= 2.0**-11 * exact.abs() * 1.01 + 1e-5)


def test_a_backward_and_a_batched_one_see_it_too() -> None:
    weight, x = draw(6, 5), draw(7, 5).requires_grad_(True)
    y = x @ weight.t()
    many = draw(3, 7, 6)
    with fast_half_products(HALF):
        together = torch.autograd.grad(y, x, many, retain_graph=True, is_grads_batched=True)[0]
    exact = many.double() @ weight.double()
    assert torch.allclose(together.double(), exact, rtol=1e-3, atol=1e-3)


def test_float32_and_a_model_without_float16_are_left_alone() -> None:
    a, b = draw(3, 5).float(), draw(5, 2).float()
    with fast_half_products(HALF):
        assert torch.equal(a @ b, torch.mm(a, b)) and (a @ b).dtype == torch.float32
    half = draw(3, 4)
    plain = half @ half.t()
    with fast_half_products(nn.Linear(4, 4)):
        assert torch.equal(half @ half.t(), plain)


def test_an_expanded_operand_is_not_copied_for_each_product() -> None:
    a, b = draw(3, 5, 4), draw(4, 2).expand(3, 4, 2)
    with fast_half_products(HALF):
        found = torch.bmm(a, b)
    assert torch.equal(found, (a.float() @ b.float()).half())
