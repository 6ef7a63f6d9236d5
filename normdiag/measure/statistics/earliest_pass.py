"""What one pass decides for all: the one whose sequence numbers are smallest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Facts = TypeVar("Facts")

SequenceNumbers = tuple[int, ...]
"""Which sequences of all inputs one pass ran, in the order of its batch."""


def pass_number(sequences: Sequence[int]) -> int:
    """The smallest of a pass's sequence numbers, which no other pass has."""
    return min(sequences, default=-1)


@dataclass(slots=True)
class EarliestPass(Generic[Facts]):
    """Accumulator that keeps the facts of one pass."""

    number: int | None = None
    facts: Facts | None = None

    def update(self, sequences: Sequence[int], facts: Facts) -> None:
        """Add the facts of one pass, kept if it is earlier than those before."""
        self._keep_earlier(pass_number(sequences), facts)

    def merge(self, other: EarliestPass[Facts]) -> None:
        """Keep the facts of `other` if its pass is earlier."""
        if other.number is not None and other.facts is not None:
            self._keep_earlier(other.number, other.facts)

    def compute(self) -> Facts | None:
        """The facts of the earliest pass; None before there was one."""
        return self.facts

    def _keep_earlier(self, number: int, facts: Facts) -> None:
        if self.number is None or number < self.number:
            self.number, self.facts = number, facts
