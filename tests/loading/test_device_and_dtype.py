"""Names of dtypes and devices, and what does not fit."""

from __future__ import annotations

import pytest
import torch

from normdiag.errors import LoadError, UsageError
from normdiag.loading.device_and_dtype import prepare_model, resolve_device, resolve_dtype
from normdiag.options import LoadingOptions


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (None, None),
        ("auto", None),
        ("bf16", torch.bfloat16),
        ("float16", torch.float16),
        ("torch.float32", torch.float32),
        ("Half", torch.float16),
    ],
)
def test_dtypes_have_several_names(name: str | None, dtype: torch.dtype | None) -> None:
    assert resolve_dtype(LoadingOptions(dtype=name).dtype) is dtype


@pytest.mark.parametrize("name", ["int8", "float7", "", "nn"])
def test_other_names_are_usage_errors(name: str) -> None:
    with pytest.raises(UsageError, match=f"invalid option: dtype = {name!r}") as caught:
        LoadingOptions(dtype=name)
    assert "bfloat16" in str(caught.value.hint)


def test_the_cpu_is_always_there() -> None:
    assert resolve_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["warp", "cuda:99", "cpu:x", ""])
def test_a_device_that_is_not_there_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="this machine has: cpu"):
        resolve_device(name)


def test_the_meta_device_holds_no_values() -> None:
    with pytest.raises(UsageError, match="--structure-only"):
        resolve_device("meta")


def test_a_model_that_does_not_fit_says_how_large_it_is() -> None:
    class Huge(torch.nn.Linear):
        def to(self, *_: object, **__: object) -> torch.nn.Module:
            raise torch.OutOfMemoryError("tried to allocate more than there is")

    with pytest.raises(LoadError, match=r"0\.1 GB of parameters\) does not fit on cpu"):
        prepare_model(Huge(5000, 5000), torch.device("cpu"))


def test_a_model_is_settled_in_eval_mode() -> None:
    model = prepare_model(torch.nn.Linear(2, 2).train(), torch.device("cpu"), torch.float16)
    assert not model.training
    assert model.weight.dtype is torch.float16
