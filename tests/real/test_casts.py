"""Real checkpoints do not differ from copies of themselves that are stored in half precision."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import normdiag

IDS = ((1, *range(100, 124)),)


def store_copy(source: Path, path: Path, dtype: torch.dtype) -> Path:
    shutil.copytree(source, path)
    for file in path.glob("*.safetensors"):
        tensors = {name: t.to(dtype).clone() for name, t in load_file(file).items()}
        save_file(tensors, file, metadata={"format": "pt"})
    return path


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["minilm_directory", "smollm2_directory"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_copy_in_half_precision(
    request: pytest.FixtureRequest, tmp_path: Path, fixture: str, dtype: torch.dtype
) -> None:
    source = request.getfixturevalue(fixture)
    copy = store_copy(source, tmp_path / "copy", dtype)
    comparison = normdiag.compare(str(source), str(copy), measure=("stream", "norms"), ids=IDS)
    name = str(dtype).removeprefix("torch.")
    assert comparison.differences == ()
    assert comparison.headline.startswith(f"no difference beyond rounding in {name}")
    assert comparison.outputs and all(
        0 < each.median < 0.05 for each in comparison.outputs.values()
    )
    assert f"in {name} in B" in (comparison.note or "")
