"""Products of float16 matrices run in float32 and are rounded once; others are left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from normdiag.measure.passes.half_products import fast_half_products

HALF = nn.Linear(4, 4).half()
_ATEN = torch.ops.aten


class Operands(TorchDispatchMode):
    """What arrives at each operation below the modes inside of this one."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, list[torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        self.seen[func.overloadpacket.__name__] = tensors
        return func(*args, **(kwargs or {}))


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).half()


def dtypes_of(operands: Operands, name: str) -> set[torch.dtype]:
    return {operand.dtype for operand in operands.seen[name]}


@pytest.mark.parametrize(
    ("name", "product", "shapes"),
    [
        ("mm", torch.mm, [(5, 64), (64, 3)]),
        ("bmm", torch.bmm, [(2, 5, 64), (2, 64, 3)]),
        ("addmm", torch.addmm, [(5, 3), (5, 64), (64, 3)]),
        ("baddbmm", torch.baddbmm, [(2, 5, 3), (2, 5, 64), (2, 64, 3)]),
        ("mv", torch.mv, [(5, 64), (64,)]),
        ("addmv", torch.addmv, [(5,), (5, 64), (64,)]),
        ("dot", torch.dot, [(64,), (64,)]),
        ("convolution", torch.conv1d, [(1, 8, 16), (4, 8, 3), (4,)]),
    ],
)
def test_a_product_is_the_exact_one_rounded(
    name: str, product: Callable[..., torch.Tensor], shapes: list[tuple[int, ...]]
) -> None:
    operands = [draw(*shape) for shape in shapes]
    exact = product(*(operand.double() for operand in operands))
    with Operands() as below, fast_half_products(HALF):
        found = product(*operands)
    assert dtypes_of(below, name) == {torch.float32}
    assert found.dtype == torch.float16
    # half an ulp, and what summing in float32 adds
    assert torch.all((found.double() - exact).abs() <= 2.0**-11 * exact.abs() * 1.01 + 1e-5)


def test_a_product_into_a_given_tensor_is_the_callers() -> None:
    a, b, out = draw(5, 64), draw(64, 3), torch.empty(5, 3, dtype=torch.float16)
    with Operands() as below, fast_half_products(HALF):
        torch.mm(a, b, out=out)
    assert dtypes_of(below, "mm") == {torch.float16}
    assert torch.allclose(out.double(), a.double() @ b.double(), rtol=1e-2, atol=1e-2)


def test_a_backward_and_a_batched_one_see_it_too() -> None:
    weight, x = draw(6, 5), draw(7, 5).requires_grad_(True)
    y = x @ weight.t()
    many = draw(3, 7, 6)
    with Operands() as below, fast_half_products(HALF):
        together = torch.autograd.grad(y, x, many, retain_graph=True, is_grads_batched=True)[0]
    products = set(below.seen) & {"mm", "bmm"}
    assert products and all(dtypes_of(below, name) == {torch.float32} for name in products)
    exact = many.double() @ weight.double()
    assert torch.allclose(together.double(), exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("model", "dtype"), [(HALF, torch.float32), (nn.Linear(4, 4), torch.float16)]
)
def test_float32_and_a_model_without_float16_are_left_alone(
    model: nn.Module, dtype: torch.dtype
) -> None:
    a, b = draw(3, 5).to(dtype), draw(5, 2).to(dtype)
    with Operands() as below, fast_half_products(model):
        found = a @ b
    assert found.dtype == dtype and below.seen["mm"][0] is a and set(below.seen) == {"mm"}


def test_an_expanded_operand_is_not_copied_for_each_product() -> None:
    a, b = draw(3, 5, 4), draw(4, 2).expand(3, 4, 2)
    with Operands() as below, fast_half_products(HALF):
        found = torch.bmm(a, b)
    assert below.seen["bmm"][1].stride(0) == 0
    assert torch.equal(found, (a.float() @ b.float()).half())
