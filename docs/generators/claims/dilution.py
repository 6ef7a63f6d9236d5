"""The part of one block in the whole stream, and what is said to change it."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from docs.generators.claims.claim import Case, Criterion, Rows, claim
from docs.generators.claims.stacks import (
    build_theory,
    energy_shares,
    fit_slope,
    measure_adds,
    theory_adds,
)
from sample_models.pre_norm import PreNorm

DEPTHS = (6, 12, 24)
_THEORY = "the stack of `sample_models/theory.py`"
_DEPTHS = ", ".join(f"{2 * depth}" for depth in DEPTHS)


@claim(
    "The share of one block falls as 1/sqrt(L)",
    source="De and Smith 2020 (2002.10444); Liu et al. 2020 (2004.08249)",
    how=f"""`sample_models/pre_norm.py` (linear branches) and {_THEORY} with Peri-LN, width 64, L =
    {_DEPTHS} adds. Of the last add the mean `update_ratio`, and `rms.branch`^2 over the sum of all
    and of the start; their slopes in L, log to log.""",
    head=["model", "of the last block", *(f"L = {2 * depth}" for depth in DEPTHS), "slope"],
    criterion=Criterion(
        "the slope of the update ratio is within 0.15 of -1/2, that of the energy within 0.3 of -1",
        lambda rows: (
            all(abs(row[-1] + 0.5) < 0.15 for row in rows[::2])
            and all(abs(row[-1] + 1) < 0.3 for row in rows[1::2])
        ),
    ),
    conclusion="""The length of the last write over that of the stream falls as 1/sqrt(L); the share
    of the energy, its square, as 1/L. Both are called the share of a block. The slope is not quite
    reached while the embedding is a part of the stream that counts.""",
)
def share_of_a_block(case: Case) -> Rows:
    rows = []
    for name, placement in (("pre-norm, linear", None), ("Peri-LN", "peri")):
        ratios, energies = [], []
        for depth in DEPTHS:
            adds = (
                theory_adds(case, placement, depth)
                if placement
                else measure_adds(case.build(lambda depth=depth: PreNorm(2 * depth)))
            )
            ratios.append(adds[-1].update_ratio.mean)
            energies.append(energy_shares(adds)[-1])
        lengths = [2.0 * depth for depth in DEPTHS]
        rows += [
            [name, "update ratio", *ratios, fit_slope(lengths, ratios)],
            [name, "share of the energy", *energies, fit_slope(lengths, energies)],
        ]
    return rows


@claim(
    "Scaled branches or shrinking gains undo the 1/sqrt(L) dilution of late blocks",
    source="against Sun et al. 2025 (2502.05795), as it is retold",
    how=f"""{_THEORY}, width 64, L = {_DEPTHS} adds: pre-norm; its branches initialised 1/sqrt(L)
    as large; 1/sqrt(l) behind the norms of layer l. The mean `update_ratio` of the last add, and
    its slope in L, log to log.""",
    head=["model", *(f"L = {2 * depth}" for depth in DEPTHS), "slope"],
    criterion=Criterion(
        "for one of the remedies the slope is above -1/4, or the last update ratio at every depth "
        "is above that of pre-norm",
        lambda rows: any(
            row[-1] > -0.25 or all(a > b for a, b in zip(row[1:-1], rows[0][1:-1], strict=True))
            for row in rows[1:]
        ),
    ),
    conclusion="""Both keep the stream small by writing less, and the last block's share is no
    larger for it: it falls as 1/sqrt(L) or faster, from a lower start. They limit growth, and what
    the early layers' gradient loses to it; they give no late block more of the stream.""",
)
def remedies_of_dilution(case: Case) -> Rows:
    rows = []
    for name, placement in (
        ("pre-norm", "pre"),
        ("branches / sqrt(L)", "scaled-init"),
        ("gain 1/sqrt(l)", "lns"),
    ):
        stacks = [theory_adds(case, placement, depth) for depth in DEPTHS]
        ratios = [adds[-1].update_ratio.mean for adds in stacks]
        rows.append([name, *ratios, fit_slope([float(len(adds)) for adds in stacks], ratios)])
    return rows


