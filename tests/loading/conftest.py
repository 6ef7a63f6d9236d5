"""Tiny checkpoints that transformers itself writes, once per session."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from normdiag.loading.interface import CheckpointTensors, LoadedModel
from normdiag.loading.load_target import load_target
from normdiag.options import LoadingOptions
from tests.tiny_checkpoint import LLAMA, byte_level_tokenizer, llama_dir, tokenizer

__all__ = ["LLAMA", "byte_level_tokenizer", "llama_dir", "tokenizer"]


@pytest.fixture
def copy_of_llama(llama_dir: Path, tmp_path: Path) -> Path:
    """A Llama of one's own to spoil."""
    return Path(shutil.copytree(llama_dir, tmp_path / "copy"))


@pytest.fixture
def run() -> Callable[..., LoadedModel]:
    """Load a target that must become a model."""

    def loaded(target: object, **options: object) -> LoadedModel:
        result = load_target(str(target), LoadingOptions(**options))
        assert isinstance(result, LoadedModel)
        return result

    return loaded


@pytest.fixture
def tensors_alone() -> Callable[..., CheckpointTensors]:
    """Load a target without building a model."""

    def loaded(target: object, **options: object) -> CheckpointTensors:
        result = load_target(str(target), LoadingOptions(weights_only=True, **options))
        assert isinstance(result, CheckpointTensors)
        return result

    return loaded
