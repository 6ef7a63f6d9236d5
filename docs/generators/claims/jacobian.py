"""The Jacobian of a norm: directions, size, rank."""

from __future__ import annotations

import torch

from docs.generators.claims.claim import (
    Outcome,
    claim,
    conditional_verdict,
    measure_model,
    plain_verdict,
)
from normdiag.numerics.norm_jacobian import SingularExtremes, prepare_norm_spectrum
from sample_models import cancelling_add, pre_norm

EPS = 1e-5
SCALES = (1000, 1, 0.1, 0.01, 0.001, 0)


@claim(
    "A norm's Jacobian removes x's direction, goes as 1/sigma, and is bounded by 1/sqrt(eps)",
    source="Xiong et al. 2020, lemma 3; Xu et al. 2019 (1911.07013)",
    how=f"""one LayerNorm of `sample_models/pre_norm.py` (width 64, gain 1, epsilon {EPS:g}), seed
    0, inputs times 1000 to 0. `input_var`, `jacobian.sigma_max`, `jacobian.radial` and `eps_share`:
    medians over 16 tokens.""",
)
def one_over_sigma() -> Outcome:
    model, inputs = pre_norm.build(layers=1)
    rows, bound = [], EPS**-0.5
    for scale in SCALES:
        norm = measure_model((model, scale * inputs), "norms", "jacobians").norms["blocks.0.ln1"]
        sigma, slope = norm.input_var.median**0.5, norm.jacobian.sigma_max.median
        radial = norm.jacobian.radial.median / slope
        rows.append([sigma, slope, slope * sigma, slope / bound, radial, norm.eps_share.median])
    large = [row for row in rows if row[5] < 1e-4]
    return Outcome(
        conditional_verdict(
            "epsilon is small beside the variance; the bound holds always",
            with_it=all(abs(row[2] - 1) < 0.05 and row[4] < 1e-4 for row in large)
            and all(row[3] <= 1 + 1e-9 for row in rows),
            without=all(abs(row[2] - 1) < 0.05 and row[4] < 1e-4 for row in rows),
        ),
        [
            "sigma of x",
            "sigma_max",
            "times sigma",
            "over the bound",
            "radial / sigma_max",
            "eps share",
        ],
        rows,
        "The value along x is epsilon's share of the others: nearly nothing, until sigma^2 comes "
        "near epsilon. There the norm stops normalising, and at a constant input it is the linear "
        "map (I - uu')/sqrt(eps), x's direction included. The bound holds throughout, times the "
        "largest gain.",
    )


@claim(
    "A residual sum that cancels makes the Jacobian ill-conditioned",
    source="folklore",
    how="""`sample_models/cancelling_add.py`: block 6 of 12 subtracts nearly all of the stream
    (width 64, seed 0). `jacobian` of each block's norm, medians over 16 tokens, and `blocks` of its
    add at one token.""",
)
def cancelling_sum() -> Outcome:
    measurements = measure_model(cancelling_add.build(), "stream", "norms", "jacobians")
    rows = []
    for block in (4, 5, 6, 7, 8):
        norm, span = (
            measurements.norms[f"blocks.{block}.ln1"],
            measurements.blocks[f"blocks.{block}/add#0"],
        )
        size = measurements.stream[f"blocks.{block}/add#0"].out_ratio.median
        jacobian = norm.jacobian
        rows.append([block, size, jacobian.sigma_max.median, jacobian.kappa.max, span.kappa])
    before, behind = rows[1], rows[3]
    return Outcome(
        conditional_verdict(
            "the Jacobian is that of the block: the norm's own is larger, not worse conditioned",
            with_it=behind[4] > 50 * before[4],
            without=behind[3] > 2,
        ),
        [
            "block",
            "size after / before",
            "sigma_max of its norm",
            "kappa of its norm",
            "kappa of the block",
        ],
        rows,
        "What is left of the cancelled sum is small, so the next norm's Jacobian is large, alike "
        "in all directions that it keeps: kappa stays 1. In the block behind, what the branch "
        "adds is now many times the skip path, and where they cancel little is left: the smallest "
        "singular value falls, and kappa rises a hundredfold and more.",
    )