class ScaledStack(nn.Module):
    """x <- a x + c^l s W N(x), 24 times."""

    def __init__(self, skip: float, step: float, scale: float, layers: int = 24) -> None:
        super().__init__()
        self.skip, self.scales = skip, [scale * step**layer for layer in range(layers)]
        self.norms = nn.ModuleList(nn.LayerNorm(64) for _ in range(layers))
        self.branches = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for scale, norm, branch in zip(self.scales, self.norms, self.branches, strict=True):
            x = self.skip * x + scale * branch(norm(x))
        return x


@claim(
    "Scaling the branches by a constant turns the sum from an arithmetic into a geometric one",
    source="folklore",
    how="""x <- a x + s_l W N(x), 24 adds, width 64, default weights. What the write of an add is at
    the end, a^(2(L - l)) `rms.branch`^2: its factor from one add to the next, as the geometric mean
    over all; and the squared `rms.out` of the last add over the squared `rms.skip` of the first, as
    it comes to the add.""",
    head=["a", "s_l", "factor per add", "of all writes, the later half", "growth of the variance"],
    criterion=Criterion(
        "the factor per add is more than 5 % from 1: where the scale stands on the stream or falls "
        "from block to block (with the condition), in all rows (without)",
        lambda rows: all(abs(row[2] - 1) > 0.05 for row in rows[1:]),
        "the constant stands on the stream (x <- a x + F), or the branch's scale itself shrinks by "
        "a factor per block",
        lambda rows: all(abs(row[2] - 1) > 0.05 for row in rows),
    ),
    conclusion="""With one constant on all branches every write is as large as the one before: the
    sum is as arithmetic as it was, with a smaller step. A constant on the stream multiplies each
    earlier write once more at every add, and the sum is geometric: bounded for a below 1, with the
    weight on the late writes. A scale that falls by a factor per block bounds it too, with the
    weight on the early ones.""",
)
def scaled_branches(case: Case) -> Rows:
    rows = []
    for skip, step, scale, name in (
        (1.0, 1.0, 24**-0.5, "1/sqrt(24)"),
        (1.0, 0.8, 1.0, "0.8^l"),
        (0.8, 1.0, 1.0, "1"),
    ):
        adds = measure_adds(case.build(lambda a=skip, c=step, s=scale: ScaledStack(a, c, s)))
        sizes = [add.rms for add in adds if add.rms]
        last = len(sizes) - 1
        written = [skip ** (2 * (last - i)) * each.branch**2 for i, each in enumerate(sizes)]
        late = sum(written[len(sizes) // 2 :]) / sum(written)
        factor = (written[-1] / written[0]) ** (1 / last)
        rows.append([skip, name, factor, late, (sizes[-1].out / sizes[0].skip) ** 2])
    return rows


@claim(
    "A gain that shrinks with depth takes weight from the late blocks",
    source="Sun et al. 2025 (LayerNorm scaling, 2502.05795)",
    how=f"""{_THEORY} in pre-norm, 24 layers, width 64, behind its norms: nothing, 1/sqrt(l), and
    0.8^l, for layer l. The later half of the adds, by `rms.branch`^2, of all and the start; and the
    last `update_ratio`, mean.""",
    head=["gains", "energy from the later half", "last update ratio"],
    criterion=Criterion(
        "the energy from the later half falls by more than a factor of 1.5 from row to row",
        lambda rows: all(a[1] > 1.5 * b[1] for a, b in pairwise(rows)),
    ),
    conclusion="""With equal gains the later half writes half of what is there at the end, or more.
    Gains of 1/sqrt(l) leave it a fraction of that; a geometric gain leaves it next to nothing.""",
)
def shrinking_gains(case: Case) -> Rows:
    rows = []
    model, inputs = build_theory(case, "pre", 24)
    for depth, layer in enumerate(model.layers):
        layer.attention.times = layer.network.times = 0.8**depth
    for name, adds in (
        ("1", theory_adds(case, "pre", 24)),
        ("1/sqrt(l)", theory_adds(case, "lns", 24)),
        ("0.8^l", measure_adds((model, inputs))),
    ):
        late = sum(energy_shares(adds)[len(adds) // 2 :])
        rows.append([name, late, adds[-1].update_ratio.mean])
    return rows


CLAIMS = (share_of_a_block, remedies_of_dilution, scaled_branches, shrinking_gains)
