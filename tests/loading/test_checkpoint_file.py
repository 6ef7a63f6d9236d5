"""One file of weights, with and without a configuration beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from normdiag.errors import LoadError
from normdiag.loading.interface import CheckpointTensors, LoadedModel
from normdiag.loading.load_target import load_target

Load = Callable[..., LoadedModel]
LoadTensors = Callable[..., CheckpointTensors]


def same(model: torch.nn.Module, stored: dict[str, torch.Tensor]) -> bool:
    state = model.state_dict()
    return state.keys() == stored.keys() and all(torch.equal(state[n], stored[n]) for n in stored)


@pytest.mark.parametrize("name", ["other.safetensors", "weights.bin", "net.pth"])
def test_a_file_becomes_the_model_of_its_configuration(
    copy_of_llama: Path, run: Load, name: str
) -> None:
    stored = load_file(copy_of_llama / "model.safetensors")
    (copy_of_llama / "model.safetensors").unlink()
    path = copy_of_llama / name
    if name.endswith(".safetensors"):
        save_file(stored, path)
    else:
        torch.save(stored, path)
    loaded = run(path)
    assert same(loaded.model, stored)
    assert loaded.loading.missing == loaded.loading.unexpected == ()
    assert loaded.tokenizer is not None
    assert {n for n, _ in loaded.tensors({})} == set(stored)


def test_the_base_class_is_found_for_a_file_as_well(copy_of_llama: Path, run: Load) -> None:
    config = copy_of_llama / "config.json"
    config.write_text(config.read_text().replace("LlamaForCausalLM", "NoSuchClass"))
    assert run(copy_of_llama / "model.safetensors").class_name == "LlamaModel"


def test_parameters_missing_in_the_file_are_reported(copy_of_llama: Path, run: Load) -> None:
    stored = load_file(copy_of_llama / "model.safetensors")
    del stored["model.norm.weight"]
    save_file(stored, copy_of_llama / "odd.safetensors")
    loading = run(copy_of_llama / "odd.safetensors").loading
    assert loading.missing == loading.norm_parameters == ("model.norm.weight",)


def test_a_file_without_configuration(tmp_path: Path, tensors_alone: LoadTensors) -> None:
    path = tmp_path / "bare.safetensors"
    save_file({"norm.weight": torch.ones(4, dtype=torch.float16)}, path)
    with pytest.raises(LoadError, match=r"no config\.json beside it") as caught:
        load_target(str(path))
    assert "--weights-only" in str(caught.value.hint)
    alone = tensors_alone(path)
    assert [(n, t.dtype) for n, t in alone.tensors({})] == [("norm.weight", torch.float16)]
    assert alone.class_name is None


def test_nested_tensors_have_dotted_names(tmp_path: Path, tensors_alone: LoadTensors) -> None:
    path = tmp_path / "training.pt"
    weights = {"a.weight": torch.ones(2), "b": torch.zeros(3)}
    torch.save({"model": weights, "epoch": 3, "ema": {"a.weight": torch.ones(2)}}, path)
    names = [name for name, _ in tensors_alone(path).tensors({})]
    assert names == ["model.a.weight", "model.b", "ema.a.weight"]


def test_the_older_format_of_torch_is_read(tmp_path: Path, tensors_alone: LoadTensors) -> None:
    path = tmp_path / "old.bin"
    torch.save({"a": torch.arange(3.0)}, path, _use_new_zipfile_serialization=False)
    ((name, tensor),) = tensors_alone(path).tensors({})
    assert (name, tensor.tolist()) == ("a", [0.0, 1.0, 2.0])


def test_one_shard_says_to_pass_its_directory(llama_dir: Path, tmp_path: Path, run: Load) -> None:
    run(llama_dir).model.save_pretrained(tmp_path, max_shard_size="30KB")
    shard = sorted(tmp_path.glob("*.safetensors"))[0]
    with pytest.raises(LoadError, match="one of several shards") as caught:
        load_target(str(shard))
    assert caught.value.hint == f"pass {tmp_path}"


def test_a_file_without_tensors_is_an_error(tmp_path: Path, tensors_alone: LoadTensors) -> None:
    path = tmp_path / "list.pt"
    torch.save([1, 2], path)
    with pytest.raises(LoadError, match="holds a list and no tensors"):
        list(tensors_alone(path).tensors({}))


def test_a_file_that_torch_did_not_write_is_an_error(
    tmp_path: Path, tensors_alone: LoadTensors
) -> None:
    path = tmp_path / "noise.bin"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(LoadError, match=r"noise\.bin"):
        list(tensors_alone(path).tensors({}))
