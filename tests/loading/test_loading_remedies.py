"""Checkpoints whose names say how they are to be loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from normdiag.errors import LoadError
from normdiag.loading.interface import LoadedModel

Load = Callable[..., LoadedModel]
State = dict[str, torch.Tensor]
WRAPPED = ("_orig_mod.", "module.", "model.", "state_dict.model.")
SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def rewrite(folder: Path, change: Callable[[State], State]) -> State:
    """Store the tensors under other names; return them as they were."""
    path = folder / "model.safetensors"
    state = load_file(path)
    changed = {name: value.clone() for name, value in change(state).items()}
    save_file(changed, path, metadata={"format": "pt"})
    return state


def check_weights(loaded: LoadedModel, expected: State) -> None:
    actual = loaded.model.state_dict()
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name
    assert loaded.loading.missing == loaded.loading.mismatched == ()


@pytest.mark.parametrize("prefix", WRAPPED)
def test_a_wrappers_prefix_is_cut(copy_of_llama: Path, run: Load, prefix: str) -> None:
    state = rewrite(copy_of_llama, lambda s: {prefix + name: value for name, value in s.items()})
    loaded = run(copy_of_llama)
    check_weights(loaded, state)
    assert type(loaded.model) is transformers.LlamaForCausalLM
    if loaded.loading.cut:  # transformers itself cuts some
        assert (loaded.loading.cut, loaded.loading.renamed) == ((prefix,), len(state))
        assert dict(loaded.tensors({})).keys() == state.keys()
    assert bool(loaded.loading.cut) == (prefix != "model.")


def test_a_part_inside_some_names_is_cut(copy_of_llama: Path, run: Load) -> None:
    state = rewrite(
        copy_of_llama,
        lambda s: {n.replace("layers.1.", "layers.1._orig_mod."): v for n, v in s.items()},
    )
    loaded = run(copy_of_llama)
    check_weights(loaded, state)
    assert loaded.loading.cut == ("_orig_mod.",)
    assert loaded.loading.renamed == sum(".layers.1." in name for name in state)


@pytest.mark.parametrize("is_directory", [True, False])
def test_a_training_checkpoint_is_read(copy_of_llama: Path, run: Load, is_directory: bool) -> None:
    path = copy_of_llama / "model.safetensors"
    state = load_file(path)
    path.unlink()
    nested: dict[str, Any] = {f"net.{name}": value for name, value in state.items()}
    moments = {"state": {0: {"exp_avg": torch.zeros(3)}}}
    content = {"state_dict": nested, "optimizer": moments, "epoch": 3}
    torch.save(content, copy_of_llama / "pytorch_model.bin")
    loaded = run(copy_of_llama if is_directory else copy_of_llama / "pytorch_model.bin")
    check_weights(loaded, state)
    assert loaded.loading.cut == ("state_dict.net.",)


def test_names_are_kept_where_one_shape_differs(copy_of_llama: Path, run: Load) -> None:
    rewrite(copy_of_llama, lambda s: {f"module.{n}": v[:8] for n, v in s.items()})
    with pytest.raises(LoadError, match="no tensor of the checkpoint fits"):
        run(copy_of_llama)


def test_two_copies_are_not_chosen_between(copy_of_llama: Path, run: Load) -> None:
    rewrite(
        copy_of_llama,
        lambda s: {f"{p}.{n}": v for n, v in s.items() for p in ("raw", "ema")},
    )
    with pytest.raises(LoadError, match=r"2 times, under ema\., raw\."):
        run(copy_of_llama)


def save_body(model: transformers.PreTrainedModel, names: str, folder: Path) -> State:
    """As sentence-transformers saves it: the encoder, and the class it was trained from."""
    model.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": [names]}))
    return dict(model.state_dict())


@pytest.mark.parametrize("has_pooler", [True, False])
@pytest.mark.parametrize("family", ["MPNet", "Bert"])
def test_a_body_without_its_head_is_the_body(
    tmp_path: Path, run: Load, family: str, has_pooler: bool
) -> None:
    config = getattr(transformers, f"{family}Config")(**SIZES)
    body = getattr(transformers, f"{family}Model")(config, add_pooling_layer=has_pooler)
    state = save_body(body, f"{family}ForMaskedLM", tmp_path)
    loaded = run(tmp_path)
    assert type(loaded.model) is type(body)
    check_weights(loaded, state)
    assert loaded.loading.unexpected == ()
    assert any(f"without the head of {family}ForMaskedLM" in note for note in loaded.notes)


def test_a_part_of_the_head_is_no_body(tmp_path: Path, run: Load) -> None:
    """The bias of the head is stored under the head's own name: what else it needs is missing."""
    body = transformers.BertModel(transformers.BertConfig(**SIZES), add_pooling_layer=False)
    save_body(body, "BertForMaskedLM", tmp_path)
    rewrite(tmp_path, lambda s: s | {"cls.predictions.bias": torch.ones(SIZES["vocab_size"])})
    loaded = run(tmp_path)
    assert type(loaded.model) is transformers.BertForMaskedLM
    assert "cls.predictions.transform.dense.weight" in loaded.loading.missing
    assert not any("without the head" in note for note in loaded.notes)


def test_what_the_body_lacks_is_the_loaders_word(tmp_path: Path, run: Load) -> None:
    """It knows names of old releases, which the body's own names do not."""
    body = transformers.BertModel(transformers.BertConfig(**SIZES), add_pooling_layer=False)
    save_body(body, "BertForMaskedLM", tmp_path)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    rewrite(tmp_path, lambda s: {rename_end(n, old): v for n, v in s.items()} | {"new.w": EXTRA})
    loaded = run(tmp_path)
    assert type(loaded.model) is transformers.BertModel
    assert loaded.loading.missing == () and loaded.loading.unexpected == ("new.w",)


EXTRA = torch.ones(3)


def rename_end(name: str, ends: dict[str, str]) -> str:
    end = next((end for end in ends if name.endswith(end)), "")
    return name.removesuffix(end) + ends.get(end, "")


def test_no_value_is_read_to_know_the_shapes(
    copy_of_llama: Path, run: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(copy_of_llama, lambda s: {n: v for n, v in s.items() if n != "lm_head.weight"})
    monkeypatch.delattr("normdiag.loading.stored_tensors._iterate_safetensors")
    assert run(copy_of_llama).loading.missing == ("lm_head.weight",)


def test_a_language_models_lost_head_is_no_body(copy_of_llama: Path, run: Load) -> None:
    rewrite(copy_of_llama, lambda s: {n: v for n, v in s.items() if n != "lm_head.weight"})
    loaded = run(copy_of_llama)
    assert type(loaded.model) is transformers.LlamaForCausalLM
    assert loaded.loading.missing == ("lm_head.weight",)
