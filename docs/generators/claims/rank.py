"""How many directions a norm's output has, and what gain and bias give back."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from docs.generators.claims.claim import Case, Criterion, Rows, Trial, claim
from docs.generators.claims.jacobian import extreme_singular_values

FEATURES, TRIED = (2, 4, 64), (0.0, 1e-5, 1.0)
_MANY = Trial(lengths=(80, 160, 320))
_RANK = """The rank of their matrix counts singular values above 1e-9 of the largest, in float64."""


def normalize_tokens(kind: str, x: Tensor, eps: float) -> Tensor:
    """LayerNorm or RMSNorm without gain and bias."""
    if kind == "layernorm":
        return F.layer_norm(x, x.shape[-1:], eps=eps)
    return F.rms_norm(x, x.shape[-1:], eps=eps)


def affine_rank(y: Tensor) -> int:
    """The rank of the differences of tokens."""
    return matrix_rank(y[1:] - y[:1])


def matrix_rank(y: Tensor) -> int:
    """Of (tokens, features)."""
    return int(torch.linalg.matrix_rank(y, rtol=1e-9))


def draw_affine(case: Case, features: int) -> tuple[Tensor, Tensor]:
    """A gain around 1 and a bias."""
    n = torch.randn(2, features, generator=torch.Generator().manual_seed(case.seed + 100)).double()
    return (0.3 * n[0]).exp(), n[1]


@claim(
    "LayerNorm's output has rank H - 1",
    source="Brody et al. 2023 (2305.02582), the geometry: a projection along the ones vector",
    how=f"""the outputs of LayerNorm and RMSNorm at normal tokens of H features, more tokens than
    features, at epsilon {", ".join(f"{eps:g}" for eps in TRIED)}; and with a random gain and bias,
    the rank of the differences of tokens (affine rank). {_RANK} Beside it the median `rank` of
    `normdiag.numerics.norm_jacobian` at epsilon 0.""",
    head=[
        "H",
        "norm",
        *(f"rank, epsilon {eps:g}" for eps in TRIED),
        "affine rank, gain and bias",
        "Jacobian's rank, epsilon 0",
    ],
    criterion=Criterion(
        "the rank of LayerNorm's output is H - 1 at every epsilon, and so is the affine rank with "
        "gain and bias",
        lambda rows: all(_has_rank_below(row) for row in rows if row[1] == "layernorm"),
    ),
    conclusion="""All outputs are orthogonal to the ones vector, whatever epsilon is (those of
    RMSNorm are not), and gain and bias turn and shift that hyperplane without adding to it. Of 768
    features one is nothing; of 4 it is a quarter. What a single token can change is less still: at
    epsilon 0 the length is fixed too, and the Jacobian has rank H - 2 (RMSNorm H - 1). Over 2
    features nothing but a sign is left.""",
    trial=_MANY,
)
def rank_of_a_norm(case: Case) -> Rows:
    rows = []
    for features in FEATURES:
        x = case.draw_normal(case.tokens, features).double()
        gain, bias = draw_affine(case, features)
        for kind in ("layernorm", "rmsnorm"):
            ranks = [matrix_rank(normalize_tokens(kind, x, eps)) for eps in TRIED]
            affine = affine_rank(gain * normalize_tokens(kind, x, 1e-5) + bias)
            jacobian = extreme_singular_values(kind, x, 0.0).rank.median()
            rows.append([features, kind, *ranks, affine, int(jacobian)])
    return rows


def _has_rank_below(row: list[int]) -> bool:
    return all(rank == row[0] - 1 for rank in row[2:6])


@claim(
    "Gain and bias give back the direction that LayerNorm removes",
    source="against Ba et al. 2016 (1607.06450), gain and bias as restoring what the norm loses",
    how=f"""LayerNorm (epsilon 1e-5) at normal tokens of 64 features, each with an offset of its own
    along the ones vector, standard deviation 3, with gain and bias: without, with a random gain,
    and with both. `mean energy`: the share of the output along the ones vector; of that share, what
    is the same for all tokens; the correlation of the output's mean with the offset that was
    removed, its absolute value; the share of the
    differences of tokens along the vector 1/gain; and the affine rank. {_RANK}""",
    head=[
        "norm",
        "mean energy x H",
        "share of it common to all",
        "correlation",
        "along 1/gain",
        "affine rank",
    ],
    criterion=Criterion(
        "with gain and bias the output's mean correlates with the removed offset by more than 0.9 "
        "and the affine rank is H",
        lambda rows: all(row[3] > 0.9 and row[5] == 64 for row in rows[1:]),
    ),
    conclusion="""They give back a direction, not what was in it. A bias adds the same vector to all
    tokens; a gain turns what is there into the ones direction, so that another fixed direction,
    1/gain, is missing. Nothing of the removed mean returns, and the rank is H - 1 as before.""",
    trial=_MANY,
)
def gain_and_bias(case: Case) -> Rows:
    n = case.draw_normal(case.tokens, 65).double()
    offset = 3 * n[:, :1]
    x = n[:, 1:] + offset
    gain, bias = draw_affine(case, 64)
    normal = normalize_tokens("layernorm", x, 1e-5)
    rows = []
    for name, y, missing in (
        ("none", normal, torch.ones_like(gain)),
        ("gain", gain * normal, 1 / gain),
        ("gain and bias", gain * normal + bias, 1 / gain),
    ):
        means = y.mean(-1)
        energy = float(64 * 64 * means.square().sum() / y.square().sum())
        common = float(means.mean().square() / means.square().mean()) if energy > 1e-9 else 0.0
        pair = torch.stack([means, offset[:, 0]])
        correlation = abs(float(torch.corrcoef(pair)[0, 1])) if energy > 1e-9 else 0.0
        differences = y - y.mean(0)
        along = float((differences @ missing).norm() / differences.norm() / missing.norm())
        rows.append([name, round(energy, 9), common, correlation, round(along, 9), affine_rank(y)])
    return rows


CLAIMS = (rank_of_a_norm, gain_and_bias)
