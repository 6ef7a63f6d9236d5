"""What comes behind a norm: an activation function, the head."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from docs.generators.claims.claim import Outcome, claim, conditional_verdict, measure_model
from sample_models import pre_norm, theory

WIDTH, SHAPE = 192, (4, 16)


@claim(
    "Unit variance confines features to the linear part of a sigmoid or tanh",
    source="Ioffe and Szegedy 2015 (1502.03167), section 3",
    how="""the outputs of the last norm of `sample_models/pre_norm.py` (48 blocks, width 64, seed
    0), rms 1, times a gain of 1, 2, 4: the share of the variance of f(y) that the best straight
    line in y leaves unexplained, and how many |y| exceed 1.""",
)
def linear_part() -> Outcome:
    model, inputs = pre_norm.build()
    with torch.no_grad():
        y = model(inputs).double().flatten()
    rows = []
    for name, function in (("sigmoid", torch.sigmoid), ("tanh", torch.tanh)):
        for gain in (1, 2, 4):
            left = _nonlinear_part(gain * y, function(gain * y))
            rows.append([name, gain, left, float((gain * y.abs() > 1).double().mean())])
    return Outcome(
        conditional_verdict(
            "the function is a sigmoid and the gain is about 1",
            with_it=rows[0][2] < 0.02,
            without=all(row[2] < 0.02 for row in rows),
        ),
        ["function", "gain", "variance that is not linear", "share of features above 1"],
        rows,
        "A sigmoid of unit-variance features is a straight line but for one percent of its "
        "variance. A tanh is a sigmoid of twice the gain, and bends visibly already there; a gain "
        "of 4, which training is free to learn, leaves most features outside the linear part of "
        "either. That is what the gain is for.",
    )


def _nonlinear_part(y: Tensor, f: Tensor) -> float:
    return 1 - float(np.corrcoef(y.numpy(), f.numpy())[0, 1] ** 2)


@claim(
    "The head amplifies the norm of the stream",
    source="folklore",
    how=f"""the stack of `sample_models/theory.py` (12, 48 layers, width {WIDTH}, seed 0, head
    weights N(0, 1/H)) in pre-norm with its final norm and without, and in post-norm. `rms.out` of
    the last add, `head_input.rms`, and the rms of the logits.""",
)
def head_and_stream() -> Outcome:
    rows = [
        [name, layers, *_output_sizes(placement, layers, final_norm)]
        for layers in (12, 48)
        for name, placement, final_norm in (
            ("pre-norm, final norm", "pre", True),
            ("pre-norm, no final norm", "pre", False),
            ("post-norm", "post", True),
        )
    ]
    grown = {row[0]: row for row in rows}
    return Outcome(
        conditional_verdict(
            "no norm stands between them",
            with_it=grown["pre-norm, no final norm"][4] > 2,
            without=grown["pre-norm, final norm"][4] > 2,
        ),
        ["model", "layers", "last add (rms)", "what the head reads (rms)", "logits (rms)"],
        rows,
        "The head is linear: the logits are as large as what it reads. Behind a final norm that "
        "is 1 at any depth. Without one it is the whole stream, and depth becomes confidence: "
        "logits eight times as large are a softmax at an eighth of the temperature.",
    )


def _output_sizes(placement: str, layers: int, final_norm: bool) -> tuple[float, float, float]:
    model, inputs = theory.build(placement, WIDTH, layers, 0, SHAPE)
    if not final_norm:
        model.norm = nn.Identity()
    measurements = measure_model((model, inputs), "stream")
    with torch.no_grad():
        logits = float(model(inputs).square().mean().sqrt())
    return list(measurements.stream.values())[-1].rms.out, measurements.head_input.rms, logits


CLAIMS = (linear_part, head_and_stream)
