"""What a norm does not see: scales, offsets, the mean."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import normdiag
from docs.generators.claims.claim import Outcome, claim, conditional_verdict, measure_model
from sample_models import pre_norm, theory

SCALES = (0.0001, 0.01, 0.1, 1, 10, 100)
H = 64


WEIGHT, NORM = "layers.6.network.inner.down.weight", "layers.6.network.write"


@claim(
    "LN(lambda W x) = LN(W x), and the gradient of W goes as 1/lambda",
    source="Ba et al. 2016 (1607.06450); van Laarhoven 2017 (1706.05350)",
    how=f"""the stack of `sample_models/theory.py` with norms on the branches' outputs, 12 layers,
    width 64, seed 0, epsilon 1e-5, in float64; {WEIGHT}, one of the weights that
    `invariances.scale_invariant_weights` names, times lambda. The largest change of the model's
    output over its rms; the gradient of a random projection of the output (plain autograd), its
    length times lambda over that at lambda = 1; `eps_share` of the norm behind, median over
    tokens.""",
)
def scale_free_weight() -> Outcome:
    plain, unit, _ = _measure_scaled_weight(1.0)
    rows = []
    for times in SCALES:
        output, gradient, share = _measure_scaled_weight(times)
        change = float((output - plain).abs().max() / plain.square().mean().sqrt())
        rows.append([times, change, float(times * gradient.norm() / unit.norm()), share])

    def is_free(row: list[float]) -> bool:
        return row[1] < 0.02 and abs(row[2] - 1) < 0.02

    return Outcome(
        conditional_verdict(
            "the variance of lambda W x stays far above epsilon",
            with_it=all(is_free(row) for row in rows if row[3] < 0.01),
            without=all(is_free(row) for row in rows),
        ),
        ["lambda", "change of the output", "lambda x gradient, over that at 1", "eps share"],
        rows,
        "Over several decades of lambda the output does not move and the gradient is 1/lambda "
        "times as long: the effective learning rate goes as 1/lambda^2. Where lambda^2 Var(W x) "
        "comes near epsilon, both end.",
    )


def _measure_scaled_weight(times: float) -> tuple[Tensor, Tensor, float]:
    """Output, gradient of W, and epsilon's share, with W `times` as large."""
    model, inputs = theory.build("output-norm")
    model, inputs = model.double(), inputs.double()
    weights = measure_model((model, inputs), "norms").invariances.scale_invariant_weights
    assert WEIGHT in {free.weight for free in weights if free.norm == NORM}
    weight = model.get_parameter(WEIGHT)
    with torch.no_grad():
        weight *= times
    output = model(inputs)
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad((output * direction).sum(), weight)
    share = measure_model((model, inputs), "norms").norms[NORM].eps_share.median
    return output.detach(), gradient, share


@claim(
    "Adding any constant vector to x leaves the variance, and so LayerNorm, unchanged",
    source="folklore, from the re-centring invariance of Ba et al. 2016",
    how="""the first LayerNorm of `sample_models/pre_norm.py`, width 64, seed 0; the same vector of
    length 3 sqrt(64) added to every token: a multiple of the ones vector, a random one, and a
    random one less its mean. `input_var`, median over tokens.""",
)
def constant_vector() -> Outcome:
    model, inputs = pre_norm.build(layers=1)
    vectors = {"none": torch.zeros(H), **_offset_vectors()}
    rows = []
    for name, vector in vectors.items():
        norm = measure_model((model, inputs + vector), "norms").norms["blocks.0.ln1"]
        rows.append([name, norm.input_var.median, norm.mean_energy])
    base = rows[0][1]
    return Outcome(
        conditional_verdict(
            "the vector is a multiple of the ones vector",
            with_it=abs(rows[1][1] / base - 1) < 1e-5,
            without=all(abs(row[1] / base - 1) < 1e-5 for row in rows),
        ),
        ["vector added", "variance over features", "mean energy"],
        rows,
        "The variance that LayerNorm divides by is one over features, within a token. A vector "
        "that is the same for all tokens is not the same in all features; only what it has along "
        "the ones vector goes.",
    )


def _offset_vectors() -> dict[str, Tensor]:
    """Vectors of rms 3."""
    random = torch.randn(H, generator=torch.Generator().manual_seed(1))
    vectors = {
        "3 x ones": torch.ones(H),
        "random": random,
        "random, mean 0": random - random.mean(),
    }
    return {name: 3 * v / v.square().mean().sqrt() for name, v in vectors.items()}


