"""The inputs of one forward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The inputs of one forward, `model(*args, **inputs)`. Its sequences have one length."""

    inputs: dict[str, Any] = field(default_factory=dict)
    args: tuple[Any, ...] = ()
    """Positional arguments."""
    rows: tuple[int, ...] = ()
    """The index of each row's sequence, counted over all batches."""
    texts: tuple[str, ...] = ()
    ids: tuple[tuple[int, ...], ...] | None = None
    tokens: tuple[tuple[str, ...], ...] = ()
    """The text of each token, or its position where there is no tokenizer."""
    special: tuple[tuple[bool, ...], ...] = ()
    """Whether each token is a special token of the tokenizer."""

    @property
    def named_arguments(self) -> dict[str, Any]:
        """The arguments of forward by name; positional ones are "argument 0" and so on."""
        return {f"argument {i}": value for i, value in enumerate(self.args)} | self.inputs
