"""What needs training to be tried: warm-up."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docs.generators.claims.claim import Case, Criterion, Rows, claim

STEPS, WARM, RATE, LAYERS, WIDTH, CLASSES = 80, 40, 1e-2, 12, 32, 10


class TrainedStack(nn.Module):
    """Networks of two layers, each with a norm in front (pre-norm) or on the stream (post-norm)."""

    def __init__(self, placement: str) -> None:
        super().__init__()
        self.is_post = placement == "post"
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(LAYERS)
        )
        for branch in self.branches:
            nn.init.xavier_normal_(branch[0].weight)
            nn.init.xavier_normal_(branch[2].weight)
        self.last = nn.Identity() if self.is_post else nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for norm, branch in zip(self.norms, self.branches, strict=True):
            x = norm(x + branch(x)) if self.is_post else x + branch(norm(x))
        return self.head(self.last(x))


@claim(
    "Post-norm needs warm-up, pre-norm does not",
    source="Xiong et al. 2020, section 4; Liu et al. 2020 (2004.08249)",
    how=f"""{LAYERS} layers, width {WIDTH}, of networks of two matrices (ReLU, {2 * WIDTH} units,
    Xavier's initialisation), in post-norm and pre-norm, trained for {STEPS} steps with Adam at
    {RATE:g} (betas 0.9 and 0.98) on fresh normal tokens, so many a step, to say which of the first
    {CLASSES} features of a token is the largest: with the full rate from the first step, and with a
    rate that grows from 0 to it over the first {WARM} steps. The cross-entropy, the mean of the
    last 20 steps; chance is {torch.log(torch.tensor(float(CLASSES))):.3g}.""",
    head=["placement", "loss, no warm-up", "loss, warm-up", "no warm-up / warm-up"],
    criterion=Criterion(
        "without warm-up the last loss of post-norm is more than 20 % larger than with it, and "
        "that of pre-norm is not",
        lambda rows: rows[0][3] > 1.2 and rows[1][3] <= 1.2,
    ),
    conclusion="""A pair of small stacks without attention and a few steps at a large rate, `tokens`
    being those of a step. With few tokens post-norm learns nothing in that time with either; with
    many, it loses more than pre-norm without warm-up. It shows what such a rate does early;
    whether a large model trains to the end is not tried here.""",
)
def warm_up(case: Case) -> Rows:
    rows = []
    for placement in ("post", "pre"):
        losses = [train_stack(case, placement, warm) for warm in (1, WARM)]
        rows.append([f"{placement}-norm", *losses, losses[0] / losses[1]])
    return rows


def train_stack(case: Case, placement: str, warm: int) -> float:
    """The mean loss of the last 20 steps."""
    model, _ = case.build(lambda: TrainedStack(placement))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    draws = torch.Generator().manual_seed(1000 + case.seed)
    losses = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / warm)
        x = torch.randn(case.tokens, WIDTH, generator=draws)
        loss = F.cross_entropy(model(x), x[:, :CLASSES].argmax(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-20:]) / 20


CLAIMS = (warm_up,)
