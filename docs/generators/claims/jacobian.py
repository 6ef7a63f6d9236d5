"""The Jacobian of a norm: directions, size, conditioning."""

from __future__ import annotations

import torch

from docs.generators.claims.claim import Case, Criterion, Rows, claim, measure_model
from normdiag.numerics.norm_jacobian import SingularExtremes, prepare_norm_spectrum
from sample_models.cancelling_add import CancellingAdd
from sample_models.pre_norm import PreNorm

EPS = 1e-5
SCALES = (1000, 1, 0.01, 0.001, 0)
LAMBDAS = (0.001, 0.1, 1, 10, 1000)


@claim(
    "A norm's Jacobian removes x's direction, goes as 1/sigma, and is bounded by 1/sqrt(eps)",
    source="Xiong et al. 2020, lemma 3; Xu et al. 2019 (1911.07013)",
    how=f"""one LayerNorm of `sample_models/pre_norm.py` (width 64, gain 1, epsilon {EPS:g}), inputs
    times 1000 to 0. `input_var`, `jacobian.sigma_max`, `jacobian.radial` and `eps_share`: medians
    over tokens.""",
    head=[
        "input times",
        "sigma of x",
        "sigma_max times sigma",
        "sigma_max over the bound",
        "radial / sigma_max",
        "eps share",
    ],
    criterion=Criterion(
        "sigma_max is within 5 % of 1/sigma and the radial value below 1e-4 of it: where epsilon's "
        "share is below 1e-4 (with the condition), in all rows (without); and sigma_max is at most "
        "1/sqrt(eps) in all rows",
        lambda rows: (
            all(_is_projection(row) for row in rows if row[5] < 1e-4)
            and all(row[3] <= 1 + 1e-6 for row in rows)
        ),
        "epsilon is small beside the variance; the bound holds always",
        lambda rows: all(_is_projection(row) for row in rows),
    ),
    conclusion="""The value along x is epsilon's share of the others: nearly nothing, until sigma^2
    comes near epsilon. There the norm stops normalising, and at a constant input it is the linear
    map (I - uu')/sqrt(eps), x's direction included. The bound holds throughout, times the largest
    gain.""",
)
def one_over_sigma(case: Case) -> Rows:
    model, inputs = case.build(lambda: PreNorm(1))
    rows = []
    for scale in SCALES:
        norm = measure_model((model, scale * inputs), "norm-jacobians").norms["blocks.0.ln1"]
        assert norm.jacobian is not None
        sigma, slope = norm.input_var.median**0.5, norm.jacobian.sigma_max.median
        radial = norm.jacobian.radial.median / slope
        rows.append([scale, sigma, slope * sigma, slope * EPS**0.5, radial, norm.eps_share.median])
    return rows


def _is_projection(row: list[float]) -> bool:
    return abs(row[2] - 1) < 0.05 and row[4] < 1e-4


@claim(
    "The Jacobian of RMSNorm at lambda x is 1/lambda times that at x",
    source="Zhang and Sennrich 2019 (1910.07467), section 4.1",
    how="""`normdiag.numerics.norm_jacobian` of RMSNorm and LayerNorm at normal tokens of 64
    features, gain 1, times lambda: the median `sigma_max`, times lambda, over that at lambda = 1;
    epsilon's share of the mean square, median.""",
    head=["norm", "lambda", "lambda sigma_max, over that at 1", "eps share"],
    criterion=Criterion(
        "lambda sigma_max is within 1 % of its value at 1: where epsilon's share is below 1e-2 "
        "(with the condition), in all rows (without)",
        lambda rows: all(abs(row[2] - 1) < 0.01 for row in rows if row[3] < 1e-2),
        "the mean square of lambda x stays far above epsilon",
        lambda rows: all(abs(row[2] - 1) < 0.01 for row in rows),
    ),
    conclusion="""The output does not follow the input's size, so what a change of x does to it is
    relative to that size: a large stream makes the norm's Jacobian small, by the same factor, for
    RMSNorm as for LayerNorm. Where epsilon is no small part of the mean square, it is less.""",
)
def inverse_scale(case: Case) -> Rows:
    x = case.draw_normal(case.tokens, 64).double()
    rows = []
    for kind in ("rmsnorm", "layernorm"):
        unit = float(extreme_singular_values(kind, x, EPS).sigma_max.median())
        for times in LAMBDAS:
            slope = float(extreme_singular_values(kind, times * x, EPS).sigma_max.median())
            share = float((EPS / ((times * x).square().mean(-1) + EPS)).median())
            rows.append([kind, times, times * slope / unit, share])
    return rows


