"""What BatchNorm depends on besides the token."""

from __future__ import annotations

from functools import cache

import torch

from docs.generators.claims.claim import Outcome, claim, conditional_verdict, measure_model
from normdiag.evidence.invariances import KindInvariance
from sample_models import batch_norm, pre_norm, rms_pre_norm

_HOW = """`sample_models/batch_norm.py` (12 blocks, settled running statistics), `pre_norm.py` and
`rms_pre_norm.py`, width 64, seed 0: the first norm of each on what it reads there, 2 x 16
tokens."""
_EVAL = "the same, eval mode"


@cache
def norm_kinds() -> dict[str, KindInvariance]:
    norms = {}
    for built in (batch_norm.build(), pre_norm.build(layers=2), rms_pre_norm.build()):
        norms |= measure_model(built, "norms").invariances.kinds
    return norms


@claim(
    "BatchNorm has nothing left to say at batch size 1",
    source="Ioffe and Szegedy 2015 (1502.03167); Wu and He 2018 (1803.08494)",
    how=f"""{_HOW} `invariances.kinds`: `single`, the share of the output's energy that one token
    alone keeps in train mode, and `mode`, the change from eval to train mode; and BatchNorm's
    energy for one sequence of 16 tokens in train mode, over that in eval mode.""",
)
def batch_of_one() -> Outcome:
    kinds = norm_kinds()
    model, inputs = batch_norm.build()
    norm, one = model.blocks[0].bn, inputs[:1]
    with torch.no_grad():
        in_eval = norm(one).square().mean()
        sequence = float(norm.train()(one).square().mean() / in_eval)
    rows = [
        ["-" if k.batch_size_one is None else k.batch_size_one, "-", k.train_vs_eval]
        for k in kinds.values()
    ]
    rows[0][1] = sequence
    return Outcome(
        conditional_verdict(
            "it is in train mode and the one sequence has one position",
            with_it=rows[0][0] == 0,
            without=sequence < 0.01,
        ),
        ["norm", "energy of one token, training", "of one sequence", "eval mode to train mode"],
        [[kind, *row] for kind, row in zip(kinds, rows, strict=True)],
        "A single value less its own mean is 0: training on one token, all that is left is the "
        "bias (torch refuses). Over the positions of one sequence there is a variance, though not "
        "that of other sequences. In eval mode BatchNorm is a fixed affine map and needs no "
        "batch; that is another function than the one that was trained.",
    )


@claim(
    "Zero padding changes what BatchNorm does to real tokens",
    source="Shen et al. 2020 (PowerNorm, 2003.07845)",
    how=f"""{_HOW} `invariances.kinds.padding`: the change of the output at the tokens where as many
    zeros are added behind them, in train mode; and the largest such change of the whole model's
    output in eval mode.""",
)
@torch.no_grad()
def zero_padding() -> Outcome:
    model, inputs = batch_norm.build()
    padded = model(torch.cat([inputs, torch.zeros_like(inputs)], 1))[:, : inputs.shape[1]]
    in_eval = float((padded - model(inputs)).abs().max())
    rows = [[kind, k.padding, "-"] for kind, k in norm_kinds().items()]
    rows[0][2] = round(in_eval, 5)
    return Outcome(
        conditional_verdict(
            "it is in train mode", with_it=rows[0][1] > 0.05, without=in_eval > 1e-5
        ),
        ["norm", "change with padding, training", _EVAL],
        rows,
        "Zeros are counted as values: they draw the mean towards 0 and halve the variance, for "
        "every token. Norms within a token do not see them.",
    )


@claim(
    "BatchNorm leaks between the sequences of a batch",
    source="Ba et al. 2016 (1607.06450); Wu and He 2018 (1803.08494)",
    how=f"""{_HOW} `invariances.kinds.batch`: the change of one sequence's output where the other
    sequence is replaced, in train mode; and the largest such change of the whole model's output in
    eval mode.""",
)
@torch.no_grad()
def leaks_between_sequences() -> Outcome:
    model, inputs = batch_norm.build()
    other = torch.cat([inputs[:1], 3 * inputs[1:].roll(1, -1) + 1])
    in_eval = float((model(other)[0] - model(inputs)[0]).abs().max())
    rows = [[kind, k.batch, "-"] for kind, k in norm_kinds().items()]
    rows[0][2] = round(in_eval, 5)
    return Outcome(
        conditional_verdict(
            "it is in train mode", with_it=rows[0][1] > 0.05, without=in_eval > 1e-5
        ),
        ["norm", "change with another neighbour, training", _EVAL],
        rows,
        "One sequence's mean and variance enter the other's output, so gradients flow between "
        "them and a token can see what comes after it. LayerNorm and RMSNorm keep to their token.",
    )


CLAIMS = (batch_of_one, zero_padding, leaks_between_sequences)
