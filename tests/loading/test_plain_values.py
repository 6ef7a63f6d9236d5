"""The values of tensors that are no ordinary ones."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from normdiag.errors import LoadError
from normdiag.loading.plain_values import is_ordinary, plain_values

VALUES = torch.arange(12.0).reshape(3, 4)


class Scaled(torch.Tensor):
    """A tensor that wraps codes and a scale, as libraries of quantised weights do."""

    codes: torch.Tensor

    @staticmethod
    def __new__(cls, codes: torch.Tensor) -> Scaled:
        made = torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)
        made.codes = codes
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], *_: object) -> Scaled:
        return Scaled(inner["codes"])

    def dequantize(self) -> torch.Tensor:
        return self.codes.float() / 2

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].codes)
        raise NotImplementedError(f"{func} of {cls.__name__}")


class Silent(Scaled):
    """One that does not say how its values are read."""

    def dequantize(self) -> torch.Tensor:
        return self


class Marked(torch.Tensor):
    """A subclass without any behaviour of its own."""


def sparse_rows() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of their being in beta
        return VALUES.to_sparse_csr()


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(VALUES, id="plain"),
        pytest.param(nn.Parameter(VALUES), id="parameter"),
        pytest.param(VALUES.as_subclass(Marked), id="subclass"),
        pytest.param(VALUES.to_sparse(), id="sparse"),
        pytest.param(sparse_rows(), id="sparse rows"),
        pytest.param(torch.quantize_per_tensor(VALUES, 1.0, 0, torch.quint8), id="quantised"),
        pytest.param(Scaled((2 * VALUES).to(torch.int8)), id="wrapper"),
    ],
)
def test_they_are_read(tensor: torch.Tensor) -> None:
    actual = plain_values("w", tensor)
    assert is_ordinary(actual) and not actual.requires_grad
    assert torch.equal(actual.as_subclass(torch.Tensor), VALUES)


def nest_parts(*shapes: tuple[int, ...], layout: torch.layout) -> torch.Tensor:
    parts = [torch.full(shape, number + 1.0) for number, shape in enumerate(shapes)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of their being a prototype
        return torch.nested.nested_tensor(parts, layout=layout)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_parts_of_several_sizes_are_joined(layout: torch.layout) -> None:
    """Nothing but their own values: no zeros where one is shorter."""
    joined = plain_values("w", nest_parts((2, 3), (4, 3), layout=layout))
    assert is_ordinary(joined)
    assert torch.equal(joined, torch.tensor([1.0, 1, 2, 2, 2, 2])[:, None].expand(6, 3))


def test_parts_that_differ_along_each_axis_are_flat() -> None:
    joined = plain_values("w", nest_parts((1, 3), (2, 2), layout=torch.strided))
    assert joined.tolist() == [1, 1, 1, 2, 2, 2, 2]


def test_an_ordinary_one_is_not_copied() -> None:
    assert plain_values("w", nn.Parameter(VALUES)).data_ptr() == VALUES.data_ptr()


def test_one_that_does_not_say_how_is_named() -> None:
    with pytest.raises(LoadError, match=r"layer\.w is a .*Silent.*cannot be read"):
        plain_values("layer.w", Silent(VALUES.to(torch.int8)))


def test_freed_memory_is_not_read() -> None:
    """As libraries free gathered parameters after a forward: reading them ends the process."""
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(0)
    assert not is_ordinary(tensor)
    with pytest.raises(LoadError, match="its memory was freed"):
        plain_values("w", tensor)
