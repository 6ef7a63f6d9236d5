"""DTensors on one process: the report is that of the module that was sharded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import normdiag
from normdiag.errors import LoadError
from normdiag.loading.factory import wrap_module
from tests.wrapped_models import build_decoder, build_input, single_process

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch was built without it")


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    with single_process() as made:
        yield made


def shard_parameters(model: nn.Module, mesh: Any, dtype: torch.dtype | None = None) -> nn.Module:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=dtype)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def shard_parameters_in_half(model: nn.Module, mesh: Any) -> nn.Module:
    return shard_parameters(model, mesh, torch.bfloat16)


def split_tensors(model: nn.Module, mesh: Any) -> nn.Module:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    plan = {f"attn.{name}": ColwiseParallel() for name in "qkv"} | {"attn.o": RowwiseParallel()}
    plan |= {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
    plan["n2"] = SequenceParallel(use_local_output=True)
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model


def distribute_all(model: nn.Module, mesh: Any) -> nn.Module:
    from torch.distributed.tensor import distribute_module

    return distribute_module(model, mesh)


PLANS = (shard_parameters, shard_parameters_in_half, split_tensors, distribute_all)


def without_names(report: normdiag.Report) -> dict[str, Any]:
    """What was measured, and on which weights."""
    return {
        "architecture": report.architecture,
        "measurements": dataclasses.replace(report.measurements, norm_speed=None),
        "findings": report.findings,
        "digest": report.subject.weights_digest,
        "class": report.subject.class_,
    }


def tensor_state(model: nn.Module) -> list[Any]:
    tables = ("_parameters", "_buffers", "_forward_hooks", "_forward_pre_hooks")
    tables += ("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks")
    return [
        (
            path,
            type(module),
            sorted(vars(module)),
            [(name, id(v)) for t in tables for name, v in getattr(module, t).items()],
        )
        for path, module in model.named_modules()
    ]


@cache
def report_before() -> normdiag.Report:
    return normdiag.inspect(build_decoder(), inputs=build_input())


@pytest.mark.parametrize("shard", PLANS)
def test_the_report_is_that_of_the_module_before(mesh: Any, shard: Callable[..., Any]) -> None:
    model = shard(build_decoder(), mesh)
    before = tensor_state(model)
    report = normdiag.inspect(model, inputs=build_input())
    assert without_names(report) == without_names(report_before())
    assert "sharded parameters" in (report.subject.probe.note or "")
    assert tensor_state(model) == before


def test_it_runs_as_before_afterwards(mesh: Any) -> None:
    model = shard_parameters(build_decoder(), mesh)
    expected = model(**build_input())  # leaves the root's parameters gathered
    normdiag.inspect(model, inputs=build_input(), measure=("stream",))
    assert torch.equal(model(**build_input()), expected)


def test_what_is_put_back_after_an_error(mesh: Any) -> None:
    model = shard_parameters(build_decoder(), mesh)
    before = tensor_state(model)
    with pytest.raises(normdiag.NormdiagError):
        normdiag.inspect(model, inputs={"x": torch.ones(2, 3, 5)})
    assert tensor_state(model) == before


def test_what_is_put_back_where_gathering_itself_fails(
    mesh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shard_parameters(build_decoder(), mesh)
    before = tensor_state(model)
    monkeypatch.setattr("normdiag.loading.gathered_shards._remove_wrappers", fail_to_remove)
    with pytest.raises(NotImplementedError):
        wrap_module(model)
    assert tensor_state(model) == before


def fail_to_remove(*_: object) -> None:
    raise NotImplementedError


def test_a_package_of_the_user_may_have_any_name(mesh: Any) -> None:
    """Its classes and hooks are part of the model."""
    ours = type("Ours", (nn.Linear,), {"__module__": "ours.distributed.layers"})
    model = nn.Sequential(ours(4, 4))
    model[0].register_forward_hook(double_output)
    shard = shard_whole(model, mesh)
    loaded = wrap_module(shard)
    assert type(loaded.model[0]) is ours
    x = torch.ones(1, 4)
    assert torch.equal(loaded.model(x), 2 * nn.functional.linear(x, *model[0].parameters()))
    loaded.restore()
    assert type(model[0]) is not ours and isinstance(model[0], ours)


def double_output(module: nn.Module, args: object, output: torch.Tensor) -> torch.Tensor:
    return 2 * output


double_output.__module__ = "ours.distributed.hooks"


def shard_whole(model: nn.Module, mesh: Any) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    for part in model:
        fully_shard(part, mesh=mesh)
    return model


def test_tied_parameters_stay_tied(mesh: Any) -> None:
    model = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)])
    model[1].weight = model[0].weight
    distribute_all(model, mesh)
    model[1].weight = model[0].weight
    loaded = wrap_module(model)
    assert loaded.model[0].weight is loaded.model[1].weight
    assert type(loaded.model[0].weight) is nn.Parameter
    loaded.restore()
    assert model[0].weight is model[1].weight and type(model[0].weight.data) is not torch.Tensor


def test_a_plain_module_has_nothing_to_gather() -> None:
    assert wrap_module(build_decoder()).notes == ()


def test_more_than_one_process_is_refused(mesh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = distribute_all(build_decoder(), mesh)
    before = tensor_state(model)
    monkeypatch.setattr(type(mesh), "size", lambda *_: 4)
    with pytest.raises(LoadError, match=r"blocks\.0\.n1\.weight is sharded over 4 processes"):
        wrap_module(model)
    assert tensor_state(model) == before


def test_what_is_refused_is_left_as_it_was(mesh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a forward the root's own parameters lie gathered, and stay so."""
    model = shard_parameters(build_decoder(), mesh)
    model(**build_input())
    before = tensor_state(model)
    assert any(type(p.data) is torch.Tensor for p in model.parameters())
    monkeypatch.setattr(type(mesh), "size", lambda *_: 4)
    with pytest.raises(LoadError, match="is sharded over 4 processes"):
        wrap_module(model)
    assert tensor_state(model) == before
