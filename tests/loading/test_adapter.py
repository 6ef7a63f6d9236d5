"""A LoRA on its base: the weights are W + scaling * B A, everything else is the base's."""

from __future__ import annotations

import importlib.util
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import normdiag
from normdiag.errors import LoadError, UsageError
from normdiag.loading.interface import LoadedModel
from normdiag.loading.load_target import load_target
from normdiag.options import LoadingOptions

Load = Callable[..., LoadedModel]
PREFIX = "base_model.model."
RANK, ALPHA = 2, 6


def save_adapter(base: torch.nn.Module, config: peft.PeftConfig, folder: Path) -> None:
    """As it is after training: nothing in it is zero any more."""
    torch.manual_seed(5)
    adapted = peft.get_peft_model(base, config)
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.normal_()
    adapted.save_pretrained(folder)


@pytest.fixture(scope="module")
def lora_dir(llama_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lora")
    base = transformers.LlamaForCausalLM.from_pretrained(llama_dir)
    config = peft.LoraConfig(
        r=RANK,
        lora_alpha=ALPHA,
        lora_dropout=0.3,
        target_modules=["q_proj", "down_proj"],
        task_type="CAUSAL_LM",
    )
    save_adapter(base, config, folder)
    return folder


@pytest.fixture
def copy_of_lora(lora_dir: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(lora_dir, tmp_path / "adapter"))


def expected(llama_dir: Path, lora_dir: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights by the definition of LoRA (Hu et al., 2021), in float64."""
    adapter = load_file(lora_dir / "adapter_model.safetensors")
    for name, weight in load_file(llama_dir / "model.safetensors").items():
        stem = PREFIX + name.removesuffix("weight")
        update = torch.zeros_like(weight, dtype=torch.float64)
        if stem + "lora_A.weight" in adapter:
            a, b = adapter[stem + "lora_A.weight"], adapter[stem + "lora_B.weight"]
            update = ALPHA / RANK * b.double() @ a.double()
        yield name, weight.double() + update


def test_the_adapter_is_in_the_weights_and_nowhere_else(
    llama_dir: Path, lora_dir: Path, run: Load
) -> None:
    base, adapted = run(llama_dir), run(llama_dir, adapter=lora_dir)
    state, changed = adapted.model.state_dict(), 0
    for name, weight in expected(llama_dir, lora_dir):
        torch.testing.assert_close(state[name].double(), weight, rtol=1e-5, atol=1e-6)
        changed += not torch.equal(state[name], base.model.state_dict()[name])
    assert changed == 2 * 2
    assert [n for n, _ in adapted.model.named_modules()] == [
        n for n, _ in base.model.named_modules()
    ]
    assert not any(module.training for module in adapted.model.modules())
    assert all(parameter.requires_grad for parameter in adapted.model.parameters())
    assert (adapted.class_name, adapted.loading) == (base.class_name, base.loading)


def test_stored_tensors_are_those_of_base_and_adapter(
    llama_dir: Path, lora_dir: Path, run: Load
) -> None:
    adapted = run(llama_dir, adapter=lora_dir)
    stored = dict(adapted.tensors(adapted.model.state_dict()))
    files = load_file(llama_dir / "model.safetensors") | load_file(
        lora_dir / "adapter_model.safetensors"
    )
    assert stored.keys() == files.keys()
    assert all(torch.equal(stored[name], files[name]) for name in files)


def test_the_note_describes_the_merge(llama_dir: Path, lora_dir: Path, run: Load) -> None:
    (note,) = run(llama_dir, adapter=lora_dir).notes
    assert str(lora_dir) in note
    assert "LORA, 8 tensors" in note
    assert repr(str(llama_dir)) in note


def test_the_architecture_is_the_bases(llama_dir: Path, lora_dir: Path) -> None:
    base = normdiag.inspect(str(llama_dir), measure=("stream",))
    adapted = normdiag.inspect(str(llama_dir), measure=("stream",), adapter=str(lora_dir))
    gains = {norm.id: norm.gain for norm in adapted.architecture.norms}
    assert gains == {norm.id: norm.gain for norm in base.architecture.norms}
    assert adapted.architecture == base.architecture
    assert adapted.subject.parameters == base.subject.parameters
    assert adapted.subject.weights_digest != base.subject.weights_digest
    assert str(lora_dir) in (adapted.subject.probe.note or "")
    closure = adapted.measurements.closure["model.layers"]
    assert 0 <= closure.max_rel_error < 1e-5
    first = next(iter(base.measurements.stream))
    assert adapted.measurements.stream[first] != base.measurements.stream[first]


def test_a_pickled_adapter(llama_dir: Path, lora_dir: Path, copy_of_lora: Path, run: Load) -> None:
    path = copy_of_lora / "adapter_model.safetensors"
    torch.save(load_file(path), copy_of_lora / "adapter_model.bin")
    path.unlink()
    state = run(llama_dir, adapter=copy_of_lora).model.state_dict()
    same = run(llama_dir, adapter=lora_dir).model.state_dict()
    assert all(torch.equal(state[name], same[name]) for name in same)


def test_a_module_that_was_trained_whole_replaces_the_bases(
    llama_dir: Path, tmp_path: Path, run: Load
) -> None:
    base = transformers.LlamaForCausalLM.from_pretrained(llama_dir)
    config = peft.LoraConfig(r=1, target_modules=["q_proj"], modules_to_save=["norm"])
    save_adapter(base, config, tmp_path)
    stored = load_file(tmp_path / "adapter_model.safetensors")
    adapted = run(llama_dir, adapter=tmp_path).model
    assert torch.equal(adapted.model.norm.weight, stored[PREFIX + "model.norm.weight"])
    assert type(adapted.model.norm) is type(adapted.model.layers[0].input_layernorm)


def test_a_factory_can_be_a_base(tmp_path: Path, run: Load) -> None:
    code = tmp_path / "plain.py"
    code.write_text(
        "from torch import nn\n"
        "class Plain(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(4, 4)\n"
        "    def forward(self, x):\n"
        "        return x + self.fc(x)\n"
        "def build():\n"
        "    return Plain()\n"
    )
    base = run(f"{code}:build").model
    before = base.fc.weight.detach().clone()
    save_adapter(base, peft.LoraConfig(r=1, target_modules=["fc"]), tmp_path / "adapter")
    adapted = run(f"{code}:build", adapter=tmp_path / "adapter").model
    assert type(adapted.fc) is torch.nn.Linear
    assert not torch.equal(adapted.fc.weight, before)


class TestErrors:
    def read_error(self, target: Path, adapter: Path, **options: object) -> str:
        with pytest.raises(LoadError) as caught:
            load_target(str(target), LoadingOptions(adapter=adapter, **options))
        return str(caught.value)

    def test_peft_is_missing(
        self, llama_dir: Path, lora_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        find_spec = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name == "peft" else find_spec(name)
        )
        assert 'pip install "normdiag[adapters]"' in self.read_error(llama_dir, lora_dir)

    def test_the_base_is_missing(self, lora_dir: Path, tmp_path: Path) -> None:
        assert "does not exist" in self.read_error(tmp_path / "none.safetensors", lora_dir)

    def test_the_base_has_other_widths(
        self, copy_of_llama: Path, llama_dir: Path, lora_dir: Path
    ) -> None:
        config = json.loads((copy_of_llama / "config.json").read_text()) | {"hidden_size": 16}
        (copy_of_llama / "config.json").write_text(json.dumps(config))
        message = self.read_error(copy_of_llama, lora_dir, random_init=True)
        assert "does not fit LlamaForCausalLM" in message
        assert "size mismatch" in message
        assert repr(str(llama_dir)) in message

    def test_the_base_has_fewer_layers(self, copy_of_llama: Path, lora_dir: Path) -> None:
        config = json.loads((copy_of_llama / "config.json").read_text()) | {"num_hidden_layers": 1}
        (copy_of_llama / "config.json").write_text(json.dumps(config))
        message = self.read_error(copy_of_llama, lora_dir)
        assert "4 of its 8 tensors have no counterpart" in message
        assert "layers.1." in message

    def test_the_base_is_of_another_class(self, copy_of_llama: Path, lora_dir: Path) -> None:
        config = json.loads((copy_of_llama / "config.json").read_text()) | {"architectures": None}
        (copy_of_llama / "config.json").write_text(json.dumps(config))
        assert "does not fit LlamaModel" in self.read_error(copy_of_llama, lora_dir)

    def test_the_base_has_no_such_modules(self, tmp_path: Path, lora_dir: Path) -> None:
        sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 40, "n_positions": 16}
        transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(tmp_path)
        message = self.read_error(tmp_path, lora_dir)
        assert "does not fit GPT2LMHeadModel" in message
        assert "q_proj" in message

    def test_tensors_are_missing(self, llama_dir: Path, copy_of_lora: Path) -> None:
        path = copy_of_lora / "adapter_model.safetensors"
        tensors = load_file(path)
        save_file({n: t for n, t in tensors.items() if "layers.1" not in n}, path)
        assert "4 tensors that the model needs" in self.read_error(llama_dir, copy_of_lora)

    def test_an_adapter_type_without_merge(self, llama_dir: Path, tmp_path: Path) -> None:
        base = transformers.LlamaForCausalLM.from_pretrained(llama_dir)
        config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
        save_adapter(base, config, tmp_path)
        assert "PROMPT_TUNING, which changes no weights" in self.read_error(llama_dir, tmp_path)

    def test_no_weights(self, llama_dir: Path, copy_of_lora: Path) -> None:
        (copy_of_lora / "adapter_model.safetensors").unlink()
        assert "no weights (adapter_model.safetensors" in self.read_error(llama_dir, copy_of_lora)

    def test_truncated_weights(self, llama_dir: Path, copy_of_lora: Path) -> None:
        path = copy_of_lora / "adapter_model.safetensors"
        path.write_bytes(path.read_bytes()[:-7])
        assert "truncated" in self.read_error(llama_dir, copy_of_lora)

    def test_code_in_the_weights(self, llama_dir: Path, copy_of_lora: Path) -> None:
        (copy_of_lora / "adapter_model.safetensors").unlink()
        path = copy_of_lora / "adapter_model.bin"
        with path.open("wb") as file:
            pickle.dump({"weight": print}, file)
        message = self.read_error(llama_dir, copy_of_lora)
        assert str(path) in message
        assert "not unpickled" in message

    def test_a_configuration_that_asks_for_an_import(
        self, llama_dir: Path, copy_of_lora: Path
    ) -> None:
        path = copy_of_lora / "adapter_config.json"
        odd = {"megatron_config": {"a": 1}, "megatron_core": "antigravity"}
        path.write_text(json.dumps(json.loads(path.read_text()) | odd))
        assert "import of 'antigravity'" in self.read_error(llama_dir, copy_of_lora)

    @pytest.mark.parametrize(
        ("content", "message"), [("[1]", "adapter_config.json"), ('{"peft_type": "X"}', "KeyError")]
    )
    def test_a_configuration_of_nothing(
        self, llama_dir: Path, copy_of_lora: Path, content: str, message: str
    ) -> None:
        (copy_of_lora / "adapter_config.json").write_text(content)
        assert message in self.read_error(llama_dir, copy_of_lora)

    def test_a_model_is_no_adapter(self, llama_dir: Path) -> None:
        assert "is no adapter" in self.read_error(llama_dir, llama_dir)

    def test_a_missing_directory(self, llama_dir: Path, tmp_path: Path) -> None:
        assert "is no directory" in self.read_error(llama_dir, tmp_path / "none")

    def test_as_a_target_it_names_the_option(self, llama_dir: Path, lora_dir: Path) -> None:
        with pytest.raises(LoadError) as caught:
            load_target(str(lora_dir))
        assert repr(str(llama_dir)) in caught.value.what
        assert f"--adapter {lora_dir}" in (caught.value.hint or "")

    @pytest.mark.parametrize(
        ("way", "message"),
        [("weights_only", "weights_only exclude"), ("structure_only", "structure_only exclude")],
    )
    def test_modes_without_a_model_exclude_an_adapter(
        self, llama_dir: Path, lora_dir: Path, way: str, message: str
    ) -> None:
        with pytest.raises(UsageError, match=message):
            load_target(str(llama_dir), LoadingOptions(adapter=lora_dir, **{way: True}))

    def test_a_module_in_memory_is_left_alone(self, lora_dir: Path) -> None:
        with pytest.raises(UsageError, match="exists already"):
            normdiag.inspect(torch.nn.Linear(2, 2), adapter=lora_dir)
