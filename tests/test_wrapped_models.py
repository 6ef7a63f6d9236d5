"""A wrapper changes names alone: the report is that of the model inside."""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import nn

import normdiag
from tests.wrapped_models import build_decoder, build_input, single_process

Wrap = Callable[[nn.Module], Any]


class Holder(nn.Module):
    """A module that only calls another one."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Autocast(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            return self.inner(x)


def prune_nothing(model: nn.Module) -> nn.Module:
    from torch.nn.utils import prune

    for block in model.blocks:
        prune.identity(block.mlp.up, "weight")
    return model


def reparametrise(model: nn.Module) -> nn.Module:
    from torch.nn.utils.parametrizations import weight_norm

    for block in model.blocks:
        weight_norm(block.mlp.up)
    return model


def wrap_checkpointed(model: nn.Module) -> nn.Module:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    for i, block in enumerate(model.blocks):
        model.blocks[i] = checkpoint_wrapper(block)
    return model


def wrap_data_parallel(model: nn.Module) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model)


def wrap_fsdp(model: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(
        model, device_id=torch.device("cpu"), use_orig_params=True
    ).eval()


def wrap_lightning(model: nn.Module) -> nn.Module:
    import lightning

    class Lightning(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    return Lightning().eval()


WRAPPERS: dict[str, tuple[Wrap, str]] = {
    "holder": (Holder, r"inner\."),
    "DataParallel": (nn.DataParallel, r"module\."),
    "DistributedDataParallel": (wrap_data_parallel, r"module\."),
    "torch.compile": (torch.compile, ""),
    "autocast": (Autocast, r"inner\."),
    "checkpoint wrapper": (wrap_checkpointed, r"\._checkpoint_wrapped_module"),
    "FSDP": (wrap_fsdp, r"_fsdp_wrapped_module\."),
    "Lightning": (wrap_lightning, r"inner\."),
    "pruning": (prune_nothing, ""),
    "weight_norm": (reparametrise, ""),
}


@contextmanager
def process_group(name: str) -> Iterator[None]:
    with single_process() if name in ("DistributedDataParallel", "FSDP") else nullcontext():
        yield


def describe_structure(report: normdiag.Report, part: str = "") -> dict[str, Any]:
    """Sites under the names inside the wrapper, of whose names `part` is the wrapper's."""

    def inner_name(name: str | None) -> str:
        return re.sub(part, "", name or "")

    return {
        "stacks": [
            (inner_name(s.id), s.placement, s.layers, inner_name(s.final_norm))
            for s in report.architecture.stacks
        ],
        "adds": [inner_name(add.id) for add in report.architecture.residual_adds],
        "norms": [(inner_name(n.id), n.role, n.kind) for n in report.architecture.norms],
        "unexplained": report.coverage.unexplained_adds,
    }


def list_medians(report: normdiag.Report) -> list[float]:
    measured = report.measurements
    return [measured.stream[add.id].out_norm.median for add in report.architecture.residual_adds]


def list_gradients(report: normdiag.Report) -> list[float]:
    gradients = report.measurements.gradients
    assert gradients is not None
    return [gradients.stream[add.id] for add in report.architecture.residual_adds]


def list_norm_numbers(report: normdiag.Report) -> list[float]:
    """The gain and the largest input of every norm."""
    numbers: list[float] = []
    for norm in report.architecture.norms:
        assert norm.gain is not None
        numbers += [norm.gain.rms, report.measurements.norms[norm.id].max_abs]
    return numbers


@pytest.fixture(scope="module")
def plain() -> normdiag.Report:
    return normdiag.inspect(build_decoder(), inputs=build_input())


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_changes_names_alone(plain: normdiag.Report, name: str) -> None:
    wrap, part = WRAPPERS[name]
    if name == "Lightning" and importlib.util.find_spec("lightning") is None:
        pytest.skip("lightning is not installed")
    with process_group(name), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is deprecated in the wrappers
        report = normdiag.inspect(wrap(build_decoder()), inputs=build_input())
    assert describe_structure(report, part) == describe_structure(plain)
    assert list_medians(report) == pytest.approx(list_medians(plain), rel=1e-4)
    assert list_norm_numbers(report) == pytest.approx(list_norm_numbers(plain), rel=1e-4)
    if name == "FSDP":  # its forward reads views of one flat parameter
        assert [each.what for each in report.coverage.skipped] == ["gradients"]
        return
    assert list_gradients(report) == pytest.approx(list_gradients(plain), rel=1e-4)
    assert [each.code for each in report.findings] == [each.code for each in plain.findings]


class CodedLinear(nn.Module):
    """Weights of eight bits with a scale per row, made whole in each forward, as GGUF's are."""

    codes: torch.Tensor
    scale: torch.Tensor

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        scale = plain.weight.detach().abs().amax(1, keepdim=True) / 127
        self.register_buffer("scale", scale)
        self.codes = nn.Parameter(
            (plain.weight / scale).round().to(torch.int8).detach(), requires_grad=False
        )
        self.bias = plain.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.codes.float() * self.scale, self.bias)


def quantise_dynamically(model: nn.Module) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear})


def quantise_by_hand(model: nn.Module) -> nn.Module:
    for block in model.blocks:
        block.mlp.up, block.mlp.down = CodedLinear(block.mlp.up), CodedLinear(block.mlp.down)
    return model


def quantise_with_torchao(model: nn.Module, config: str) -> nn.Module:
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    quantization.quantize_(model, getattr(quantization, config)())
    return model


def quantise_with_bitsandbytes(model: nn.Module) -> nn.Module:
    bnb = pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    for block in model.blocks:
        for name in ("up", "down"):
            old = getattr(block.mlp, name)
            new = bnb.nn.Linear8bitLt(old.in_features, old.out_features, has_fp16_weights=False)
            new.load_state_dict(old.state_dict())
            setattr(block.mlp, name, new.to("cpu").eval())
    return model


def make_sparse(model: nn.Module) -> nn.Module:
    for block in model.blocks:
        weight = block.mlp.up.weight.detach().to_sparse_csr()
        block.mlp.up.weight = nn.Parameter(weight, requires_grad=False)
    return model


QUANTISED: dict[str, Wrap] = {
    "dynamic": quantise_dynamically,
    "by hand": quantise_by_hand,
    "sparse": make_sparse,
    "bitsandbytes": quantise_with_bitsandbytes,
} | {
    f"torchao {config}": lambda model, config=config: quantise_with_torchao(model, config)
    for config in (
        "Int8WeightOnlyConfig",
        "Int8DynamicActivationInt8WeightConfig",
        "Int8DynamicActivationIntxWeightConfig",
        "Float8WeightOnlyConfig",
    )
}


@pytest.mark.parametrize("name", QUANTISED)
def test_weights_in_another_form_keep_the_structure(plain: normdiag.Report, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is deprecated, or in beta
        report = normdiag.inspect(QUANTISED[name](build_decoder()), inputs=build_input())
    assert describe_structure(report) == describe_structure(plain)
    for mine, theirs in zip(list_medians(report), list_medians(plain), strict=True):
        assert mine == pytest.approx(theirs, rel=0.05)