def extreme_singular_values(
    kind: str, x: torch.Tensor, eps: float, gain: torch.Tensor | None = None
) -> SingularExtremes:
    """Of the norm's Jacobian at each token of x."""
    spectrum = prepare_norm_spectrum(gain, kind=kind, features=x.shape[-1], eps=eps)  # type: ignore[arg-type]
    return spectrum.singular_extremes(x)


@claim(
    "A residual sum that cancels makes the Jacobian ill-conditioned",
    source="folklore",
    how="""`sample_models/cancelling_add.py`: block 6 of 12 subtracts nearly all of the stream
    (width 64). `out_ratio` of the add, `jacobian.sigma_max` (median) and `jacobian.kappa` (largest)
    of each block's norm, and `kappa` of its add in `blocks`.""",
    head=["block", "size after / before", "sigma_max of its norm", "kappa of its norm", "of block"],
    criterion=Criterion(
        "behind the cancelling add kappa is more than 20 times that in front of it: of the block "
        "(with the condition), of the norm (without)",
        lambda rows: rows[2][4] > 20 * rows[0][4],
        "the Jacobian is that of the block: the norm's own is larger, not worse conditioned",
        lambda rows: rows[2][3] > 20 * rows[0][3],
    ),
    conclusion="""What is left of the cancelled sum is small, so the next norm's Jacobian is large,
    alike in all directions that it keeps: kappa stays 1. In the block behind, what the branch adds
    is now many times the skip path, and where they cancel little is left: the smallest singular
    value falls, and kappa rises.""",
)
def cancelling_sum(case: Case) -> Rows:
    built = case.build(CancellingAdd)
    measurements = measure_model(built, "stream-adds", "norm-jacobians", "block-jacobians")
    rows = []
    for block in (5, 6, 7, 8):
        add = f"blocks.{block}/add#0"
        jacobian = measurements.norms[f"blocks.{block}.ln1"].jacobian
        size = measurements.stream[add].out_ratio
        assert jacobian is not None and size is not None
        kappas = (jacobian.kappa.max, measurements.blocks[add].kappa)
        rows.append([block, size.median, jacobian.sigma_max.median, *kappas])
    return rows


@claim(
    "The learned gain breaks the norm's scale invariance",
    source="folklore",
    how=f"""`normdiag.numerics.norm_jacobian` at normal tokens of 256 features, for gains of normal
    numbers n: `radial` over `sigma_max`, the largest over tokens. By Euler's theorem, N(tx) = N(x)
    for all t where J x = 0, so where the radial value is 0. Epsilon 0 and {EPS:g}.""",
    head=["gain", "norm", "radial / sigma_max, epsilon 0", "the same, epsilon 1e-5"],
    criterion=Criterion(
        "with some gain the radial value at epsilon 0 exceeds 1e-12 of the largest",
        lambda rows: any(row[2] > 1e-12 for row in rows),
    ),
    conclusion="""At epsilon 0 the radial value is 0 for every gain: gamma stands outside what x is
    divided by, and multiplies a value that no longer depends on the size of x. What breaks scale
    invariance is epsilon, as far as its share goes.""",
)
def gain_and_scale(case: Case) -> Rows:
    x = case.draw_normal(case.tokens, 256)
    normal = torch.randn(256, generator=torch.Generator().manual_seed(case.seed + 100))
    gains = {
        "1": torch.ones(256),
        "exp(0.3 n)": (0.3 * normal).exp(),
        "n, of both signs": normal,
        "10^(2 n)": 10 ** (2 * normal),
    }
    rows = []
    for name, gain in gains.items():
        for kind in ("layernorm", "rmsnorm"):
            spectra = [extreme_singular_values(kind, x, eps, gain) for eps in (0.0, EPS)]
            rows.append([name, kind, *(float((f.radial / f.sigma_max).max()) for f in spectra)])
    return rows


CLAIMS = (one_over_sigma, inverse_scale, cancelling_sum, gain_and_scale)
