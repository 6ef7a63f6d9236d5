"""Tiny checkpoints that transformers itself writes, once per session."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from normdiag.loading.interface import Request, Runnable, WeightsOnly
from normdiag.loading.load_target import load
from tests.tiny_checkpoint import LLAMA, byte_level_tokenizer, llama_dir, tokenizer

__all__ = ["LLAMA", "byte_level_tokenizer", "llama_dir", "tokenizer"]


@pytest.fixture
def copy_of_llama(llama_dir: Path, tmp_path: Path) -> Path:
    """A Llama of one's own to spoil."""
    return Path(shutil.copytree(llama_dir, tmp_path / "copy"))


@pytest.fixture
def run() -> Callable[..., Runnable]:
    """Load a target that must become a model."""

    def loaded(target: object, **options: object) -> Runnable:
        result = load(Request(target=str(target), **options))
        assert isinstance(result, Runnable)
        return result

    return loaded


@pytest.fixture
def tensors_alone() -> Callable[..., WeightsOnly]:
    """Load a target without building a model."""

    def loaded(target: object, **options: object) -> WeightsOnly:
        result = load(Request(target=str(target), weights_only=True, **options))
        assert isinstance(result, WeightsOnly)
        return result

    return loaded
