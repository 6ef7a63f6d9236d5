"""Tensors without elements are named; no finite values are claimed where there are none."""

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

import normdiag
from normdiag.render.formats import FORMATS
from normdiag.render.interface import Options


@pytest.mark.parametrize("rest", [{}, {"full.weight": torch.ones(2, 3)}])
def test_empty_tensors_are_named(tmp_path: Path, rest: dict[str, torch.Tensor]) -> None:
    path = tmp_path / "model.safetensors"
    empty = {f"layers.{i}.weight": torch.empty(0) for i in range(4)}
    save_file(empty | rest, path)
    report = normdiag.inspect(str(path), weights_only=True)
    buffer = io.StringIO()
    FORMATS["inspect"]["text"](report, Console(file=buffer, width=200), Options())
    text = " ".join(buffer.getvalue().split())
    names = ", ".join(f"layers.{i}.weight" for i in range(3))
    assert f"4 empty tensors (0 elements): {names} and 1 more" in text
    assert ("all values finite" in text) == bool(rest)