@claim(
    "A channel offset that all examples have in common is destroyed by the norm",
    source="folklore, from BatchNorm",
    how="""two norms, one behind the other, width 64, on 2 x 16 normal tokens with an offset of rms
    3 that is common to all: `offset_share` of what the first one reads and of what the second one
    reads. LayerNorm, RMSNorm, and BatchNorm in train mode.""",
)
def common_offset() -> Outcome:
    inputs = torch.randn(2, 16, H, generator=torch.Generator().manual_seed(0))
    rows = []
    for kind, make in (("LayerNorm", nn.LayerNorm), ("RMSNorm", nn.RMSNorm)):
        for name, vector in _offset_vectors().items():
            twice = nn.Sequential(make(H), make(H)).eval()
            shares = [
                n.offset_share
                for n in measure_model((twice, inputs + vector), "norms").norms.values()
            ]
            rows.append([kind, name, *shares])
    for name, vector in _offset_vectors().items():
        batch = nn.BatchNorm1d(H).train()((inputs + vector).flatten(0, 1)).view_as(inputs)
        one = nn.Sequential(nn.LayerNorm(H)).eval()
        before, after = (
            next(iter(measure_model((one, x), "norms").norms.values())).offset_share
            for x in (inputs + vector, batch.detach())
        )
        rows.append(["BatchNorm, training", name, before, round(after, 9)])
    return Outcome(
        conditional_verdict(
            "the norm is BatchNorm, or the offset is along the ones vector and the norm centres",
            with_it=all(
                r[3] < 0.1 for r in rows if r[0][0] == "B" or r[:2] == ["LayerNorm", "3 x ones"]
            ),
            without=all(row[3] < 0.1 for row in rows),
        ),
        ["norm", "offset", "common share before", "common share after"],
        rows,
        "LayerNorm and RMSNorm know nothing of other examples: an offset passes, and what differs "
        "between examples is made smaller beside it. (A few percent are common to 32 tokens by "
        "chance.) Centring takes the part along the ones vector, 1/H of a random offset.",
    )


@claim(
    "RMSNorm needs centred inputs",
    source="against Zhang and Sennrich 2019 (1910.07467), who drop the centring",
    how="""one LayerNorm and one RMSNorm, width 64, on 2 x 16 normal tokens, seed 0, with m times
    the ones vector added: `mean_energy` of the input, and the rms of the output less its mean over
    features. The trained checkpoint `sample_models/tiny_llama` on the built-in texts: `mean_energy`
    times H of its 17 norms, and `norm_swap`.""",
)
def centred_inputs() -> Outcome:
    inputs = torch.randn(2, 16, H, generator=torch.Generator().manual_seed(0))
    rows = []
    for mean in (0, 0.1, 1, 3, 10):
        x = inputs + mean
        seen = measure_model((nn.Sequential(nn.RMSNorm(H)).eval(), x), "norms").norms
        energy = next(iter(seen.values())).mean_energy
        signals = [_output_signal(norm(H), x) for norm in (nn.LayerNorm, nn.RMSNorm)]
        rows.append([mean, energy, H * energy, *signals])
    llama = normdiag.inspect("sample_models/tiny_llama", measure=("norms",))
    swap = llama.measurements.norm_swap
    times_chance = sorted(48 * n.mean_energy for n in llama.measurements.norms.values())
    median, largest = times_chance[8], times_chance[-1]
    return Outcome(
        conditional_verdict(
            "the mean is large beside the deviation, which it is not by chance",
            with_it=rows[-1][4] < 0.2,
            without=abs(rows[0][4] / rows[0][3] - 1) > 0.05 or median > 10,
        ),
        [
            "mean / deviation",
            "mean energy",
            "x H (chance: 1)",
            "signal from LayerNorm",
            "from RMSNorm",
        ],
        rows,
        "Without a mean over features the two norms give the same output. A mean of m deviations "
        "leaves the rest 1/sqrt(1 + m^2) of its size in RMSNorm; the model has no need to build "
        f"one, and the trained tiny_llama has {median:.2g} times the mean energy of chance at the "
        f"median norm, {largest:.2g} times at the largest. LayerNorm instead of RMSNorm at all "
        f"{swap.swapped} norms changes its last hidden state by {100 * swap.hidden_change:.2g} %, "
        f"and its loss from {swap.loss.before:.4g} to {swap.loss.after:.4g}.",
    )


@torch.no_grad()
def _output_signal(norm: nn.Module, x: Tensor) -> float:
    y = norm(x)
    return float((y - y.mean(-1, keepdim=True)).square().mean().sqrt())


CLAIMS = (scale_free_weight, constant_vector, common_offset, centred_inputs)
