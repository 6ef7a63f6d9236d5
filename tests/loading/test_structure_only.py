"""Without weights: the configuration alone, on the meta device, or names and shapes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import save_file

from normdiag.errors import LoadError, UsageError
from normdiag.inputs.model_inputs import build_inputs
from normdiag.loading.factory import wrap_module
from normdiag.loading.interface import LoadedModel, TensorShapes
from normdiag.loading.load_target import load_target
from normdiag.loading.tensor_names import guess_layers
from normdiag.options import InputOptions, LoadingOptions
from tests.loading.conftest import LLAMA

Load = Callable[..., LoadedModel]

FACTORY = """\
import torch
table = torch.arange(4)

def build():
    module = torch.nn.Linear(4, 4)
    module.table = torch.nn.Buffer(table)
    return module
"""


@pytest.fixture
def config_alone(tmp_path: Path) -> Path:
    LLAMA.save_pretrained(tmp_path)
    edit(tmp_path, architectures=["LlamaModel"])
    return tmp_path


def edit(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_the_configuration_is_enough(config_alone: Path, run: Load) -> None:
    loaded = run(config_alone, structure_only=True)
    assert loaded.mode == "structure-only"
    assert type(loaded.model) is transformers.LlamaModel
    assert not loaded.model.training
    assert all(t.is_meta for t in (*loaded.model.parameters(), *loaded.model.buffers()))


def test_the_weights_are_not_read(copy_of_llama: Path, run: Load) -> None:
    (copy_of_llama / "model.safetensors").write_bytes(b"cut")
    loaded = run(copy_of_llama, structure_only=True)
    assert loaded.class_name == "LlamaForCausalLM"
    assert loaded.tokenizer is None


def test_the_precision_is_as_stated_or_as_asked_for(config_alone: Path, run: Load) -> None:
    edit(config_alone, dtype="bfloat16")
    assert run(config_alone, structure_only=True).model.dtype is torch.bfloat16
    assert run(config_alone, structure_only=True, dtype="fp16").model.dtype is torch.float16


def test_quantised_weights_need_no_backend_and_are_noted(config_alone: Path, run: Load) -> None:
    edit(config_alone, quantization_config={"quant_method": "fp8"})
    notes = run(config_alone, structure_only=True).notes
    assert any("quantised (fp8)" in note for note in notes)


def test_modes_exclude_each_other(config_alone: Path) -> None:
    with pytest.raises(UsageError, match="random_init and structure_only exclude"):
        load_target(str(config_alone), LoadingOptions(structure_only=True, random_init=True))


class TestAFactory:
    def test_it_builds_without_values_and_its_module_keeps_its_own(
        self, tmp_path: Path, run: Load
    ) -> None:
        (tmp_path / "factory.py").write_text(FACTORY)
        target = f"{tmp_path}/factory.py:build"
        bare = run(target, structure_only=True)
        assert all(t.is_meta for t in (*bare.model.parameters(), *bare.model.buffers()))
        assert run(target).model.table.tolist() == [0, 1, 2, 3]

    def test_inputs_of_the_factory_have_no_values_either(self, tmp_path: Path, run: Load) -> None:
        (tmp_path / "factory.py").write_text(
            FACTORY + "def pair(): return build(), torch.ones(2, 3)"
        )
        bare = run(f"{tmp_path}/factory.py:pair", structure_only=True)
        (batch,), probe, _ = build_inputs(bare, InputOptions())
        assert batch.inputs["input"].is_meta
        assert probe.sequences == 2

    def test_a_module_with_values_is_left_where_it_is(self) -> None:
        with pytest.raises(UsageError, match="weight of Linear is on cpu"):
            wrap_module(torch.nn.Linear(2, 2), structure_only=True)

    def test_a_module_without_values_cannot_be_run(self) -> None:
        bare = torch.nn.Linear(2, 2, device="meta")
        assert wrap_module(bare, structure_only=True).model is bare
        with pytest.raises(LoadError, match="structure_only=True"):
            wrap_module(bare)


class TestNamesAndShapes:
    TENSORS = {  # noqa: RUF012
        "h.0.ln.weight": torch.ones(4),
        "h.0.ln.bias": torch.zeros(4),
        "h.0.fc.weight": torch.ones(4, 4),
        "h.1.ln.weight": torch.ones(4),
        "h.1.ln.bias": torch.zeros(4),
        "h.1.fc.weight": torch.ones(4, 4),
        "h.1.once.weight": torch.ones(4),
        "h.2.ln.weight": torch.ones(4),
        "ln_f.weight": torch.ones(4, dtype=torch.float16),
    }

    def test_they_are_read_where_there_is_no_configuration(self, tmp_path: Path) -> None:
        save_file(self.TENSORS, tmp_path / "model.safetensors")
        for target in (tmp_path, tmp_path / "model.safetensors"):
            loaded = load_target(str(target), LoadingOptions(structure_only=True))
            assert isinstance(loaded, TensorShapes)
            assert loaded.shapes == {name: tuple(t.shape) for name, t in self.TENSORS.items()}
            assert loaded.dtypes == {"float32": 8, "float16": 1}

    def test_a_pickle_is_not_unpacked_for_them(self, tmp_path: Path) -> None:
        torch.save(self.TENSORS, tmp_path / "pytorch_model.bin")
        for target in (tmp_path, tmp_path / "pytorch_model.bin"):
            with pytest.raises(LoadError, match=r"no config\.json"):
                load_target(str(target), LoadingOptions(structure_only=True))

    def test_repeated_names_are_layers_and_vectors_possible_gains(self) -> None:
        shapes = {name: tuple(t.shape) for name, t in self.TENSORS.items()}
        assert guess_layers(shapes) == {
            "h": "layers: 3; possible gains in each: 1 (ln.weight [4])",
            "outside of layers": "possible gains: 1 (ln_f.weight [4])",
        }

    def test_a_single_layer_is_none(self) -> None:
        assert guess_layers({"a.weight": (3, 3)}) == {"outside of layers": "possible gains: none"}


def test_inputs_have_values_until_they_are_run(config_alone: Path, run: Load) -> None:
    batches, probe, _ = build_inputs(run(config_alone, structure_only=True), InputOptions())
    assert probe.kind == "random-ids"
    assert probe.tokens == sum(map(len, batches[0].ids))
    assert not batches[0].inputs["input_ids"].is_meta


def test_texts_make_no_difference_without_values(config_alone: Path, run: Load) -> None:
    with pytest.raises(UsageError, match="with structure-only"):
        build_inputs(run(config_alone, structure_only=True), InputOptions(texts=("a text",)))
