"""What every kind of source takes and gives.

A source is opened (everything cheap is checked, without torch) and then loaded. A new kind is one
file with such a class and one line in `load.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from normdiag.evidence.subject import Loading

if TYPE_CHECKING:
    import torch
    from torch import nn

    TensorIterator = Callable[[Mapping[str, torch.Tensor]], Iterator[tuple[str, torch.Tensor]]]
    """Given what is in memory already, by name: what was taken over as it is, is not read again."""
    """A way to go over tensors by name, one at a time, as often as it is called."""

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is, and of how much where that is known."""


def silent(what: str, done: int, total: int | None) -> None:
    """The progress that nobody watches."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A target and how it is wanted."""

    target: str
    revision: str | None = None
    device: str = "cpu"
    dtype: str | None = None
    """None: as stored."""
    seed: int = 0
    trust_remote_code: bool = False
    random_init: bool = False
    structure_only: bool = False
    """No weights: the configuration alone, on the meta device."""
    weights_only: bool = False
    adapter: Path | None = None
    """The directory of a LoRA that is merged into the target."""


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model in eval mode that can be run."""

    model: nn.Module
    config: Any | None
    tokenizer: Any | None
    notes: tuple[str, ...]
    loading: Loading
    tensors: TensorIterator
    """Every tensor of the checkpoint as stored (of a factory: the state dict)."""
    model_type: str | None
    class_name: str
    mode: Literal["run", "random-init", "structure-only"] = "run"
    """ "structure-only": every parameter is on the meta device."""
    config_fields: Mapping[str, Any] | None = None
    """The configuration file as it was written, where there is one."""
    author_inputs: Any | None = None
    """What the model's own author says that it takes, where a factory gave it."""


@dataclass(frozen=True, kw_only=True)
class CheckpointTensors:
    """A checkpoint's tensors without a model, also where no model could be built of them."""

    tensors: TensorIterator
    model_type: str | None
    class_name: str | None
    loading: Loading
    notes: tuple[str, ...]
    mode: Literal["weights-only"] = "weights-only"


@dataclass(frozen=True, kw_only=True)
class TensorShapes:
    """The names and shapes of a checkpoint's tensors, where no configuration says more."""

    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, int]
    """Tensors per dtype as stored."""
    notes: tuple[str, ...]
    mode: Literal["structure-only"] = "structure-only"


LoadedTarget = LoadedModel | CheckpointTensors | TensorShapes


class Source(Protocol):
    """A target that was found and whose files are whole."""

    def load(self, progress: Progress) -> LoadedTarget:
        """Read it. Raises LoadError where no model comes out of it."""
        ...
