"""Checkpoint directories: what comes out of a good one, and what is message of a bad one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from normdiag.errors import LoadError, UsageError
from normdiag.loading.interface import CheckpointTensors, LoadedModel
from normdiag.loading.load_target import load_target
from normdiag.options import LoadingOptions

Load = Callable[..., LoadedModel]
LoadTensors = Callable[..., CheckpointTensors]
NORM = "model.layers.1.post_attention_layernorm.weight"


def change(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def without(folder: Path, *names: str) -> None:
    """Take tensors out of the weights."""
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if n not in names}, folder / "model.safetensors")


def same(model: torch.nn.Module, stored: dict[str, torch.Tensor]) -> bool:
    state = model.state_dict()
    return state.keys() == stored.keys() and all(torch.equal(state[n], stored[n]) for n in stored)


def test_the_model_is_the_one_that_was_saved(llama_dir: Path, run: Load) -> None:
    loaded = run(llama_dir)
    stored = load_file(llama_dir / "model.safetensors")
    assert type(loaded.model) is transformers.LlamaForCausalLM
    assert same(loaded.model, stored)
    assert not loaded.model.training
    assert (loaded.class_name, loaded.model_type) == ("LlamaForCausalLM", "llama")
    assert (loaded.mode, loaded.notes, loaded.author_inputs) == ("run", (), None)
    assert loaded.loading.missing == loaded.loading.unexpected == loaded.loading.mismatched == ()
    assert {n: t.tolist() for n, t in loaded.tensors({})} == {
        n: t.tolist() for n, t in stored.items()
    }


def test_shards_make_one_model(llama_dir: Path, tmp_path: Path, run: Load) -> None:
    run(llama_dir).model.save_pretrained(tmp_path, max_shard_size="30KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    stored = load_file(llama_dir / "model.safetensors")
    sharded = run(tmp_path)
    assert same(sharded.model, stored)
    assert {name for name, _ in sharded.tensors({})} == set(stored)


def test_pickles_of_tensors_are_read(copy_of_llama: Path, run: Load) -> None:
    stored = load_file(copy_of_llama / "model.safetensors")
    torch.save(stored, copy_of_llama / "pytorch_model.bin")
    (copy_of_llama / "model.safetensors").unlink()
    loaded = run(copy_of_llama)
    assert same(loaded.model, stored)
    assert {name for name, _ in loaded.tensors({})} == set(stored)


def test_the_dtype_is_as_stored_or_as_asked(copy_of_llama: Path, run: Load) -> None:
    run(copy_of_llama, dtype="bf16").model.save_pretrained(copy_of_llama)
    assert run(copy_of_llama).model.dtype is torch.bfloat16
    assert run(copy_of_llama, dtype="float32").model.dtype is torch.float32
    assert {t.dtype for _, t in run(copy_of_llama, dtype="float32").tensors({})} == {torch.bfloat16}


def test_without_architectures_it_is_the_base_model(copy_of_llama: Path, run: Load) -> None:
    change(copy_of_llama, architectures=None)
    loaded = run(copy_of_llama)
    assert type(loaded.model) is transformers.LlamaModel
    assert loaded.loading.missing == ()
    assert loaded.loading.unexpected == ("lm_head.weight",)
    assert "AutoModel" in loaded.notes[0]


@pytest.mark.parametrize(
    "name", ["NoSuchForCausalLM", "pipeline", "AutoModelForCausalLM", "Trainer"]
)
def test_what_is_no_model_class_is_the_base_model(
    copy_of_llama: Path, run: Load, name: str
) -> None:
    change(copy_of_llama, architectures=[name])
    loaded = run(copy_of_llama)
    assert type(loaded.model) is transformers.LlamaModel
    assert f"transformers has no {name}" in loaded.notes[0]


def test_a_configuration_without_model_type_goes_by_its_class(
    copy_of_llama: Path, run: Load
) -> None:
    change(copy_of_llama, model_type=None)
    assert type(run(copy_of_llama).model) is transformers.LlamaForCausalLM


def test_tied_weights_are_not_missing(tmp_path: Path, run: Load) -> None:
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 40, "n_positions": 16}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    loaded = run(tmp_path)
    assert loaded.loading.missing == ()
    assert loaded.model.lm_head.weight is loaded.model.transformer.wte.weight


class TestUnmatchedParameters:
    def test_a_missing_norm(self, copy_of_llama: Path, run: Load) -> None:
        without(copy_of_llama, NORM, "model.layers.0.mlp.up_proj.weight")
        loading = run(copy_of_llama).loading
        assert loading.missing == ("model.layers.0.mlp.up_proj.weight", NORM)
        assert loading.norm_parameters == (NORM,)

    def test_an_unexpected_tensor(self, copy_of_llama: Path, run: Load) -> None:
        stored = load_file(copy_of_llama / "model.safetensors")
        save_file(stored | {"extra.weight": torch.ones(3)}, copy_of_llama / "model.safetensors")
        assert run(copy_of_llama).loading.unexpected == ("extra.weight",)

    def test_another_shape(self, copy_of_llama: Path, run: Load) -> None:
        stored = load_file(copy_of_llama / "model.safetensors")
        save_file(stored | {NORM: torch.ones(7)}, copy_of_llama / "model.safetensors")
        loaded = run(copy_of_llama)
        assert loaded.loading.mismatched == loaded.loading.norm_parameters == (NORM,)
        assert loaded.notes == (
            f"{NORM}: (7,) in the checkpoint, (32,) in the model; newly initialised",
        )

    def test_what_is_newly_initialised_is_seeded(self, copy_of_llama: Path, run: Load) -> None:
        name = "model.layers.0.mlp.up_proj.weight"
        without(copy_of_llama, name)
        one, again, other = (run(copy_of_llama, seed=s).model.state_dict()[name] for s in (1, 1, 2))
        assert torch.equal(one, again)
        assert not torch.equal(one, other)

    def test_no_matching_tensor_is_an_error(self, copy_of_llama: Path) -> None:
        change(copy_of_llama, hidden_size=64, head_dim=None, intermediate_size=96)
        with pytest.raises(LoadError, match="no tensor of the checkpoint fits LlamaForCausalLM"):
            load_target(str(copy_of_llama))

    def test_another_model_altogether_is_an_error(self, copy_of_llama: Path) -> None:
        save_file({"net.0.weight": torch.ones(3)}, copy_of_llama / "model.safetensors")
        with pytest.raises(LoadError, match=r"the checkpoint has net\.0\.weight"):
            load_target(str(copy_of_llama))


class TestRandomInit:
    def test_weights_are_seeded_and_no_file_of_them_is_needed(
        self, copy_of_llama: Path, run: Load
    ) -> None:
        (copy_of_llama / "model.safetensors").unlink()
        one, again, other = (
            run(copy_of_llama, random_init=True, seed=s).model.state_dict()["lm_head.weight"]
            for s in (1, 1, 2)
        )
        assert torch.equal(one, again)
        assert not torch.equal(one, other)

    def test_the_note_states_the_seed(self, llama_dir: Path, run: Load) -> None:
        loaded = run(llama_dir, random_init=True, dtype="bf16")
        assert loaded.mode == "random-init"
        assert loaded.notes == ("weights are random (seed 0), drawn by the configuration",)
        assert loaded.model.dtype is torch.bfloat16
        assert loaded.loading.missing == ()

    def test_the_global_generator_is_left_alone(self, llama_dir: Path, run: Load) -> None:
        before = torch.get_rng_state()
        run(llama_dir, random_init=True)
        assert torch.equal(torch.get_rng_state(), before)

    def test_random_weights_and_weights_only_exclude_each_other(self, llama_dir: Path) -> None:
        with pytest.raises(UsageError):
            load_target(str(llama_dir), LoadingOptions(random_init=True, weights_only=True))


class TestWeightsOnly:
    def test_tensors_come_without_a_model(
        self, llama_dir: Path, tensors_alone: LoadTensors
    ) -> None:
        alone = tensors_alone(llama_dir)
        stored = load_file(llama_dir / "model.safetensors")
        assert {n: t.tolist() for n, t in alone.tensors({})} == {
            n: t.tolist() for n, t in stored.items()
        }
        assert (alone.class_name, alone.model_type) == ("LlamaForCausalLM", "llama")
        assert alone.mode == "weights-only"

    def test_a_configuration_is_not_needed(
        self, copy_of_llama: Path, tensors_alone: LoadTensors
    ) -> None:
        (copy_of_llama / "config.json").unlink()
        alone = tensors_alone(copy_of_llama)
        assert (alone.class_name, alone.model_type) == (None, None)
        assert len(list(alone.tensors({}))) == len(load_file(copy_of_llama / "model.safetensors"))

    def test_a_quantisation_backend_is_not_needed(
        self, copy_of_llama: Path, tensors_alone: LoadTensors
    ) -> None:
        change(copy_of_llama, quantization_config={"quant_method": "gptq", "bits": 4})
        assert dict(tensors_alone(copy_of_llama).tensors({}))


class TestErrors:
    """One clear error each, with the cause and what to do."""

    def read_error(self, folder: Path) -> str:
        with pytest.raises(LoadError) as caught:
            load_target(str(folder))
        assert caught.value.exit_code == 3
        assert caught.value.hint
        return str(caught.value)

    def test_an_empty_directory(self, tmp_path: Path) -> None:
        assert "is empty" in self.read_error(tmp_path)

    def test_a_directory_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").touch()
        assert "is no checkpoint" in self.read_error(tmp_path)

    def test_checkpoints_one_level_down_are_offered(self, tmp_path: Path) -> None:
        (tmp_path / "unet").mkdir()
        (tmp_path / "unet" / "config.json").write_text("{}")
        assert f"it contains checkpoint directories: {tmp_path / 'unet'}" in self.read_error(
            tmp_path
        )

    def test_only_gguf_files(self, tmp_path: Path) -> None:
        (tmp_path / "m-q4.gguf").touch()
        message = self.read_error(tmp_path)
        assert "no transformers weights: m-q4.gguf" in message
        assert f"pass the file: {tmp_path / 'm-q4.gguf'}" in message

    def test_weights_of_another_name(self, copy_of_llama: Path) -> None:
        (copy_of_llama / "model.safetensors").rename(copy_of_llama / "model.fp16.safetensors")
        assert f"pass the file: {copy_of_llama / 'model.fp16.safetensors'}" in self.read_error(
            copy_of_llama
        )

    def test_a_configuration_without_weights(self, copy_of_llama: Path) -> None:
        (copy_of_llama / "model.safetensors").unlink()
        message = self.read_error(copy_of_llama)
        assert "a config.json and no weights" in message
        assert "--random-init" in message
        assert "--structure-only" in message

    def test_weights_without_a_configuration(self, copy_of_llama: Path) -> None:
        (copy_of_llama / "config.json").unlink()
        message = self.read_error(copy_of_llama)
        assert "has no config.json" in message
        assert "--weights-only" in message

    def test_a_truncated_file(self, copy_of_llama: Path) -> None:
        path = copy_of_llama / "model.safetensors"
        size = path.stat().st_size
        path.write_bytes(path.read_bytes()[:-1000])
        assert (
            f"{path} is truncated: {size} bytes expected, {size - 1000} present"
            in self.read_error(copy_of_llama)
        )

    def test_a_missing_shard(self, llama_dir: Path, tmp_path: Path, run: Load) -> None:
        run(llama_dir).model.save_pretrained(tmp_path, max_shard_size="30KB")
        gone = sorted(tmp_path.glob("*.safetensors"))[1]
        gone.unlink()
        assert gone.name in self.read_error(tmp_path)

    def test_an_adapter(self, tmp_path: Path) -> None:
        config = {"peft_type": "LORA", "base_model_name_or_path": "org/base"}
        (tmp_path / "adapter_config.json").write_text(json.dumps(config))
        (tmp_path / "adapter_model.safetensors").touch()
        message = self.read_error(tmp_path)
        assert "an adapter" in message
        assert "'org/base'" in message
        assert f"--adapter {tmp_path}" in message

    def test_an_adapter_that_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "adapter_config.json").write_text("[]")
        assert "an adapter" in self.read_error(tmp_path)

    def test_a_quantised_model_without_its_backend(self, copy_of_llama: Path) -> None:
        change(copy_of_llama, quantization_config={"quant_method": "aqlm"})
        message = self.read_error(copy_of_llama)
        assert "quantised (aqlm)" in message
        assert "--weights-only" in message

    def test_an_unknown_model_type(self, copy_of_llama: Path) -> None:
        change(copy_of_llama, model_type="lama", architectures=["LamaModel"])
        message = self.read_error(copy_of_llama)
        assert "does not know model_type 'lama' (similar: llama" in message

    def test_neither_model_type_nor_class(self, copy_of_llama: Path) -> None:
        change(copy_of_llama, model_type=None, architectures=None)
        assert "the model class is unknown" in self.read_error(copy_of_llama)

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"hidden_size": "abc"}, "hidden_size"),
            ({"hidden_size": -4}, "-4"),
            ({"num_attention_heads": 0}, "ZeroDivisionError"),
            ({"hidden_act": "nope"}, "nope"),
            ({"dtype": "evil"}, "evil"),
            ({"dtype": 7}, "dtype"),
            ({"rope_parameters": 3}, "rope_parameters"),
            ({"architectures": "LlamaForCausalLM"}, "architectures"),
            ({"architectures": [3]}, "architectures"),
            ({"model_type": ["llama"]}, "model_type"),
            ({"auto_map": "x"}, "auto_map"),
            ({"quantization_config": 4}, "quantization_config"),
        ],
    )
    def test_a_wrong_field(self, copy_of_llama: Path, fields: dict[str, Any], message: str) -> None:
        change(copy_of_llama, **fields)
        assert message in self.read_error(copy_of_llama)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"a": 1', "line 1, column 8"),
            ("[1]", "holds a JSON list"),
            ("", "is not JSON"),
            ("[" * 100_000, "is not JSON"),
        ],
    )
    def test_a_broken_configuration(self, copy_of_llama: Path, content: str, message: str) -> None:
        (copy_of_llama / "config.json").write_text(content)
        with pytest.raises(LoadError, match=message):
            load_target(str(copy_of_llama))

    def test_a_binary_configuration(self, copy_of_llama: Path) -> None:
        (copy_of_llama / "config.json").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(LoadError, match="is not JSON"):
            load_target(str(copy_of_llama))

    def test_a_wrong_dtype_names_the_right_ones(self, llama_dir: Path) -> None:
        with pytest.raises(UsageError, match="bfloat16"):
            load_target(str(llama_dir), LoadingOptions(dtype="float7"))

    def test_a_device_that_is_not_there(self, llama_dir: Path) -> None:
        with pytest.raises(UsageError, match="this machine has: cpu"):
            load_target(str(llama_dir), LoadingOptions(device="warp"))

    def test_a_revision_of_a_directory(self, llama_dir: Path) -> None:
        with pytest.raises(UsageError, match="no hub id"):
            load_target(str(llama_dir), LoadingOptions(revision="main"))


class TestTokenizer:
    def test_the_tokenizer_is_loaded(self, llama_dir: Path, run: Load) -> None:
        tokenizer = run(llama_dir).tokenizer
        assert tokenizer is not None
        assert tokenizer.decode(tokenizer("a b", add_special_tokens=False)["input_ids"]) == "a b"

    def test_a_missing_one_is_no_error(self, copy_of_llama: Path, run: Load) -> None:
        for path in copy_of_llama.glob("tokenizer*"):
            path.unlink()
        loaded = run(copy_of_llama)
        assert loaded.tokenizer is None
        assert loaded.notes == ()

    def test_a_broken_one_is_noted_and_no_error(self, copy_of_llama: Path, run: Load) -> None:
        (copy_of_llama / "tokenizer.json").write_text("{")
        loaded = run(copy_of_llama)
        assert loaded.tokenizer is None
        assert "the tokenizer cannot be loaded" in loaded.notes[0]

    def test_one_that_transformers_invents_is_ignored(self, tmp_path: Path, run: Load) -> None:
        sizes = {"embedding_size": 8, "hidden_size": 16, "num_attention_heads": 2, "vocab_size": 20}
        config = transformers.AlbertConfig(**sizes, intermediate_size=16, num_hidden_layers=1)
        transformers.AlbertModel(config).save_pretrained(tmp_path)
        (tmp_path / "tokenizer_config.json").write_text("{}")
        loaded = run(tmp_path)
        assert loaded.tokenizer is None
        assert "no vocabulary" in loaded.notes[-1]


def test_composite_configurations_give_a_text_model_its_part(tmp_path: Path, run: Load) -> None:
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8}
    config = transformers.Gemma3Config(
        text_config={**text, "num_key_value_heads": 1, "intermediate_size": 16, "vocab_size": 40},
        vision_config={**text, "intermediate_size": 16, "image_size": 16, "patch_size": 8},
    )
    config.architectures = ["Gemma3ForCausalLM"]
    config.save_pretrained(tmp_path)
    loaded = run(tmp_path, random_init=True)
    assert type(loaded.model) is transformers.Gemma3ForCausalLM
    assert loaded.config.hidden_size == 16


ENCODER = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]


def test_a_sentence_encoder_is_loaded_without_the_head_that_it_was_trained_from(
    llama_dir: Path, run: Load
) -> None:
    (llama_dir / "modules.json").write_text(json.dumps(ENCODER))
    loaded = run(llama_dir)
    assert type(loaded.model) is transformers.LlamaModel
    assert loaded.loading.missing == ()
    assert "modules.json" in loaded.notes[0]


@pytest.mark.parametrize(
    "text", ["{", "[]", "[1]", '{"a": 1}', '[{"path": "", "type": "Pooling"}]']
)
def test_another_modules_json_changes_nothing(llama_dir: Path, run: Load, text: str) -> None:
    (llama_dir / "modules.json").write_text(text)
    assert type(run(llama_dir).model) is transformers.LlamaForCausalLM
