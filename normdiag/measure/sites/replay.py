"""Every detected norm and every residual add recomputed from its operands in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from normdiag.evidence.replay import Replay
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.sites.norm_inputs import Denominator, norm_denominator
from normdiag.measure.sites.samples import AddSample, NormSample
from normdiag.structure.algebraic_forms import DetectedNorm

MeanSquare = Callable[[torch.Tensor], torch.Tensor]


def average_squares(x: torch.Tensor) -> torch.Tensor:
    """m2 = mean(x^2) of each row (rows, features), as (rows, 1)."""
    return x.square().mean(-1, keepdim=True)


def replay_norm(
    norm: DetectedNorm, samples: Sequence[NormSample], learned: LearnedValues
) -> Replay | None:
    """Compare y = gain z / s + bias on the sampled rows with what the model computed."""
    errors = []
    for sample in samples:
        if sample.output_rows is None:
            continue
        expected = apply_norm(norm, sample.input_rows, learned, sample.rows)
        if expected is not None:
            errors.append(relative_error(expected, sample.output_rows))
    return Replay(max_rel_error=max(errors)) if errors else None


def apply_norm(
    norm: DetectedNorm,
    rows: torch.Tensor,
    learned: LearnedValues,
    which: torch.Tensor | None = None,
    mean_square: MeanSquare = average_squares,
) -> torch.Tensor | None:
    """Compute the norm as detected, on rows of its input, in float64; None where it cannot be.

    `mean_square` computes m2 of each row; of centred rows where the norm centres.

    `which`: the numbers of the rows among all rows of the input. Without them the rows are tokens
    of a stream, whatever the norm takes its statistics over.
    """
    x = rows.detach().double().cpu()
    y = _normalise_rows(norm, x, learned, which, mean_square)
    for parts, combine in ((norm.gains, torch.mul), (norm.biases, torch.add)):
        if y is None or not parts:
            continue
        vector = match_rows(norm, learned.product_vector(norm, parts), y.shape[-1], which)
        y = None if vector is None else combine(y, vector)
    return y


def _normalise_rows(
    norm: DetectedNorm,
    x: torch.Tensor,
    learned: LearnedValues,
    which: torch.Tensor | None,
    mean_square: MeanSquare,
) -> torch.Tensor | None:
    """Before gain and bias."""
    if norm.alpha is not None:
        alpha = learned.find_tensor(norm.alpha)
        return None if alpha is None else torch.tanh(x * alpha.detach().double().cpu())
    divisor = norm_denominator(norm, learned)
    if norm.running_mean is not None and norm.running_var is not None:
        mean, var = (learned.find_tensor(n) for n in (norm.running_mean, norm.running_var))
        means, variances = (
            match_rows(norm, None if v is None else v.detach().double().cpu(), x.shape[-1], which)
            for v in (mean, var)
        )
        if means is None or variances is None:
            return None
        return (x - means) / _row_denominator(divisor, variances)
    if which is None and norm.count != x.shape[-1]:
        return None
    if norm.is_centred:
        x = x - x.mean(-1, keepdim=True)
    return norm.factor * x / _row_denominator(divisor, mean_square(x))


def _row_denominator(divisor: Denominator, m2: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(divisor.compute_denominator(m2.numpy()))


def match_rows(
    norm: DetectedNorm, vector: torch.Tensor | None, features: int, which: torch.Tensor | None
) -> torch.Tensor | None:
    """Expand a learned vector to rows of `features`; None where it does not fit.

    A row of a batch norm is a channel; a row of a group norm holds the channels of one group, each
    at several positions, and rows run through the groups.
    """
    if vector is None:
        return None
    channels = vector.numel()
    if which is not None and norm.kind == "batchnorm":
        return vector[which.cpu()][:, None] if int(which.max()) < channels else None
    if which is not None and norm.kind == "groupnorm" and features * norm.groups % channels == 0:
        each = vector.reshape(norm.groups, -1)
        spread = each.repeat_interleave(features // each.shape[1], dim=1)
        return spread[which.cpu() % norm.groups]
    return vector if channels == features else None


def replay_add(samples: Sequence[AddSample]) -> Replay:
    """Compare y = x + u on the sampled rows with what the model computed."""
    errors = [
        relative_error(sample.skip_rows.double() + sample.branch_rows.double(), sample.out_rows)
        for sample in samples
    ]
    return Replay(max_rel_error=max(errors))


def relative_error(expected: torch.Tensor, computed: torch.Tensor) -> float:
    """max |expected - computed| / max |computed|; infinite where only one of both is finite."""
    actual = computed.detach().double().cpu()
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
