"""Tensors without elements are named; no finite values are claimed where there are none."""

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
    console = Console(width=200, record=True, quiet=True)
    with console.capture() as capture:
        FORMATS["inspect"]["text"](report, console, Options())
    text = capture.get() or console.export_text()
    expected = (
        "4 empty tensors (0 elements): layers.0.weight, layers.1.weight, layers.2.weight and 1"
    )
    assert expected in " ".join(text.split())
    assert ("all values finite" in text) == bool(rest)
