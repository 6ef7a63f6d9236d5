"""What loading a target returns, and the protocol of the kinds of target.

A source is opened, which checks everything that is cheap and needs no torch, and then loaded. A new
kind of target is one file with a `Source` and one case in `load_target.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from normdiag.evidence.subject import Loading
from normdiag.progress import Progress

if TYPE_CHECKING:
    import torch
    from torch import nn

    TensorReader = Callable[[Mapping[str, torch.Tensor]], Iterator[tuple[str, torch.Tensor]]]
    """Iterates over named tensors, one at a time. The argument holds tensors in memory by name:
    those equal to the stored ones in dtype and shape are not read again."""


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model in eval mode that can be run."""

    model: nn.Module
    config: Any | None
    tokenizer: Any | None
    notes: tuple[str, ...]
    loading: Loading
    tensors: TensorReader
    """Every tensor of the checkpoint as stored; of a factory, the state dict."""
    model_type: str | None
    class_name: str
    mode: Literal["run", "random-init", "structure-only"] = "run"
    """In "structure-only" mode every parameter is on the meta device."""
    config_fields: Mapping[str, Any] | None = None
    """The fields of config.json as stored, where there is one."""
    author_inputs: Any | None = None
    """Inputs of forward that a factory returned with the module."""
    restore: Callable[[], None] = lambda: None
    """Puts back what loading took off the caller's module, such as the wrappers of shards."""


@dataclass(frozen=True, kw_only=True)
class CheckpointTensors:
    """The tensors of a checkpoint, without a model. No model needs to be buildable from them."""

    tensors: TensorReader
    model_type: str | None
    class_name: str | None
    loading: Loading
    notes: tuple[str, ...]
    mode: Literal["weights-only"] = "weights-only"


@dataclass(frozen=True, kw_only=True)
class TensorShapes:
    """The names and shapes of a checkpoint's tensors, where there is no configuration."""

    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, int]
    """Number of tensors per stored dtype."""
    notes: tuple[str, ...]
    mode: Literal["structure-only"] = "structure-only"


LoadedTarget = LoadedModel | CheckpointTensors | TensorShapes


class Source(Protocol):
    """An opened target: its files exist and are complete."""

    def load_contents(self, progress: Progress) -> LoadedTarget:
        """Load the model or the tensors. Raises LoadError where that is impossible."""
        ...
