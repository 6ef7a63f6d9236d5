"""The tiny checkpoint whose tokenizer makes token ids of texts."""

from __future__ import annotations

from tests.tiny_checkpoint import llama_dir, tokenizer

__all__ = ["llama_dir", "tokenizer"]
