"""What BatchNorm depends on besides the token."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docs.generators.claims.claim import Case, Criterion, Rows, claim, measure_model
from normdiag.evidence.invariances import KindInvariance
from sample_models.batch_norm import BatchNormed, ChannelNorm
from sample_models.pre_norm import PreNorm
from sample_models.rms_pre_norm import RMSPreNorm

_HOW = """`sample_models/batch_norm.py` (2 blocks, running statistics of 20 batches),
`pre_norm.py` and `rms_pre_norm.py` (1), width 64, 2 sequences: the first norm of each on what it
reads there."""
_EVAL = "the whole model, eval mode"


def build_batch_norm(case: Case) -> tuple[nn.Module, Tensor]:
    """With settled running statistics."""
    model, inputs = case.build(lambda: BatchNormed(2))
    draws = torch.Generator().manual_seed(case.seed + 100)
    with torch.no_grad():
        model.train()
        for _ in range(20):
            model(torch.randn(8, case.tokens, 64, generator=draws))
    return model.eval(), inputs


@cache
def norm_kinds(case: Case) -> dict[str, KindInvariance]:
    """What the outputs of the three kinds depend on."""
    kinds: dict[str, KindInvariance] = {}
    for built in (
        build_batch_norm(case),
        case.build(lambda: PreNorm(1)),
        case.build(lambda: RMSPreNorm(1)),
    ):
        invariances = measure_model(built, "invariances").invariances
        assert invariances is not None
        kinds |= invariances.kinds
    return kinds


@claim(
    "BatchNorm has nothing left to say at batch size 1",
    source="Ioffe and Szegedy 2015 (1502.03167); Wu and He 2018 (1803.08494)",
    how=f"""{_HOW} `invariances.kinds`: `batch_size_one`, the share of the output's energy that one
    token alone keeps in train mode, and `train_vs_eval`, the change from eval to train mode; and
    BatchNorm's energy for one sequence in train mode, over that in eval mode.""",
    head=["norm", "energy of one token, training", "of one sequence", "eval mode to train mode"],
    criterion=Criterion(
        "the energy is below 1 %: of one token in train mode (with the condition), of one sequence "
        "(without)",
        lambda rows: rows[0][1] < 0.01,
        "it is in train mode and the one sequence has one position",
        lambda rows: rows[0][2] < 0.01,
    ),
    conclusion="""A single value less its own mean is 0: training on one token, all that is left is
    the bias (torch refuses). Over the positions of one sequence there is a variance, though not
    that of other sequences. In eval mode BatchNorm is a fixed affine map and needs no batch; that
    is another function than the one that was trained.""",
)
def batch_of_one(case: Case) -> Rows:
    kinds = norm_kinds(case)
    model, inputs = build_batch_norm(case)
    norm, one = model.blocks[0].bn, inputs[:1]
    with torch.no_grad():
        in_eval = norm(one).square().mean()
        sequence = float(norm.train()(one).square().mean() / in_eval)
    rows: list[list[object]] = [
        [kind, "-" if k.batch_size_one is None else k.batch_size_one, "-", k.train_vs_eval]
        for kind, k in kinds.items()
    ]
    rows[0][2] = sequence
    return rows


@claim(
    "At batch size 1 BatchNorm passes no gradient",
    source="Wu and He 2018 (1803.08494), small batches",
    how="""BatchNorm of 64 features (`torch.batch_norm`, epsilon 1e-5) in train mode and, for
    comparison, with statistics of mean 0 and variance 1: the gradient of a random projection of the
    output, for its input, over the length of the projection; on one token, on one sequence, and on
    LayerNorm's one token.""",
    head=["norm", "on", "gradient / that of the output"],
    criterion=Criterion(
        "the gradient is below 1e-6: of one token in train mode (with the condition), of one "
        "sequence in train mode (without)",
        lambda rows: rows[0][2] < 1e-6,
        "the batch is one value per channel, in train mode",
        lambda rows: rows[1][2] < 1e-6,
    ),
    conclusion="""One value is its own mean, so no change of it shows, and no gradient comes back:
    not a small one, none. One sequence is as many values per channel as it has positions. In eval
    mode the statistics are constants and the gradient passes; LayerNorm's does with one token.""",
)
def gradient_of_one(case: Case) -> Rows:
    x = case.draw_normal(case.tokens, 64).double()
    rows = []
    for kind, name, each in (
        ("BatchNorm, training", "one token", x[:1]),
        ("BatchNorm, training", "one sequence", x),
        ("BatchNorm, eval", "one token", x[:1]),
        ("LayerNorm", "one token", x[:1]),
    ):
        value = each.clone().requires_grad_()
        direction = case.draw_normal(2 * case.tokens, 64).double()[-len(each) :]
        (gradient,) = torch.autograd.grad((apply_norm(kind, value) * direction).sum(), value)
        rows.append([kind, name, float(gradient.norm() / direction.norm())])
    return rows


def apply_norm(kind: str, x: Tensor) -> Tensor:
    """One of three norms without gain and bias."""
    if kind == "LayerNorm":
        return F.layer_norm(x, x.shape[-1:])
    mean, variance = torch.zeros(x.shape[-1]).to(x), torch.ones(x.shape[-1]).to(x)
    training = kind == "BatchNorm, training"
    return torch.batch_norm(x, None, None, mean, variance, training, 0.1, 1e-5, False)


