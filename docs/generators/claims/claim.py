"""A statement about norms or the residual stream, how it is tried, and when it held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import normdiag
from normdiag.evidence.measurements import Measurements

HELD, FAILED = "held", "did not hold"

Rows = Sequence[Sequence[Any]]
"""Words, which are the same in all trials, and numbers."""


@dataclass(frozen=True)
class Case:
    """One trial: the tokens of a sequence, and the seed of weights and inputs."""

    tokens: int
    seed: int

    def build(
        self, make: Callable[[], nn.Module], width: int = 64, sequences: int = 2
    ) -> tuple[nn.Module, Tensor]:
        """The model with this seed, in eval mode, and normal inputs."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return make().eval(), torch.randn(sequences, self.tokens, width)

    def draw_normal(self, *shape: int) -> Tensor:
        """Normal numbers with this seed."""
        return torch.randn(*shape, generator=torch.Generator().manual_seed(self.seed))


@dataclass(frozen=True)
class Trial:
    """The settings in which a statement is tried: every length with every seed."""

    lengths: Sequence[int] = (8, 32, 128)
    """Numbers of tokens of a sequence."""
    seeds: Sequence[int] = range(5)

    @property
    def cases(self) -> list[Case]:
        """Length by length."""
        return [Case(tokens, seed) for tokens in self.lengths for seed in self.seeds]


@dataclass(frozen=True)
class Criterion:
    """When a statement counts as true of the rows of one trial."""

    words: str
    holds: Callable[[Rows], bool]
    condition: str | None = None
    """Under which it is true, where it was tried with the condition and without it."""
    holds_without: Callable[[Rows], bool] | None = None

    def judge(self, rows: Rows) -> str:
        """The verdict on one trial."""
        is_so = bool(self.holds(rows))
        if self.holds_without is None:
            return HELD if is_so else FAILED
        if is_so and not self.holds_without(rows):
            return f"holds only if {self.condition}"
        return HELD if is_so else FAILED


@dataclass(frozen=True)
class Claim:
    """One statement, the trials of it, and the criterion for its verdict."""

    statement: str
    source: str
    how: str
    """Model, sizes, and which numbers are read."""
    conclusion: str
    head: Sequence[str]
    criterion: Criterion
    trial: Trial
    measure: Callable[[Case], Rows]

    @property
    def name(self) -> str:
        return self.measure.__name__


def claim(
    statement: str,
    *,
    source: str,
    how: str,
    conclusion: str,
    head: Sequence[str],
    criterion: Criterion,
    trial: Trial | None = None,
) -> Callable[[Callable[[Case], Rows]], Claim]:
    """Make the measurement of one case the claim that it tries."""
    how, conclusion = " ".join(how.split()), " ".join(conclusion.split())
    return lambda measure: Claim(
        statement, source, how, conclusion, head, criterion, trial or Trial(), measure
    )


def join_verdicts(verdicts: Mapping[Case, str]) -> str:
    """One verdict of all trials: that of each if they agree, else by length and number of seeds."""
    counts: dict[str, Counter[int]] = {}
    for case, verdict in verdicts.items():
        counts.setdefault(verdict, Counter())[case.tokens] += 1
    if len(counts) == 1:
        return next(iter(counts))
    seeds = Counter(case.tokens for case in verdicts)
    held = counts.get(HELD, Counter())
    if len(held) == 1 and all(held[length] == seeds[length] for length in held):
        return f"{HELD} at {next(iter(held))} tokens only"
    return "; ".join(
        f"{verdict} at {join_words(_format_count(n, seeds[n], many) for n, many in each.items())}"
        for verdict, each in sorted(counts.items(), key=lambda item: item[0] != HELD)
    )


def join_words(words: Iterable[str]) -> str:
    """a, b and c."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _format_count(length: int, seeds: int, many: int) -> str:
    return f"{length} tokens" + (f" ({many} of {seeds} seeds)" if many < seeds else "")


def measure_model(built: tuple[Any, Any], *what: str) -> Measurements:
    """What normdiag measures of (model, inputs)."""
    model, inputs = built
    return normdiag.inspect(model, inputs=inputs, measure=what).measurements
