"""TorchScript and torch.export: all operations are seen, and the report says what is lost."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

import normdiag
from normdiag.errors import LoadError
from normdiag.loading.device_and_dtype import prepare_model
from normdiag.loading.factory import wrap_module
from normdiag.loading.load_target import load_target
from tests.wrapped_models import LAYERS, build_decoder, build_input

VALUES = build_input()["x"]
ADDS, NORMS = 2 * LAYERS, 2 * LAYERS + 1


def trace_whole(model: nn.Module) -> nn.Module:
    return torch.jit.trace(model, (VALUES,), check_trace=False)


def trace_blocks(model: nn.Module) -> nn.Module:
    for i, block in enumerate(model.blocks):
        model.blocks[i] = torch.jit.trace(block, (VALUES,), check_trace=False)
    return model


def export_whole(model: nn.Module) -> nn.Module:
    return torch.export.export(model, (), {"x": VALUES}).module()


def unflatten(model: nn.Module) -> nn.Module:
    return torch.export.unflatten(torch.export.export(model, (), {"x": VALUES}))


@cache
def report_of_code() -> normdiag.Report:
    return normdiag.inspect(build_decoder(), inputs=build_input())


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("form", [trace_whole, trace_blocks, export_whole, unflatten])
def test_every_add_and_norm_is_seen(form) -> None:
    plain = report_of_code()
    report = normdiag.inspect(form(build_decoder()), inputs=build_input())
    (stack,) = report.architecture.stacks
    assert stack.placement == "pre"
    assert (len(report.architecture.residual_adds), len(report.architecture.norms)) == (ADDS, NORMS)
    for mine, theirs in zip(
        report.architecture.residual_adds, plain.architecture.residual_adds, strict=True
    ):
        assert report.measurements.stream[mine.id].out_norm.median == pytest.approx(
            plain.measurements.stream[theirs.id].out_norm.median, rel=1e-5
        )
    note = report.subject.probe.note or ""
    assert ("its graph was run" in note) == (form is not unflatten)


def test_what_surrounds_an_exported_part_is_in_eval_mode() -> None:
    exported = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),)).module()
    ahead, behind = nn.Dropout(), nn.Sequential(nn.Dropout())
    model = prepare_model(nn.Sequential(ahead, exported, behind), torch.device("cpu"))
    assert not any(part.training for part in (model, ahead, behind, behind[0]))


def test_an_exported_program_is_asked_for_its_module(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "import torch\n"
        "def build():\n"
        "    model = torch.nn.Linear(2, 2)\n"
        "    return torch.export.export(model, (torch.ones(1, 2),))\n"
    )
    with pytest.raises(LoadError, match=r"returned a ExportedProgram[\s\S]*its module\(\)"):
        load_target(f"{path}:build")


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_an_archive_of_a_program_is_named(tmp_path: Path) -> None:
    trace_whole(build_decoder()).save(tmp_path / "traced.pt")
    with pytest.raises(LoadError, match="is a TorchScript archive"):
        load_target(str(tmp_path / "traced.pt"))
    (tmp_path / "exported.pt2").write_bytes(b"PK")
    with pytest.raises(LoadError, match=r"is a program of torch\.export"):
        load_target(str(tmp_path / "exported.pt2"))


def test_a_module_without_shapes_yet_is_refused() -> None:
    with pytest.raises(LoadError, match=r"1\.weight of Sequential has no shape yet"):
        wrap_module(nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(4)))
