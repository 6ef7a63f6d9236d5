"""A tensor in two shards: its copies are compared bit by bit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from normdiag.evidence.subject import StoredTwice
from normdiag.loading.interface import CheckpointTensors, LoadedModel
from normdiag.loading.stored_twice import find_stored_twice
from normdiag.loading.torch_pickle import read_torch_pickle
from normdiag.loading.weight_files import WeightFiles

FILES = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
NORM = "model.norm.weight"


def split(folder: Path, copy: torch.Tensor | None) -> None:
    """Two shards; the second one has `copy` as the final norm's gain as well."""
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    second = {name: state.pop(name) for name in list(state) if ".layers.1." in name}
    places = dict.fromkeys(state, FILES[0]) | dict.fromkeys(second, FILES[1])
    if copy is not None:
        second[NORM] = copy
    for name, part in zip(FILES, (state, second), strict=True):
        save_file(part, folder / name, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_a_pickle_is_opened_twice_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To list its tensors, and to read those that lie in another file as well."""
    paths = tuple(tmp_path / f"{number}.bin" for number in range(3))
    shared = {f"layers.{layer}.norm": torch.ones(4) for layer in range(5)}
    torch.save(shared | {"a": torch.zeros(2)}, paths[0])
    torch.save({name: value + 1 for name, value in shared.items()}, paths[1])
    torch.save({"b": torch.zeros(2)}, paths[2])
    opened: Counter[Path] = Counter()

    def count_read(path: Path) -> dict[str, torch.Tensor]:
        opened[path] += 1
        return read_torch_pickle(path)

    monkeypatch.setattr("normdiag.loading.stored_tensors.read_torch_pickle", count_read)
    found = find_stored_twice(WeightFiles("pickle", paths))
    assert [each.tensor for each in found] == list(shared)
    assert {each.files for each in found} == {("0.bin", "1.bin")}
    assert opened == dict(zip(paths, (2, 2, 1), strict=True))


@pytest.mark.parametrize("kind", ["none", "equal", "other values", "other shape", "nan"])
def test_only_copies_that_differ_are_told(
    copy_of_llama: Path,
    run: Callable[..., LoadedModel],
    tensors_alone: Callable[..., CheckpointTensors],
    kind: str,
) -> None:
    gain = load_file(copy_of_llama / "model.safetensors")[NORM]
    copies = {
        "none": None,
        "equal": gain.clone(),
        "other values": gain + 1,
        "other shape": gain.new_ones(2),
        "nan": gain * float("nan"),
    }
    split(copy_of_llama, copies[kind])
    expected = (StoredTwice(tensor=NORM, files=FILES),) if kind not in ("none", "equal") else ()
    assert tensors_alone(copy_of_llama).loading.stored_twice == expected
    if kind != "other shape":
        assert run(copy_of_llama).loading.stored_twice == expected
