"""What is given to transformers to build a model of, and what it made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normdiag.loading.config_file import ConfigFile

if TYPE_CHECKING:
    import torch

    from normdiag.loading.interface import TensorReader


@dataclass(frozen=True, kw_only=True)
class PretrainedFiles:
    """What `from_pretrained` reads: a folder, a GGUF in it, or a state dict and a configuration."""

    folder: Path
    settings: ConfigFile | None
    tensors: TensorReader
    shapes: Callable[[], Mapping[str, tuple[int, ...]]]
    """Reads the names and shapes of all tensors, and no values where the format allows it."""
    gguf_file: str | None = None
    is_language_model: bool = False
    """Whether a GGUF, which names no class, holds a language model with its head."""
    state_dict: Callable[[], dict[str, torch.Tensor]] | None = None


@dataclass(frozen=True)
class ModelChoice:
    """The class to build, its configuration, and the requested dtype, if any."""

    model_class: Any
    config: Any
    dtype: torch.dtype | None
    note: str


@dataclass(frozen=True)
class LoadedWeights:
    """A model with the weights of its files, and the loader's lists of mismatches."""

    model: Any
    info: dict[str, Any]
    files: PretrainedFiles
    choice: ModelChoice
    cut: tuple[str, ...] = ()
    """Parts of the stored names that were cut so that they fit."""
    renamed: int = 0
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> frozenset[str]:
        """What the model has and the files lack."""
        return frozenset(self.info["missing_keys"])

    @property
    def is_complete(self) -> bool:
        """Whether every parameter of the model was loaded."""
        return not self.missing and not self.info["mismatched_keys"]
