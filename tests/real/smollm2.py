"""A safetensors copy of the SmolLM2 that ships as GGUF: loading the GGUF takes half a minute."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from tests.real.packages import SMOLLM2, cache_directory, settle, weights


def safetensors_copy() -> Path:
    """The directory of the copy (float32, with its tokenizer); made once and kept in the cache."""
    copy = cache_directory() / f"smollm2-safetensors-{SMOLLM2.version}"
    if not copy.exists():
        gguf = weights(SMOLLM2)
        with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
            _convert(gguf, Path(scratch) / "copy")
            settle(Path(scratch) / "copy", copy)
    return copy


def _convert(gguf: Path, to: Path) -> None:
    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    dequantised = AutoModelForCausalLM.from_pretrained(**source).state_dict()
    # transformers does not save a model that came from a GGUF, so its tensors move to a plain one.
    with torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(**source))
    plain.load_state_dict(dequantised, assign=True)
    plain.tie_weights()
    plain.save_pretrained(to)
    AutoTokenizer.from_pretrained(**source).save_pretrained(to)
