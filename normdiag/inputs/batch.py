"""What one forward is given, and how the probe was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The inputs of one forward, `model(*args, **inputs)`. Its sequences have one length."""

    inputs: dict[str, Any] = field(default_factory=dict)
    args: tuple[Any, ...] = ()
    """For a forward whose arguments were given by position."""
    rows: tuple[int, ...] = ()
    """Which sequence of the probe each row of the batch is, counted over all batches."""
    texts: tuple[str, ...] = ()
    ids: tuple[tuple[int, ...], ...] | None = None
    tokens: tuple[tuple[str, ...], ...] = ()
    """What each token reads as, or its position where nothing can tell."""
    special: tuple[tuple[bool, ...], ...] = ()

    @property
    def named_arguments(self) -> dict[str, Any]:
        """The arguments of forward by name; those given by position are "argument 0" and so on."""
        return {f"argument {i}": value for i, value in enumerate(self.args)} | self.inputs


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """What the model is to be given. Nothing stated: the built-in texts, or seeded inputs."""

    texts: tuple[str, ...] | None = None
    ids: tuple[tuple[int, ...], ...] | None = None
    chat: bool = False
    special_tokens: bool = True
    seed: int = 0
