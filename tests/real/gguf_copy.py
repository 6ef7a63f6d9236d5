"""A safetensors copy of a GGUF file, in float32: loading a GGUF takes half a minute."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from tests.real.packages import settle


def copy_gguf(gguf: Path, copy: Path) -> None:
    """Make the directory `copy`, with the tokenizer."""
    with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
        _convert(gguf, Path(scratch) / "copy")
        settle(Path(scratch) / "copy", copy)


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
