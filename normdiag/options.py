"""How a target is loaded, what is run through it, what is measured and how it is judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normdiag.errors import UsageError

MEASURES = ("stream", "norms", "jacobians", "gradients")
"""What can be measured, all of it by default. "stream": adds, growth, closure, what relates layers,
precision. "norms": their inputs, what they are blind to. "jacobians": of norms and of blocks."""

FROM_ONE_PASS = ("stream", "norms")
"""What needs neither derivatives nor time: the default of `trace` and `compare`."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything that `inspect` and `trace` can be told. Nothing is needed."""

    revision: str | None = None
    device: str = "cpu"
    dtype: str | None = None
    """None: as stored."""
    seed: int = 0
    trust_remote_code: bool = False
    random_init: bool = False
    structure_only: bool = False
    """The architecture alone, from the configuration, on the meta device: no weights."""
    weights_only: bool = False
    adapter: str | Path | None = None
    """The directory of a LoRA that is merged into the target."""
    measure: tuple[str, ...] = MEASURES
    texts: tuple[str, ...] | None = None
    ids: tuple[tuple[int, ...], ...] | None = None
    inputs: Any | None = None
    """What forward takes, or the path of a file that holds it."""
    chat: bool = False
    special_tokens: bool = True
    clip: float = 1.0
    """The global gradient norm at which the training in mind clips."""
    all_tokens: bool = False
    """Jacobians, replay and closure on every token instead of a seeded sample of 16."""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    command: str | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.measure if name not in MEASURES]
        if unknown:
            raise UsageError(
                f"nothing called {', '.join(map(repr, unknown))} can be measured",
                f"there are {', '.join(MEASURES)}; an empty tuple measures none",
            )
        if not 0 < self.clip < math.inf:
            raise UsageError(
                f"gradients cannot be clipped at a global norm of {self.clip}",
                "clip is a finite number above 0, 1.0 in most trainings",
            )
