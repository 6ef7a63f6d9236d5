"""Every found norm recomputed from its operands, every add from its own, in float64."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from normdiag.evidence.replay import Replay
from normdiag.measure.learned import LearnedValues
from normdiag.measure.norm_inputs import Denominator, denominator
from normdiag.measure.observer import AddRecord, NormRecord
from normdiag.structure.forms import NormFound


def replay_norm(records: Sequence[NormRecord], learned: LearnedValues) -> Replay | None:
    """y = gain z / s + bias on the sampled rows, against what the model computed."""
    errors = []
    for record in records:
        if record.output_rows is None or record.found.kind == "batchnorm":
            continue
        expected = apply_norm(record.found, record.input_rows, learned)
        if expected is not None:
            errors.append(relative_error(expected, record.output_rows))
    return Replay(max_rel_error=max(errors)) if errors else None


def apply_norm(norm: NormFound, rows: torch.Tensor, learned: LearnedValues) -> torch.Tensor | None:
    """The norm as found, on rows of its input, in float64."""
    x = rows.detach().double().cpu()
    if norm.is_centred:
        x = x - x.mean(-1, keepdim=True)
    m2 = x.square().mean(-1, keepdim=True)
    y = norm.factor * x / _s(denominator(norm, learned), m2)
    if norm.groups > 1 or norm.kind == "groupnorm":
        return _per_channel(norm, y, learned)
    for vector, parts, combine in (
        (learned.gain_vector(norm), norm.gains, torch.mul),
        (learned.bias_vector(norm), norm.biases, torch.add),
    ):
        if parts and (vector is None or vector.numel() != y.shape[-1]):
            return None
        if vector is not None:
            y = combine(y, vector)
    return y


def _s(divisor: Denominator, m2: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(divisor.s(m2.numpy()))


def _per_channel(norm: NormFound, y: torch.Tensor, learned: LearnedValues) -> torch.Tensor | None:
    """A group's rows hold several channels, each with its own gain: rows cycle through groups."""
    gain, bias = learned.gain_vector(norm), learned.bias_vector(norm)
    if gain is None and bias is None:
        return y
    return None


def replay_add(records: Sequence[AddRecord]) -> Replay:
    """y = x + u on the sampled rows."""
    errors = [
        relative_error(r.skip_rows.double().cpu() + r.branch_rows.double().cpu(), r.out_rows)
        for r in records
    ]
    return Replay(max_rel_error=max(errors))


def relative_error(expected: torch.Tensor, seen: torch.Tensor) -> float:
    """max |expected - seen| / max |seen|; infinite where one is finite and the other is not."""
    actual = seen.detach().double().cpu()
    finite = torch.isfinite(expected) & torch.isfinite(actual)
    if not bool(finite.all()):
        same = (expected == actual) | (expected.isnan() & actual.isnan())
        if not bool((finite | same).all()):
            return float("inf")
    if not bool(finite.any()):
        return 0.0
    size = float(actual[finite].abs().max())
    error = float((expected[finite] - actual[finite]).abs().max())
    return error / size if size else error
