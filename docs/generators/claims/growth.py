"""How the stream grows where nothing on it is normalised, and where there is no norm at all."""

from __future__ import annotations

import numpy as np

from docs.generators.claims.claim import Case, Criterion, Rows, claim, measure_model
from docs.generators.claims.stacks import build_theory, measure_adds, measure_theory
from sample_models.pre_norm import PreNorm

_LINEAR = "`sample_models/pre_norm.py` (linear branches)"
_THEORY = "the stack of `sample_models/theory.py`"


@claim(
    "In pre-norm the variance of the stream grows additively, as L q, and its norm as sqrt(L)",
    source="Xiong et al. 2020 (arXiv 2002.04745), lemma 2; De and Smith 2020 (2002.10444)",
    how=f"""{_LINEAR}; {_THEORY} with Peri-LN, and in pre-norm; 48 adds, width 64. `growth.law`; of
    the squared `rms.out` of each add, the straight line through them against depth, and the mean
    step of the last quarter over that of the first; the exponent of `rms.out` in depth over the
    later half.""",
    head=["model", "law", "R^2 of a straight line", "exponent", "late step / early step"],
    criterion=Criterion(
        "the law named is additive, ||y|| ~ sqrt(1 + b l), and the straight line explains 95 % of "
        "the squared size, for each model",
        lambda rows: all(row[1] == "additive" and row[2] > 0.95 for row in rows),
    ),
    conclusion="""Independent writes add up in the square. q need not be one number: the size of a
    write differs from layer to layer, and with attention, as tokens become alike, averaging over
    them takes less away, so that late steps can be twice as large as early ones. The exponent of
    one stack, read over half its depth, is near 1/2 in the mean of the seeds and not in each.""",
)
def additive_growth(case: Case) -> Rows:
    rows = []
    for name, measurements in (
        ("pre-norm, linear", measure_model(case.build(lambda: PreNorm(48)), "stream-adds")),
        ("Peri-LN", measure_theory(case, "peri", 24)),
        ("pre-norm, attention and ReLU", measure_theory(case, "pre", 24)),
    ):
        (growth,) = measurements.growth.values()
        q = np.array([add.rms.out**2 for add in measurements.stream.values() if add.rms])
        depth, late, quarter = np.arange(1, len(q) + 1), slice(len(q) // 2, None), len(q) // 4
        exponent = np.polyfit(np.log(depth[late]), np.log(q[late]) / 2, 1)[0]
        line = np.corrcoef(depth, q)[0, 1] ** 2
        steps = (q[-1] - q[-1 - quarter]) / (q[quarter] - q[0])
        rows.append([name, growth.law, float(line), float(exponent), float(steps)])
    return rows


@claim(
    "The stream is ten times as large after a hundred blocks",
    source="folklore: sqrt(100) = 10",
    how=f"{_LINEAR}; {_THEORY} with Peri-LN; width 64, both with 100 adds. `rms.out` of the last "
    "add over `rms.skip` of the first, and `rms.branch` of the first.",
    head=["model", "first write / embedding", "last / first size", "sqrt(1 + 100 write^2)"],
    criterion=Criterion(
        "last over first size is within 15 % of ten: where the first write is within 10 % of the "
        "embedding (with the condition), for both models (without)",
        lambda rows: (
            all(abs(row[2] / 10 - 1) < 0.15 for row in rows if abs(row[1] - 1) < 0.1)
            and any(abs(row[1] - 1) < 0.1 for row in rows)
        ),
        "one branch writes as much as the embedding holds",
        lambda rows: all(abs(row[2] / 10 - 1) < 0.15 for row in rows),
    ),
    conclusion="""With writes of unit size it is about ten. torch's default weights of a linear
    layer keep a third of the variance, and the same hundred blocks make the stream less than seven
    times as large: the factor is sqrt(1 + L q), with q measured in units of the embedding.""",
)
def tenfold_at_a_hundred(case: Case) -> Rows:
    rows = []
    for name, built in (
        ("pre-norm, linear", case.build(lambda: PreNorm(100))),
        ("Peri-LN", build_theory(case, "peri", 50)),
    ):
        sizes = [add.rms for add in measure_adds(built) if add.rms]
        write = sizes[0].branch / sizes[0].skip
        rows.append([name, write, sizes[-1].out / sizes[0].skip, (1 + 100 * write**2) ** 0.5])
    return rows


@claim(
    "Without a norm the stream grows exponentially with depth",
    source="De and Smith 2020 (2002.10444); Zhang et al. 2019 (Fixup, 1901.09321)",
    how=f"""{_THEORY} without norms, with a norm in front of each branch (pre-norm) and with
    branches divided by 10 and no norm (weights of variance 0.01/H), 48 adds, width 64. The squared
    `rms.out`: its factor per layer (two adds) over the later half of the adds, and R^2 of the
    straight line through its logarithm over all.""",
    head=["model", "factor per layer", "R^2, exponential", "last size / first"],
    criterion=Criterion(
        "the factor per layer of the squared size exceeds 1.4 and the exponential explains 98 % of "
        "its logarithm: without norms (with the condition), without norms and with small branches "
        "(without)",
        lambda rows: rows[0][1] > 1.4 and rows[0][2] > 0.98,
        "branches write as much as they read",
        lambda rows: all(row[1] > 1.4 and row[2] > 0.98 for row in rows[:2]),
    ),
    conclusion="""A branch without a norm writes in proportion to the stream, so each layer
    multiplies: by 1.5 behind the network and by up to 2 behind attention once tokens are alike.
    Branches of a hundredth of the variance multiply too, by hardly more than 1. A norm in front of
    the branch makes the writes equal and the growth additive.""",
)
def growth_without_norms(case: Case) -> Rows:
    rows = []
    for name, placement, times in (
        ("no norm", "none", 1.0),
        ("no norm, branches / 10", "none", 0.1),
        ("pre-norm", "pre", 1.0),
    ):
        model, inputs = build_theory(case, placement, 24)
        for layer in model.layers:
            layer.attention.inner.value.weight.data *= times
            layer.network.inner.down.weight.data *= times
        q = np.array([add.rms.out**2 for add in measure_adds((model, inputs)) if add.rms])
        layers = np.arange(len(q)) / 2
        half = len(q) // 2
        factor = np.exp(np.polyfit(layers[half:], np.log(q[half:]), 1)[0])
        line = np.corrcoef(layers, np.log(q))[0, 1] ** 2
        rows.append([name, float(factor), float(line), float((q[-1] / q[0]) ** 0.5)])
    return rows


CLAIMS = (additive_growth, tenfold_at_a_hundred, growth_without_norms)