def change_rows(case: Case, measure: str, in_eval: float) -> Rows:
    """One of the changes of `invariances.kinds`, and that of the model in eval mode."""
    rows = [[kind, getattr(k, measure), "-"] for kind, k in norm_kinds(case).items()]
    rows[0][2] = round(in_eval, 5)
    return rows


_CHANGE = Criterion(
    "BatchNorm's output changes by more than 5 % in train mode (with the condition), and the whole "
    "model's in eval mode by more than 1e-5 (without)",
    lambda rows: rows[0][1] > 0.05,
    "it is in train mode",
    lambda rows: rows[0][2] > 1e-5,
)


@claim(
    "Zero padding changes what BatchNorm does to real tokens",
    source="Shen et al. 2020 (PowerNorm, 2003.07845)",
    how=f"""{_HOW} `invariances.kinds.padding`: the change of the output at the tokens where as many
    zeros are added behind them, in train mode; and the largest such change of the whole model's
    output in eval mode.""",
    head=["norm", "change with padding, training", _EVAL],
    criterion=_CHANGE,
    conclusion="""Zeros are counted as values: they draw the mean towards 0 and halve the variance,
    for every token. Norms within a token do not see them.""",
)
@torch.no_grad()
def zero_padding(case: Case) -> Rows:
    model, inputs = build_batch_norm(case)
    padded = model(torch.cat([inputs, torch.zeros_like(inputs)], 1))[:, : inputs.shape[1]]
    return change_rows(case, "padding", float((padded - model(inputs)).abs().max()))


@claim(
    "BatchNorm leaks between the sequences of a batch",
    source="Ba et al. 2016 (1607.06450); Wu and He 2018 (1803.08494)",
    how=f"""{_HOW} `invariances.kinds.batch`: the change of one sequence's output where the other
    sequence is replaced, in train mode; and the largest such change of the whole model's output in
    eval mode.""",
    head=["norm", "change with another neighbour, training", _EVAL],
    criterion=_CHANGE,
    conclusion="""One sequence's mean and variance enter the other's output, so gradients flow
    between them and a token can see what comes after it. LayerNorm and RMSNorm keep to their
    token.""",
)
@torch.no_grad()
def leaks_between_sequences(case: Case) -> Rows:
    model, inputs = build_batch_norm(case)
    other = torch.cat([inputs[:1], 3 * inputs[1:].roll(1, -1) + 1])
    return change_rows(case, "batch", float((model(other)[0] - model(inputs)[0]).abs().max()))


class AveragingLayer(nn.Module):
    """x + W v, v the average over all tokens of the sequence, or over those up to this one."""

    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.is_causal, self.value = is_causal, nn.Linear(64, 64, bias=False)
        nn.init.normal_(self.value.weight, std=64**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        if self.is_causal:
            counts = torch.arange(1, x.shape[-2] + 1).to(x)[:, None]
            return x + self.value(x.cumsum(-2) / counts)
        return x + self.value(x.mean(-2, keepdim=True)).expand_as(x)


@claim(
    "The statistics of what a norm reads drift with position",
    source="folklore; Xiong et al. 2020, section 3.3, for attention that looks everywhere alike",
    how="""x + W v on 8 sequences of normal tokens, width 64, W of N(0, 1/H), v the average over the
    tokens up to this one (causal) or over all: the mean square of the first token over the mean of
    the last quarter; the same behind a LayerNorm, and behind `sample_models/batch_norm.py`'s norm
    over batch and positions in train mode.""",
    head=["attention", "first / late: of the sum", "behind LayerNorm", "behind BatchNorm"],
    criterion=Criterion(
        "first over late exceeds 1.5: of causal attention (with the condition), of attention to "
        "all (without)",
        lambda rows: rows[0][1] > 1.5,
        "attention is causal",
        lambda rows: rows[1][1] > 1.5,
    ),
    conclusion="""Under a causal mask the first token attends to itself alone and gets all of its
    value; a late one gets an average, 1/n of the variance. A norm within the token takes that drift
    away from its output, at every position; BatchNorm, one statistic for all positions, hands it
    on.""",
)
@torch.no_grad()
def drift_with_position(case: Case) -> Rows:
    rows = []
    for name, is_causal in (("causal", True), ("to all", False)):
        model, inputs = case.build(lambda c=is_causal: AveragingLayer(c), sequences=8)
        y = model(inputs)
        behind = [y, F.layer_norm(y, (64,)), ChannelNorm(64).train()(y)]
        rows.append([name, *(first_over_late(each) for each in behind)])
    return rows


def first_over_late(y: Tensor) -> float:
    """Mean squares: of the first token, over that of the last quarter of the sequence."""
    squares = y.square().mean((0, 2))
    return float(squares[0] / squares[-(len(squares) // 4) :].mean())


CLAIMS = (
    batch_of_one,
    gradient_of_one,
    zero_padding,
    leaks_between_sequences,
    drift_with_position,
)
