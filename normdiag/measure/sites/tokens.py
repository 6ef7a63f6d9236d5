"""Token by site, for `trace`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from normdiag.evidence.tokens import TokenTrace
from normdiag.measure.passes.observer import NormRecord
from normdiag.measure.sites.stream import Rows, TokenNumbers, numbered
from normdiag.measure.statistics.summaries import Numbers


@dataclass(frozen=True, slots=True)
class ProbeSequence:
    """One sequence of the probe, as the tokenizer sees it."""

    text: str | None
    ids: tuple[int, ...] | None
    tokens: tuple[str, ...] | None
    special: tuple[bool, ...] | None


@dataclass(frozen=True, slots=True)
class Variances:
    """m2 per token of one norm in one pass, and the sequence of each."""

    m2: Numbers
    sequence: Numbers


def token_traces(
    sequences: Sequence[ProbeSequence],
    adds: Mapping[str, Sequence[TokenNumbers]],
    norms: Mapping[str, Sequence[Variances]],
) -> tuple[TokenTrace, ...]:
    """One trace per sequence, from what each pass saw of each site."""
    return tuple(_trace(number, s, adds, norms) for number, s in enumerate(sequences))


def _trace(
    number: int,
    sequence: ProbeSequence,
    adds: Mapping[str, Sequence[TokenNumbers]],
    norms: Mapping[str, Sequence[Variances]],
) -> TokenTrace:
    def of(values: Callable[[TokenNumbers], Numbers]) -> dict[str, tuple[float, ...]]:
        return {
            name: _floats([values(n)[n.sequence == number] for n in passes])
            for name, passes in adds.items()
        }

    out = of(lambda n: n.out)
    length = max(map(len, out.values()), default=0)
    tokens = sequence.tokens or tuple(str(i) for i in range(length))
    variance = {
        name: _floats([v.m2[v.sequence == number] for v in passes])
        for name, passes in norms.items()
    }
    channels = of(lambda n: n.max_channel)
    return TokenTrace(
        sequence=number,
        text=sequence.text,
        ids=sequence.ids,
        tokens=tokens,
        special=sequence.special or (False,) * len(tokens),
        out_norm=out,
        update_ratio=of(lambda n: n.update_ratio),
        input_var={name: values for name, values in variance.items() if values},
        max_abs=of(lambda n: n.max_abs),
        max_channel={name: tuple(int(c) for c in values) for name, values in channels.items()},
    )


def variances(record: NormRecord, rows: Rows) -> Variances:
    """Of one pass; empty for norms with several rows per token."""
    if record.statistics is None or record.tokens.per_token != 1:
        return Variances(np.empty(0), np.empty(0))
    m2 = record.statistics.m2.cpu().numpy()
    valid = record.tokens.valid
    kept = np.arange(m2.size) if valid is None else valid.cpu().numpy()
    local, _ = record.tokens.places(kept)
    return Variances(m2[kept].copy(), numbered(local.astype(float), rows))


def _floats(parts: Sequence[Numbers]) -> tuple[float, ...]:
    return tuple(float(v) for part in parts for v in part)
