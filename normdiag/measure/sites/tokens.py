"""Numbers of every token at every site, for `trace`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from normdiag.evidence.tokens import TokenTrace
from normdiag.measure.passes.records import NormRecord
from normdiag.measure.sites.stream import TokenNumbers, global_sequences
from normdiag.measure.statistics.earliest_pass import SequenceNumbers
from normdiag.measure.statistics.summaries import Numbers
from normdiag.structure.build_architecture import SiteMap


@dataclass(frozen=True, slots=True)
class InputSequence:
    """One sequence of the inputs, as the tokenizer sees it."""

    text: str | None
    ids: tuple[int, ...] | None
    tokens: tuple[str, ...] | None
    special: tuple[bool, ...] | None


@dataclass(frozen=True, slots=True)
class TokenVariances:
    """m2 per token of one norm in one pass, and the sequence of each."""

    m2: Numbers
    sequence: Numbers


@dataclass(slots=True)
class TraceAccumulator:
    """Accumulator of the numbers of all tokens: its memory grows with the tokens."""

    adds: dict[str, list[TokenNumbers]] = field(default_factory=dict)
    """By the id of the add."""
    norms: dict[str, list[TokenVariances]] = field(default_factory=dict)
    """By the id of the norm."""

    def update(self, adds: Mapping[str, TokenNumbers], norms: Mapping[str, TokenVariances]) -> None:
        """Add one pass."""
        for id, numbers in adds.items():
            self.adds.setdefault(id, []).append(numbers)
        for id, variances in norms.items():
            self.norms.setdefault(id, []).append(variances)

    def merge(self, other: TraceAccumulator) -> None:
        """Add the passes of `other`."""
        for id, numbers in other.adds.items():
            self.adds.setdefault(id, []).extend(numbers)
        for id, variances in other.norms.items():
            self.norms.setdefault(id, []).extend(variances)

    def compute(self, sequences: Iterable[InputSequence], sites: SiteMap) -> tuple[TokenTrace, ...]:
        """One trace per sequence, with the numbers at `sites`."""
        adds = {id: self.adds[id] for id in sites.adds.values() if id in self.adds}
        norms = {id: self.norms[id] for id in sites.norms.values() if id in self.norms}
        return tuple(_trace_sequence(i, s, adds, norms) for i, s in enumerate(sequences))


def _trace_sequence(
    number: int,
    sequence: InputSequence,
    adds: Mapping[str, Sequence[TokenNumbers]],
    norms: Mapping[str, Sequence[TokenVariances]],
) -> TokenTrace:
    def select_column(column: Callable[[TokenNumbers], Numbers]) -> dict[str, tuple[float, ...]]:
        return {
            id: _join_floats([column(numbers)[numbers.sequence == number] for numbers in passes])
            for id, passes in adds.items()
        }

    out_norm = select_column(lambda numbers: numbers.out)
    length = max(map(len, out_norm.values()), default=0)
    tokens = sequence.tokens or tuple(str(i) for i in range(length))
    variances = {
        id: _join_floats([each.m2[each.sequence == number] for each in passes])
        for id, passes in norms.items()
    }
    channels = select_column(lambda numbers: numbers.max_channel)
    return TokenTrace(
        sequence=number,
        text=sequence.text,
        ids=sequence.ids,
        tokens=tokens,
        special=sequence.special or (False,) * len(tokens),
        out_norm=out_norm,
        update_ratio=select_column(lambda numbers: numbers.update_ratio),
        input_var={id: values for id, values in variances.items() if values},
        max_abs=select_column(lambda numbers: numbers.max_abs),
        max_channel={id: tuple(map(int, values)) for id, values in channels.items()},
    )


def token_variances(record: NormRecord, sequences: SequenceNumbers) -> TokenVariances:
    """m2 of the tokens of one pass; empty for norms with several rows per token."""
    if record.statistics is None or record.tokens.rows_per_token != 1:
        return TokenVariances(np.empty(0), np.empty(0))
    m2 = record.statistics.m2.cpu().numpy()
    valid = record.tokens.valid
    rows = np.arange(m2.size) if valid is None else valid.cpu().numpy()
    local, _ = record.tokens.token_places(rows)
    return TokenVariances(m2[rows].copy(), global_sequences(local.astype(float), sequences))


def _join_floats(parts: Sequence[Numbers]) -> tuple[float, ...]:
    return tuple(float(v) for part in parts for v in part)
