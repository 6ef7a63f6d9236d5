"""What comes behind a norm: an activation function, the head."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from docs.generators.claims.claim import Case, Criterion, Rows, claim, measure_model
from docs.generators.claims.gradients import run_backward
from docs.generators.claims.stacks import LOSS, build_theory
from sample_models.pre_norm import PreNorm

FUNCTIONS = (("sigmoid", torch.sigmoid), ("tanh", torch.tanh))
_OUTPUTS = "`sample_models/pre_norm.py` (12 blocks, width 64)"


def normal_features(case: Case) -> tuple[Tensor, Tensor]:
    """What the last norm reads, and its output."""
    model, inputs = case.build(lambda: PreNorm(12))
    read: list[Tensor] = []
    model.ln_f.register_forward_pre_hook(lambda module, args: read.append(args[0]))
    with torch.no_grad():
        y = model(inputs)
    return read[0].double().flatten(), y.double().flatten()


@claim(
    "Unit variance confines features to the linear part of a sigmoid or tanh",
    source="Ioffe and Szegedy 2015 (1502.03167), section 3",
    how=f"""the outputs y of the last norm of {_OUTPUTS}, rms 1, times a gain: the share of the
    variance of f(y) that the best straight line in y leaves unexplained, and how many |y| exceed
    1.""",
    head=["function", "gain", "variance that is not linear", "share of features above 1"],
    criterion=Criterion(
        "the straight line leaves less than 2 %: for the sigmoid of gain 1 (with the condition), "
        "in all rows (without)",
        lambda rows: rows[0][2] < 0.02,
        "the function is a sigmoid and the gain is about 1",
        lambda rows: all(row[2] < 0.02 for row in rows),
    ),
    conclusion="""A sigmoid of unit-variance features is a straight line but for one or two percent
    of its variance. A tanh is a sigmoid of twice the gain, and bends visibly already at 1; a gain
    of 4, which training is free to learn, leaves most features outside the linear part of either.
    That is what the gain is for.""",
)
def linear_part(case: Case) -> Rows:
    _, y = normal_features(case)
    rows = []
    for name, function in FUNCTIONS:
        for gain in (1, 4):
            f = function(gain * y).numpy()
            left = 1 - float(np.corrcoef(y.numpy(), f)[0, 1] ** 2)
            rows.append([name, gain, left, float((gain * y.abs() > 1).double().mean())])
    return rows


@claim(
    "Behind a norm a sigmoid or tanh does not saturate",
    source="Ioffe and Szegedy 2015 (1502.03167), section 3.2",
    how=f"""what the last norm of {_OUTPUTS} reads, times 10, without the norm; and its outputs, rms
    1, times a gain: the share of features where the derivative of f is below a tenth of its
    largest.""",
    head=["function", "input", "gain", "saturated features"],
    criterion=Criterion(
        "less than 1 % are saturated behind the norm: for the sigmoid of gain 1 (with the "
        "condition), for both functions and all gains (without)",
        lambda rows: all(row[3] < 0.01 for row in rows if row[:3] == ["sigmoid", "norm", 1]),
        "the function is a sigmoid and the gain is about 1",
        lambda rows: all(row[3] < 0.01 for row in rows if row[1] == "norm"),
    ),
    conclusion="""The norm bounds the rms of what the function reads, at its gain. At gain 1 a
    sigmoid is hardly ever near its ends, and a tanh, which has its tenth at 1.82, is there for one
    feature in fifteen. Without the norm it is the size of the stream that decides, and with a
    learned gain it is the gain: a norm in front is no promise by itself.""",
)
def saturation(case: Case) -> Rows:
    stream, y = normal_features(case)
    rows = []
    for name, function in FUNCTIONS:
        for source, x, gain in (
            ("stream x 10", 10 * stream, 1),
            ("norm", y, 1),
            ("norm", y, 8),
        ):
            values = function(gain * x)
            slope = values * (1 - values) * 4 if name == "sigmoid" else 1 - values.square()
            rows.append([name, source, gain, float((slope < 0.1).double().mean())])
    return rows


@claim(
    "The head amplifies the norm of the stream, and with it the gradient",
    source="folklore",
    how=f"""the stack of `sample_models/theory.py` (width 64, head weights N(0, 1/H)) in pre-norm
    with its final norm and without, and in post-norm. `rms.out` of the last add, `head_input.rms`,
    the rms of the logits; and the norm of the loss's gradient of all layers' weights, by plain
    autograd. {LOSS}.""",
    head=[
        "model",
        "layers",
        "last add (rms)",
        "what the head reads (rms)",
        "logits (rms)",
        "gradient of the layers",
    ],
    criterion=Criterion(
        "from 6 to 24 layers the logits grow by more than a factor of 1.5 and the gradient by "
        "more than 2: in pre-norm without a final norm (with the condition), in all models "
        "(without)",
        lambda rows: _is_amplified(rows[2], rows[3]),
        "no norm stands between them",
        lambda rows: all(_is_amplified(a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)),
    ),
    conclusion="""The head is linear: the logits are as large as what it reads. Behind a final norm
    that is 1 at any depth. Without one it is the whole stream, and depth becomes confidence: logits
    twice as large are a softmax at half the temperature, and the gradient that
    reaches the layers is no longer divided by the size of the stream.""",
)
def head_and_stream(case: Case) -> Rows:
    rows = []
    for name, placement, last_norm in (
        ("pre-norm, final norm", "pre", True),
        ("pre-norm, no final norm", "pre", False),
        ("post-norm", "post", True),
    ):
        for layers in (6, 24):
            model, inputs = build_theory(case, placement, layers, last_norm=last_norm)
            measurements = measure_model((model, inputs), "stream-adds")
            sizes = [add.rms.out for add in measurements.stream.values() if add.rms]
            with torch.no_grad():
                logits = float(model(inputs).square().mean().sqrt())
            head = measurements.head_input
            gradient = run_backward(case, placement, layers, last_norm).blocks
            rows.append([name, layers, sizes[-1], head.rms if head else 0.0, logits, gradient])
    return rows


def _is_amplified(shallow: list[float], deep: list[float]) -> bool:
    return deep[4] / shallow[4] > 1.5 and deep[5] / shallow[5] > 2


CLAIMS = (linear_part, saturation, head_and_stream)
