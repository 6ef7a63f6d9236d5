"""The graph of a forward: one node per tensor that an operation computed. No tensors, no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One call of one module, and the call that encloses it."""

    path: str
    """Dotted path in the model; "" for the model itself."""
    call: int
    """How many times this module had been called before."""
    label: str
    """The class name: a label, never used to decide."""
    parent: Frame | None

    def enclosing_frames(self) -> tuple[Frame, ...]:
        """The running modules, outermost first, this one last."""
        frames: list[Frame] = []
        frame: Frame | None = self
        while frame is not None:
            frames.append(frame)
            frame = frame.parent
        return tuple(reversed(frames))

    @property
    def id(self) -> str:
        """The path, with `@n` from the second call on."""
        return self.path if self.call == 0 else f"{self.path}@{self.call}"


@dataclass(slots=True, eq=False)
class Node:
    """One tensor value: the operation that computed it, its operands, its place in the code.

    `args` and `kwargs` are the operation's own, with nodes in place of tensors.
    """

    index: int
    op: str
    """The operation without overload and in-place mark ("add", "native_layer_norm"), or
    "input", "parameter", "constant"."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parents: tuple[Node, ...]
    shape: tuple[int, ...]
    dtype: str
    frame: Frame
    is_data: bool
    """Derived from a model input (parameters, and what derives from them alone, are not)."""
    origins: int
    """Bit i is set where model input i is an ancestor."""
    output: int = 0
    """Which of the operation's results it is."""
    is_floating: bool = True
    is_pointwise: bool = False
    """Whether torch marks the operation as one that works element by element."""
    line: str | None = None
    name: str | None = None
    """Parameter or input name."""
    form: Any = None
    """Its algebraic form, an object of `structure.algebraic_forms`."""

    def __repr__(self) -> str:
        return f"%{self.index}:{self.op}{list(self.shape)}"


@dataclass(slots=True)
class Graph:
    """All nodes in the order of the forward."""

    nodes: list[Node] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    """Module path -> how often it ran."""

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)
