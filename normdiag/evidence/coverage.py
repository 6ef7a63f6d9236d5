"""What was not recognised, not run or not measured."""

from __future__ import annotations

import re

from normdiag.evidence.record import record

_NUMBER = re.compile(r"(^|\.)\d+(?=\.|$)")


@record
class UnexplainedAdd:
    """An addition of stream width that is neither a residual add nor anything known."""

    module: str
    line: str | None
    shape: tuple[int, ...]
    why: str


@record
class SkippedMeasurement:
    """A requested measurement that was not made, and why."""

    what: str
    why: str


def mask_numbers(path: str) -> str:
    """Return the path with `*` for numbers, the same for a part of every layer: "blocks.*.n2"."""
    return _NUMBER.sub(r"\1*", path)


@record
class UnusedModule:
    """A module that did not run, within one that did, and of which no parameter was used."""

    module: str
    parameters: int
    """Number of its parameters, without those that are tied to one that was used."""
    stack: str | None
    """The stack in whose layer it lies, or whose layers are in the same list."""
    layer: int | None
    is_choice: bool
    """Whether other items of its list ran: the input chooses among them (experts)."""
    is_norm: bool
    """Whether it is of the kind of a module that ran and was found to be a norm."""
    runs_elsewhere: bool
    """Whether the same module of another layer ran, with parameters of the same names and shapes:
    a layer of another kind (cross-attention without an image) is not the same."""


@record
class Coverage:
    """What the report does not cover."""

    unexplained_adds: tuple[UnexplainedAdd, ...] = ()
    unexplained_norms: tuple[str, ...] = ()
    """Ids of norms that belong to no stack."""
    modules_not_called: tuple[str, ...] = ()
    unused_modules: tuple[UnusedModule, ...] = ()
    """The outermost of them, with where they lie."""
    skipped: tuple[SkippedMeasurement, ...] = ()
    measures: tuple[str, ...] = ()
    """The measures that were taken, those that others require included."""
    operations: int = 0
    """Number of operations in the forward."""
