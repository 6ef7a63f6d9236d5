"""How the stream grows where nothing on it is normalised."""

from __future__ import annotations

from functools import cache

import numpy as np

from docs.generators.claims.claim import (
    Outcome,
    claim,
    conditional_verdict,
    measure_model,
    plain_verdict,
)
from normdiag.evidence.stream import AddMeasurement
from sample_models import pre_norm, scaled_branch, shrinking_gain, theory

SHAPE = (4, 16)
DEPTHS = (12, 24, 48, 96)
_PRE = "`sample_models/pre_norm.py`, L adds of linear branches, width 64, seed 0"
_PERI = "the stack of `sample_models/theory.py` with Peri-LN, L adds, width 192, seed 0"


def measure_adds(built: tuple[object, object]) -> list[AddMeasurement]:
    return list(measure_model(built, "stream").stream.values())


@cache
def build_stack(model: str, depth: int) -> list[AddMeasurement]:
    """The adds of a stack of `depth` adds."""
    if model == "pre-norm":
        return measure_adds(pre_norm.build(layers=depth))
    return measure_adds(theory.build("peri", 192, depth // 2, 0, SHAPE))


@claim(
    "In pre-norm the variance of the stream grows additively, as L q, and its norm as sqrt(L)",
    source="Xiong et al. 2020 (arXiv 2002.04745), lemma 2; De and Smith 2020 (2002.10444)",
    how=f"""{_PRE}; {_PERI}; and the same stack in pre-norm. `growth.law`, the squared `rms.out` of
    each add, the straight line through them against depth, and the exponent of `rms.out` in depth
    over the later half.""",
)
def additive_growth() -> Outcome:
    models = {
        "pre-norm, linear": pre_norm.build(layers=96),
        "Peri-LN": theory.build("peri", 192, 48, 0, SHAPE),
        "pre-norm, attention and ReLU": theory.build("pre", 192, 48, 0, SHAPE),
    }
    rows, straight = [], []
    for name, built in models.items():
        measurements = measure_model(built, "stream")
        (growth,) = measurements.growth.values()
        q = np.array([add.rms.out**2 for add in measurements.stream.values()])
        depth, late = np.arange(1, len(q) + 1), slice(len(q) // 2, None)
        exponent = np.polyfit(np.log(depth[late]), np.log(q[late]) / 2, 1)[0]
        fit = np.corrcoef(depth, q)[0, 1] ** 2
        straight.append(fit > 0.98 and abs(exponent - 0.5) < 0.1)
        rows.append([name, len(q), growth.law, growth.confidence, q[-1], fit, exponent])
    return Outcome(
        plain_verdict(all(straight)),
        [
            "model",
            "adds",
            "law",
            "confidence",
            "last variance",
            "R^2 of a straight line",
            "exponent",
        ],
        rows,
        "The variance lies on a straight line and the exponent of the norm is near 1/2. q need "
        "not be one number: as tokens become alike, averaging over them takes less away, and the "
        "later layers of the third model write more than the first.",
    )


@claim(
    "The stream is ten times as large after a hundred blocks",
    source="folklore: sqrt(100) = 10",
    how=f"{_PRE}; {_PERI}; both with L = 100. `rms.out` of the last add over `rms.skip` of the "
    "first, and `rms.branch` of the first.",
)
def tenfold_at_a_hundred() -> Outcome:
    rows = []
    for model in ("pre-norm", "Peri-LN"):
        each = build_stack(model, 100)
        write = each[0].rms.branch / each[0].rms.skip
        rows.append(
            [model, write, each[-1].rms.out / each[0].rms.skip, (1 + 100 * write**2) ** 0.5]
        )
    small, unit = rows
    return Outcome(
        conditional_verdict(
            "one branch writes as much as the embedding holds",
            with_it=abs(unit[2] / 10 - 1) < 0.1,
            without=abs(small[2] / 10 - 1) < 0.1,
        ),
        ["model", "first write / embedding", "last / first size", "sqrt(1 + 100 write^2)"],
        rows,
        "With writes of unit size it is about ten. torch's default weights of a linear layer keep "
        "a third of the variance, and the same hundred blocks make the stream less than six times "
        "as large: the factor is sqrt(1 + L q), with q measured in units of the embedding.",
    )


@claim(
    "The share of one block falls as 1/sqrt(L)",
    source="De and Smith 2020 (2002.10444); Liu et al. 2020 (2004.08249)",
    how=f"{_PRE}; {_PERI}; L = {', '.join(map(str, DEPTHS))}. `update_ratio` and "
    "`contribution.energy` of the last add, and their slopes in L, log to log.",
)
def share_of_a_block() -> Outcome:
    rows = []
    for model in ("pre-norm", "Peri-LN"):
        last = [build_stack(model, depth)[-1] for depth in DEPTHS]
        ratio = [add.update_ratio.mean for add in last]
        energy = [add.contribution.energy for add in last]
        slopes = [np.polyfit(np.log(DEPTHS), np.log(y), 1)[0] for y in (ratio, energy)]
        rows += [
            [model, "update ratio", *ratio, slopes[0]],
            [model, "share of the energy", *energy, slopes[1]],
        ]
    return Outcome(
        plain_verdict(all(abs(row[-1] + 0.5) < 0.1 for row in rows if row[1] == "update ratio")),
        ["model", "of the last block", *(f"L = {depth}" for depth in DEPTHS), "slope"],
        rows,
        "The length of the last write over that of the stream falls as 1/sqrt(L); the share of "
        "the energy, its square, as 1/L. Both are called the share of a block.",
    )


@claim(
    "Scaling the branches turns the sum from an arithmetic into a geometric one",
    source="folklore",
    how="""`sample_models/scaled_branch.py` (48 adds, each times 1/sqrt(48)) and
    `sample_models/shrinking_gain.py` (24 adds, the gain of the l-th norm 0.8^l), width 64, seed 0.
    The squared `rms.branch` of neighbouring adds, one over the other, as a geometric mean.""",
)
def scaled_branches() -> Outcome:
    rows = []
    for name, built in (
        ("all by 1/sqrt(48)", scaled_branch.build()),
        ("the l-th by 0.8^l", shrinking_gain.build()),
    ):
        each = measure_adds(built)
        written = [add.rms.branch**2 for add in each]
        step = (written[-1] / written[0]) ** (1 / (len(each) - 1))
        rows.append(
            [name, step, written[0], sum(written), (each[-1].rms.out / each[0].rms.skip) ** 2]
        )
    constant, shrinking = rows
    return Outcome(
        conditional_verdict(
            "the scale itself shrinks by a factor per block",
            with_it=abs(shrinking[1] - 0.64) < 0.02,
            without=abs(constant[1] - 1) > 0.02,
        ),
        [
            "branches scaled",
            "factor per add",
            "first write^2",
            "sum of write^2",
            "growth of the variance",
        ],
        rows,
        "With one scale for all blocks every write is as large as the one before: the sum is as "
        "arithmetic as it was, with a smaller step, and of 1/sqrt(L) blocks it ends at a "
        "constant. Only a scale that falls geometrically makes a geometric sum, which is bounded "
        "however deep the model is.",
    )


@claim(
    "A gain that shrinks with depth takes weight from the late blocks",
    source="Sun et al. 2025 (LayerNorm scaling, 2502.05795)",
    how="""`sample_models/shrinking_gain.py`, and the stack of `sample_models/theory.py`, 48 layers,
    width 192, seed 0, in pre-norm without and with 1/sqrt(l) behind its norms.
    `contribution.energy` of the later half of the adds, summed, and the last `update_ratio`.""",
)
def shrinking_gains() -> Outcome:
    rows = []
    for name, built in (
        ("gain 1", theory.build("pre", 192, 48, 0, SHAPE)),
        ("gain 1/sqrt(l)", theory.build("lns", 192, 48, 0, SHAPE)),
        ("gain 0.8^l", shrinking_gain.build()),
    ):
        each = measure_adds(built)
        late = sum(add.contribution.energy for add in each[len(each) // 2 :])
        rows.append([name, late, each[-1].update_ratio.mean])
    return Outcome(
        plain_verdict(rows[0][1] > 2 * rows[1][1] and rows[1][1] > 2 * rows[2][1]),
        ["gains", "energy from the later half", "last update ratio"],
        rows,
        "With equal gains the later half writes half of what is there at the end. Gains of "
        "1/sqrt(l) leave it a sixth; a geometric gain leaves it nothing.",
    )


CLAIMS = (additive_growth, tenfold_at_a_hundred, share_of_a_block, scaled_branches, shrinking_gains)