def extreme_singular_values(
    kind: str, features: int, eps: float, gain: torch.Tensor | None = None
) -> SingularExtremes:
    """Of 64 tokens of normal numbers."""
    x = torch.randn(64, features, generator=torch.Generator().manual_seed(0))
    return prepare_norm_spectrum(gain, kind=kind, features=features, eps=eps).singular_extremes(x)  # type: ignore[arg-type]


@claim(
    "LayerNorm has rank H - 1",
    source="Brody et al. 2023 (2305.02582), the geometry: a projection along the ones vector",
    how=f"""`normdiag.numerics.norm_jacobian` at 64 tokens of normal numbers, seed 0, gain 1: `rank`
    (medians) at epsilon 0 and {EPS:g}, and `frobenius`^2 s^2 / H, the share of a random change that
    passes.""",
)
def rank_of_a_norm() -> Outcome:
    rows = []
    for features in (4, 64, 768, 4096):
        for kind in ("layernorm", "rmsnorm"):
            with_eps, without = (
                extreme_singular_values(kind, features, EPS),
                extreme_singular_values(kind, features, 0.0),
            )
            passes = (without.frobenius / without.sigma_max).square().median() / features
            ranks = [int(spectrum.rank.median()) for spectrum in (with_eps, without)]
            rows.append([features, kind, *ranks, float(passes)])
    return Outcome(
        conditional_verdict(
            "epsilon is not 0, and then x's own direction hardly passes",
            with_it=all(row[2] == row[0] - 1 for row in rows if row[1] == "layernorm"),
            without=all(row[3] == row[0] - 1 for row in rows if row[1] == "layernorm"),
        ),
        ["H", "norm", "rank, epsilon 1e-5", "rank, epsilon 0", "share that passes"],
        rows,
        "LayerNorm takes away the mean, and the size along x as good as wholly: H - 2 directions "
        "are left. Of 768 features that is nothing; of 4 it is half of all there is to say, and "
        "of 2 it is all, so that a norm over few features (small groups, narrow heads) is a loss. "
        "RMSNorm loses one.",
    )


@claim(
    "The learned gain breaks the norm's scale invariance",
    source="folklore",
    how=f"""`normdiag.numerics.norm_jacobian` at 64 tokens of 256 normal numbers, seed 0: `radial`
    over `sigma_max`, the largest over tokens. By Euler's theorem, N(tx) = N(x) for all t where J x
    = 0, so where the radial value is 0. Epsilon 0 and {EPS:g}.""",
)
def gain_and_scale() -> Outcome:
    draws = torch.Generator().manual_seed(1)
    normal = torch.randn(256, generator=draws)
    gains = {
        "1": torch.ones(256),
        "exp(0.3 n)": (0.3 * normal).exp(),
        "n, of both signs": normal,
        "10^(2 n)": 10 ** (2 * normal),
    }
    rows = []
    for name, gain in gains.items():
        for kind in ("layernorm", "rmsnorm"):
            spectra = [extreme_singular_values(kind, 256, eps, gain) for eps in (0.0, EPS)]
            rows.append([name, kind, *(float((f.radial / f.sigma_max).max()) for f in spectra)])
    return Outcome(
        plain_verdict(any(row[2] > 0 for row in rows)),
        ["gain", "norm", "radial / sigma_max, epsilon 0", "the same, epsilon 1e-5"],
        rows,
        "At epsilon 0 the radial value is 0 for every gain: gamma stands outside what x is "
        "divided by, and multiplies a value that no longer depends on the size of x. What breaks "
        "scale invariance is epsilon, as far as its share goes.",
    )


CLAIMS = (one_over_sigma, cancelling_sum, rank_of_a_norm, gain_and_scale)
