"""Checkpoints that want code run: none of it is, and the reason is message."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from normdiag.errors import LoadError
from normdiag.loading.interface import LoadedModel
from normdiag.loading.load_target import load_target
from normdiag.options import LoadingOptions

Load = Callable[..., LoadedModel]


class Touch:
    """Unpickling it creates a file: what a real attack would do instead is worse."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def trace_of_code(tmp_path: Path) -> Path:
    """What exists once hostile code has run."""
    return tmp_path / "code-was-run"


def hostile_pickle(path: Path, marker: Path, *, archive: bool) -> None:
    content = {"a": torch.ones(2), "evil": Touch(marker)}
    if archive:
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content))


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_pickle_with_code_is_refused(
    copy_of_llama: Path, trace_of_code: Path, archive: bool, weights_only: bool
) -> None:
    (copy_of_llama / "model.safetensors").unlink()
    path = copy_of_llama / "pytorch_model.bin"
    hostile_pickle(path, trace_of_code, archive=archive)
    with pytest.raises(LoadError) as caught:
        result = load_target(str(copy_of_llama), LoadingOptions(weights_only=weights_only))
        list(result.tensors({}))
    assert not trace_of_code.exists()
    assert f"{path} is a pickle that holds more than tensors" in caught.value.what
    assert "not unpickled" in caught.value.what


def test_the_attack_itself_works(trace_of_code: Path) -> None:
    pickle.loads(pickle.dumps(Touch(trace_of_code)))
    assert trace_of_code.exists()


def test_a_hostile_file_on_its_own_is_refused(copy_of_llama: Path, trace_of_code: Path) -> None:
    path = copy_of_llama / "evil.pt"
    hostile_pickle(path, trace_of_code, archive=True)
    with pytest.raises(LoadError, match=r"it refers to (posix|nt|os)\.mkdir"):
        load_target(str(path))
    assert not trace_of_code.exists()


def bring_code(folder: Path, marker: Path, **auto_map: str) -> None:
    code = f"import os\nos.mkdir({str(marker)!r})\nclass Config: pass\nclass Model: pass\n"
    (folder / "modeling_evil.py").write_text(code)
    path = folder / "config.json"
    fields = json.loads(path.read_text()) | {
        "model_type": "evil",
        "architectures": ["Model"],
        "auto_map": auto_map,
    }
    path.write_text(json.dumps(fields))


def test_code_of_the_checkpoint_is_not_run_unasked(
    copy_of_llama: Path, trace_of_code: Path
) -> None:
    bring_code(
        copy_of_llama,
        trace_of_code,
        AutoConfig="modeling_evil.Config",
        AutoModelForCausalLM="modeling_evil.Model",
    )
    with pytest.raises(LoadError, match="asks to run code") as caught:
        load_target(str(copy_of_llama))
    assert "AutoModelForCausalLM -> modeling_evil.Model" in caught.value.what
    assert "--trust-remote-code" in str(caught.value.hint)
    assert not trace_of_code.exists()


def test_code_of_the_checkpoint_is_run_when_asked(
    copy_of_llama: Path, trace_of_code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    bring_code(copy_of_llama, trace_of_code, AutoConfig="modeling_evil.Config")
    with pytest.raises(LoadError):  # what it brings is no configuration
        load_target(str(copy_of_llama), LoadingOptions(trust_remote_code=True))
    assert trace_of_code.exists()


def test_a_known_model_that_also_brings_code_is_loaded_without_it(
    copy_of_llama: Path, trace_of_code: Path, run: Load
) -> None:
    bring_code(copy_of_llama, trace_of_code, AutoModelForCausalLM="modeling_evil.Model")
    path = copy_of_llama / "config.json"
    known = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    path.write_text(json.dumps(json.loads(path.read_text()) | known))
    assert run(copy_of_llama).class_name == "LlamaForCausalLM"
    assert not trace_of_code.exists()


def test_code_of_a_tokenizer_is_not_run_unasked(
    copy_of_llama: Path, trace_of_code: Path, run: Load
) -> None:
    (copy_of_llama / "tokenization_evil.py").write_text(
        f"import os\nos.mkdir({str(trace_of_code)!r})"
    )
    path = copy_of_llama / "tokenizer_config.json"
    fields = json.loads(path.read_text()) | {
        "tokenizer_class": "EvilTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_evil.EvilTokenizer", None]},
    }
    path.write_text(json.dumps(fields))
    run(copy_of_llama)
    assert not trace_of_code.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"attn_implementation": "evil/kernel"},
        {"_attn_implementation": {"": "evil/kernel"}},
        {"text_config": {"_attn_implementation_internal": "evil/kernel@main"}},
        {"experts_implementation": "evil/kernel:fn"},
    ],
)
def test_kernels_of_the_hub_are_not_fetched_unasked(
    copy_of_llama: Path, fields: dict[str, object]
) -> None:
    path = copy_of_llama / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(
        LoadError, match="asks for kernels from the hub, which are code: evil/kernel"
    ):
        load_target(str(copy_of_llama))


def test_names_with_escapes_and_markup_are_kept_as_they_are(
    copy_of_llama: Path, run: Load, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "evil.\x1b[31m[bold]red[/bold]\u202e\nline"
    stored = load_file(copy_of_llama / "model.safetensors")
    save_file(stored | {name: torch.ones(2)}, copy_of_llama / "model.safetensors")
    loaded = run(copy_of_llama)
    assert loaded.loading.unexpected == (name,)
    assert name in dict(loaded.tensors({}))
    assert "\x1b" not in "".join(capfd.readouterr())
