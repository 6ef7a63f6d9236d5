"""Token by site, for `trace`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from normdiag.evidence.tokens import TokenTrace
from normdiag.measure.observer import NormRecord
from normdiag.measure.stream import Rows, TokenNumbers, numbered
from normdiag.measure.summaries import Numbers


@dataclass(frozen=True, slots=True)
class ProbeSequence:
    """One sequence of the probe, as the tokenizer sees it."""

    text: str | None
    ids: tuple[int, ...] | None
    tokens: tuple[str, ...] | None
    special: tuple[bool, ...] | None


def token_traces(
    sequences: Sequence[ProbeSequence],
    adds: Mapping[str, TokenNumbers],
    norms: Mapping[str, Sequence[tuple[NormRecord, Rows]]],
) -> tuple[TokenTrace, ...]:
    """One trace per sequence. `norms`: per norm its records, each with its sequences."""
    by_norm = {name: _variances(records) for name, records in norms.items()}
    traces = []
    for number, sequence in enumerate(sequences):
        own = {name: n.sequence == number for name, n in adds.items()}
        length = max((int(mask.sum()) for mask in own.values()), default=0)
        tokens = sequence.tokens or tuple(str(i) for i in range(length))
        traces.append(
            TokenTrace(
                sequence=number,
                text=sequence.text,
                ids=sequence.ids,
                tokens=tokens,
                special=sequence.special or (False,) * len(tokens),
                out_norm={k: _floats(n.out[own[k]]) for k, n in adds.items()},
                update_ratio={k: _floats(n.update_ratio[own[k]]) for k, n in adds.items()},
                input_var={
                    k: _floats(m2[where == number])
                    for k, (m2, where) in by_norm.items()
                    if (where == number).any()
                },
                max_abs={k: _floats(n.max_abs[own[k]]) for k, n in adds.items()},
                max_channel={
                    k: tuple(int(c) for c in n.max_channel[own[k]]) for k, n in adds.items()
                },
            )
        )
    return tuple(traces)


def _variances(records: Sequence[tuple[NormRecord, Rows]]) -> tuple[Numbers, Numbers]:
    """m2 per token and the sequence of each; empty for norms with several rows per token."""
    values, sequences = [np.empty(0)], [np.empty(0)]
    for record, own in records:
        if record.statistics is None or record.tokens.per_token != 1:
            continue
        m2 = record.statistics.m2.cpu().numpy()
        valid = record.tokens.valid
        rows = np.arange(m2.size) if valid is None else valid.cpu().numpy()
        values.append(m2[rows])
        local = np.array([record.tokens.token_of(int(r))[0] for r in rows], dtype=float)
        sequences.append(numbered(local, own))
    return np.concatenate(values), np.concatenate(sequences)


def _floats(values: Numbers) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
