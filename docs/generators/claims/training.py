"""What needs training to be tried: warm-up."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from docs.generators.claims.claim import Case, Criterion, Rows, claim
from sample_models.theory import Theory

STEPS, WARM, RATE, LAYERS, CLASSES = 80, 40, 1e-2, 8, 10


@claim(
    "Post-norm needs warm-up, pre-norm does not",
    source="Xiong et al. 2020, section 4; Liu et al. 2020 (2004.08249)",
    how=f"""the stack of `sample_models/theory.py`, width 32, {LAYERS} layers, in post-norm and
    pre-norm, trained for {STEPS} steps with Adam at {RATE:g} (betas 0.9 and 0.98) on fresh normal
    inputs, one sequence a step, to say which of the first {CLASSES} features of a token is the
    largest: with the full rate from the first step, and with a rate that grows from 0 to it over
    the first {WARM} steps. The cross-entropy, the mean of the last 20 steps; chance is
    {torch.log(torch.tensor(float(CLASSES))):.3g}.""",
    head=["placement", "loss, no warm-up", "loss, warm-up", "no warm-up / warm-up"],
    criterion=Criterion(
        "without warm-up the last loss of post-norm is more than 10 % larger than with it, and that "
        "of pre-norm is not",
        lambda rows: rows[0][3] > 1.1 and rows[1][3] <= 1.1,
    ),
    conclusion="""A pair of small stacks and a few steps: it shows what a large rate does early, not
    what a long training of a large model does, of which normdiag measures nothing here.""",
)
def warm_up(case: Case) -> Rows:
    rows = []
    for placement in ("post", "pre"):
        losses = [train_stack(case, placement, warm) for warm in (1, WARM)]
        rows.append([f"{placement}-norm", *losses, losses[0] / losses[1]])
    return rows


def train_stack(case: Case, placement: str, warm: int) -> float:
    """The mean loss of the last 20 steps."""
    model, _ = case.build(lambda: Theory(placement, 32, LAYERS, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    draws = torch.Generator().manual_seed(1000 + case.seed)
    losses = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / warm)
        x = torch.randn(1, case.tokens, 32, generator=draws)
        loss = F.cross_entropy(model(x)[0], x[0, :, :CLASSES].argmax(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-20:]) / 20


CLAIMS = (warm_up,)
