"""What a norm does not see of its input: offsets, the mean."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

import normdiag
from docs.generators.claims.claim import Case, Criterion, Rows, claim, measure_model
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.norm_inputs import NormMeasurement

H = 64
LLAMA = Path(__file__).parents[3] / "sample_models" / "tiny_llama"


def first_norm(norm: nn.Module, x: Tensor) -> NormMeasurement:
    """The inputs of one norm."""
    built = nn.Sequential(norm).eval(), x
    return next(iter(measure_model(built, "norm-inputs").norms.values()))


def offset_vectors(case: Case) -> dict[str, Tensor]:
    """Vectors of rms 3."""
    random = torch.randn(H, generator=torch.Generator().manual_seed(case.seed + 100))
    vectors = {
        "3 x ones": torch.ones(H),
        "random": random,
        "random, mean 0": random - random.mean(),
    }
    return {name: 3 * v / v.square().mean().sqrt() for name, v in vectors.items()}


@claim(
    "Adding any constant vector to x leaves the variance, and so LayerNorm, unchanged",
    source="folklore, from the re-centring invariance of Ba et al. 2016",
    how="""a LayerNorm of 64 features on 2 sequences of normal tokens; the same vector of length 3
    sqrt(64) added to every token: a multiple of the ones vector, a random one, and a random one
    less its mean. `input_var`, median over tokens.""",
    head=["vector added", "variance over features", "over that without", "mean energy"],
    criterion=Criterion(
        "the variance is within 1e-4 of what it was: for the multiple of the ones vector (with the "
        "condition), for all vectors (without)",
        lambda rows: abs(rows[1][2] - 1) < 1e-4,
        "the vector is a multiple of the ones vector",
        lambda rows: all(abs(row[2] - 1) < 1e-4 for row in rows),
    ),
    conclusion="""The variance that LayerNorm divides by is one over features, within a token. A
    vector that is the same for all tokens is not the same in all features; only what it has along
    the ones vector goes.""",
)
def constant_vector(case: Case) -> Rows:
    inputs = case.draw_normal(2, case.tokens, H)
    rows = []
    base = first_norm(nn.LayerNorm(H), inputs).input_var.median
    for name, vector in ({"none": torch.zeros(H)} | offset_vectors(case)).items():
        norm = first_norm(nn.LayerNorm(H), inputs + vector)
        variance = norm.input_var.median
        rows.append([name, variance, variance / base, norm.mean_energy])
    return rows


@claim(
    "A channel offset that all examples have in common is destroyed by the norm",
    source="folklore, from BatchNorm",
    how="""LayerNorm, RMSNorm and BatchNorm in train mode, 64 features, on 2 sequences of normal
    tokens with an offset of rms 3 that is common to all: `offset_share` of what a norm reads,
    before and after.""",
    head=["norm", "offset", "common share before", "common share after"],
    criterion=Criterion(
        "the common share falls below a fifth: for BatchNorm and for LayerNorm with the ones "
        "vector (with the condition), in all rows (without)",
        lambda rows: all(row[3] < 0.2 for row in rows if row[0][0] == "B" or row[:2] == _CENTRED),
        "the norm is BatchNorm, or the offset is along the ones vector and the norm centres",
        lambda rows: all(row[3] < 0.2 for row in rows),
    ),
    conclusion="""LayerNorm and RMSNorm know nothing of other examples: an offset passes, and what
    differs between examples is made smaller beside it. (A few percent are common to a few tokens by
    chance.) Centring takes the part along the ones vector, 1/H of a random offset.""",
)
@torch.no_grad()
def common_offset(case: Case) -> Rows:
    inputs = case.draw_normal(2, case.tokens, H)
    rows = []
    for kind, norm in (
        ("LayerNorm", nn.LayerNorm(H)),
        ("RMSNorm", nn.RMSNorm(H)),
        ("BatchNorm, training", nn.BatchNorm1d(H).train()),
    ):
        for name, vector in offset_vectors(case).items():
            x = inputs + vector
            y = norm(x.flatten(0, 1)).view_as(x)
            shares = [first_norm(nn.LayerNorm(H), each).offset_share for each in (x, y)]
            rows.append([kind, name, *(round(share or 0.0, 9) for share in shares)])
    return rows


_CENTRED = ["LayerNorm", "3 x ones"]


@cache
def inspect_llama() -> Measurements:
    """The trained checkpoint on the built-in texts."""
    return normdiag.inspect(str(LLAMA), measure=("norms",)).measurements


@claim(
    "RMSNorm needs centred inputs",
    source="against Zhang and Sennrich 2019 (1910.07467), who drop the centring",
    how="""RMSNorm of 64 features on 2 sequences of normal tokens, with m times the ones vector
    added: `mean_energy` of the input times H, and the change of the output, over its size, where
    LayerNorm takes its place. The trained checkpoint `sample_models/tiny_llama` on the built-in
    texts, one run: `mean_energy` times H of its norms, the median and the largest, and
    `norm_swap.hidden_change` with all of them swapped.""",
    head=["input", "mean energy x H (chance: 1)", "change with LayerNorm instead"],
    criterion=Criterion(
        "the output changes by more than 50 %: with a mean of 3 deviations (with the condition), "
        "and with none, and in the trained model (without)",
        lambda rows: rows[2][2] > 0.5,
        "the mean is large beside the deviation, which it is not by chance",
        lambda rows: rows[0][2] > 0.5 and rows[-1][2] > 0.5,
    ),
    conclusion="""Without a mean over features the two norms give nearly the same output. A mean of
    m deviations leaves the rest 1/sqrt(1 + m^2) of its size in RMSNorm; the model has no need to
    build one, and the trained one has no more mean energy than chance. Nearly the same at each norm
    is not the same behind all of them: see the last row.""",
)
@torch.no_grad()
def centred_inputs(case: Case) -> Rows:
    inputs = case.draw_normal(2, case.tokens, H)
    rows = []
    for mean in (0, 1, 3):
        x = inputs + mean
        layer, rms = nn.LayerNorm(H)(x), nn.RMSNorm(H)(x)
        energy = H * first_norm(nn.RMSNorm(H), x).mean_energy
        rows.append(
            [f"mean of {mean} deviations", energy, float((layer - rms).norm() / rms.norm())]
        )
    llama = inspect_llama()
    (centring,) = llama.invariances.centring if llama.invariances else ()
    swap = llama.norm_swap
    assert swap is not None and swap.hidden_change is not None
    rows.append(["tiny_llama, median norm", centring.median, swap.hidden_change])
    rows.append(["tiny_llama, largest", centring.max, swap.hidden_change])
    return rows


CLAIMS = (constant_vector, common_offset, centred_inputs)
