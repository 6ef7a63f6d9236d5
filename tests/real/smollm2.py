"""A safetensors copy of the SmolLM2 that ships as GGUF."""

from __future__ import annotations

from pathlib import Path

from tests.real.gguf_copy import copy_gguf
from tests.real.packages import SMOLLM2, cache_directory, weights


def safetensors_copy() -> Path:
    """The directory of the copy (float32, with its tokenizer); made once and kept in the cache."""
    copy = cache_directory() / f"smollm2-safetensors-{SMOLLM2.version}"
    if not copy.exists():
        copy_gguf(weights(SMOLLM2), copy)
    return copy
