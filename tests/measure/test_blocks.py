"""Block Jacobians against torch.func.jacrev of the same layers in float64."""

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from normdiag.measure import block_numbers
from normdiag.measure import blocks as measured
from normdiag.measure.blocks import measure_blocks, steps
from normdiag.measure.taps import tapped
from normdiag.sources.batch import Batch
from tests.oracle import blocks as oracle
from tests.oracle.lively import enliven

LENGTH, WIDTH = 16, 24
SMALL = {"hidden_size": WIDTH, "intermediate_size": 40, "num_hidden_layers": 3, "vocab_size": 50}
HEADS = {"num_attention_heads": 2}
GROUPED = {**SMALL, **HEADS, "num_key_value_heads": 1}
T5 = {"d_model": WIDTH, "d_kv": 12, "d_ff": 40, "num_layers": 2, "num_heads": 2, "vocab_size": 50}
GPT2 = {"n_embd": WIDTH, "n_head": 2, "n_layer": 3, "vocab_size": 50, "n_positions": 32}


def ids(seed=0, length=LENGTH):
    return torch.randint(2, 50, (1, length), generator=torch.Generator().manual_seed(seed))


FAMILIES = {
    "llama": (lambda: LlamaForCausalLM(LlamaConfig(**GROUPED)), "model.layers", 3, 0),
    "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(**GPT2)), "transformer.h", 3, 0),
    "bert": (lambda: BertModel(BertConfig(**SMALL, **HEADS)), "encoder.layer", 3, 2),
    "olmo2": (lambda: Olmo2ForCausalLM(Olmo2Config(**GROUPED)), "model.layers", 3, 0),
    "gemma2": (
        lambda: Gemma2ForCausalLM(Gemma2Config(**GROUPED, head_dim=12)), "model.layers", 3, 0,
    ),
    "gpt_neox": (
        lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SMALL, **HEADS)), "gpt_neox.layers", 3, 0,
    ),
    "cohere": (lambda: CohereForCausalLM(CohereConfig(**GROUPED)), "model.layers", 3, 0),
    "t5 encoder": (lambda: T5ForConditionalGeneration(T5Config(**T5)), "encoder.block", 2, 0),
    "t5 decoder": (lambda: T5ForConditionalGeneration(T5Config(**T5)), "decoder.block", 2, 0),
}  # fmt: skip


def given(name, length=LENGTH):
    inputs = {"input_ids": ids(length=length)}
    return inputs | {"decoder_input_ids": ids(1, length)} if name.startswith("t5") else inputs


def measure(model, inputs, **settings):
    batch = Batch(inputs=inputs, rows=(0,))
    return measure_blocks(model, batch, lambda: None, settings.pop("positions", LENGTH))


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    """What was measured of a random model, and the same layers in float64."""
    build, stack, count, zeros = FAMILIES[request.param]
    torch.manual_seed(0)
    model = enliven(build(), 1)
    inputs = given(request.param)
    found, skipped = measure(model, inputs)
    assert skipped == ()
    paths = [f"{stack}.{k}" for k in range(count)]
    return found, stack, zeros, oracle.Layers(model, inputs, paths, LENGTH - 1)


def assert_like(block, jacobian, zeros):
    expected = oracle.numbers(jacobian, zeros)
    assert block.zeros == zeros
    assert abs(block.sigma_max / expected["sigma_max"] - 1) <= block.error
    if block.is_bound:
        assert block.sigma_min >= expected["sigma_min"]
        assert block.kappa <= expected["kappa"]
    else:
        assert block.sigma_min == pytest.approx(expected["sigma_min"], rel=0.01)
        assert block.kappa == pytest.approx(expected["kappa"], rel=0.01)
    if block.method == "dense":
        assert block.error < 1e-4
        assert block.mean_square == pytest.approx(expected["mean_square"], rel=1e-4)
        assert block.effective_rank == pytest.approx(expected["effective_rank"], rel=1e-3)
    else:
        assert block.error < 0.01
        off = abs(block.mean_square - expected["mean_square"])
        assert off < 6 * block.mean_square_deviation  # itself estimated from few samples


def test_layers_are_what_torch_says(family):
    found, stack, zeros, layers = family
    for k in range(len(layers.layers)):
        block = found[f"{stack}/layer#{k}"]
        assert (block.span, block.layer, block.method) == ("layer", k, "dense")
        assert (block.token.sequence, block.token.position) == (0, LENGTH - 1)
        assert_like(block, layers.jacobian(k, k + 1), zeros)


def test_the_stack_is_what_torch_says(family):
    found, stack, zeros, layers = family
    count = len(layers.layers)
    assert found[stack].span == "stack"
    assert_like(found[stack], layers.jacobian(0, count), zeros)
    gains = [found[f"{stack}/layer#{k}"].sigma_max for k in range(count)]
    assert found[stack].product == pytest.approx(np.prod(gains), rel=1e-12)


def test_distance_from_the_identity(family):
    found, stack, zeros, layers = family
    for k in range(len(layers.layers)):
        block = found[f"{stack}/layer#{k}"]
        if zeros:  # a norm on the stream: there is no skip path to be near to
            assert block.distance is None
        else:
            expected = oracle.distance(layers.jacobian(k, k + 1))
            assert block.distance == pytest.approx(expected, rel=2e-3)


def test_the_adds_of_a_llama():
    torch.manual_seed(0)
    model = enliven(FAMILIES["llama"][0](), 1)
    found, _ = measure(model, given("llama"))
    layers = oracle.Layers(model, given("llama"), ["model.layers.1"], LENGTH - 1)
    layer, x = layers.layers[0], layers.entering(0)
    keywords = layers.calls[0][1]

    def attention(x):
        return x + layer.self_attn(layer.input_layernorm(x), **keywords)[0]

    def mlp(x):
        return x + layer.mlp(layer.post_attention_layernorm(x))

    for k, (function, into) in enumerate(((attention, x), (mlp, attention(x).detach()))):
        block = found[f"model.layers.1/add#{k}"]
        assert block.span == "add"
        assert_like(block, oracle.at_token(function, into, LENGTH - 1), 0)


def test_the_adds_of_a_bert_end_behind_their_norms():
    torch.manual_seed(0)
    model = enliven(FAMILIES["bert"][0](), 1)
    found, _ = measure(model, given("bert"))
    layers = oracle.Layers(model, given("bert"), ["encoder.layer.1"], LENGTH - 1)
    layer, x = layers.layers[0], layers.entering(0)

    def attention(x):
        return layer.attention(x)[0]

    def mlp(x):
        return layer.output(layer.intermediate(x), x)

    steps = ((attention, x, "attention.output"), (mlp, attention(x).detach(), "output"))
    for function, into, module in steps:
        block = found[f"encoder.layer.1.{module}/add#0"]
        assert_like(block, oracle.at_token(function, into, LENGTH - 1), 2)


def test_padding_is_no_token():
    torch.manual_seed(0)
    model = enliven(FAMILIES["bert"][0](), 1)
    mask = torch.tensor([[1] * 5 + [0] * 3])
    inputs = {"input_ids": ids(length=8), "attention_mask": mask}
    found, _ = measure(model, inputs)
    layers = oracle.Layers(model, inputs, ["encoder.layer.0"], 4)
    block = found["encoder.layer/layer#0"]
    assert block.token.position == 4
    assert_like(block, layers.jacobian(0, 1), 2)


def test_padding_on_the_left_counts_as_positions():
    torch.manual_seed(0)
    model = enliven(FAMILIES["llama"][0](), 1)
    mask = torch.tensor([[0] * 3 + [1] * 9])
    found, _ = measure(model, {"input_ids": ids(length=12), "attention_mask": mask}, positions=4)
    assert found["model.layers"].token.position == 6


class Block(nn.Module):
    """x + a F(N(x)), the sum written in place or not."""

    def __init__(self, norm=nn.LayerNorm, in_place=False, scale=1.0):
        super().__init__()
        self.norm, self.up = norm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.in_place, self.scale = in_place, scale

    def forward(self, x):
        u = torch.tanh(self.up(self.norm(x)))
        if self.in_place:
            x += u
            return x
        return self.scale * x + u


class Post(Block):
    """N(x + F(x))."""

    def forward(self, x):
        return self.norm(self.scale * x + torch.tanh(self.up(x)))


def sequence(make, count=3):
    torch.manual_seed(0)
    return enliven(nn.Sequential(*(make() for _ in range(count))), 2)


def values(positions=5):
    return torch.randn(1, positions, WIDTH, generator=torch.Generator().manual_seed(1))


def assert_blocks(model, zeros, **settings):
    found, _ = measure(model, {"input": values()}, **settings)
    double = model.double()
    x = values().double()
    for k, layer in enumerate(double):
        if isinstance(layer, Block):
            layer.in_place = False
        block = next(b for name, b in found.items() if name.endswith(f"layer#{k}"))
        assert_like(block, oracle.at_token(layer, x, 4), zeros)
        x = layer(x).detach()
    return found


def test_adds_in_place():
    assert_blocks(sequence(lambda: Block(in_place=True)), 0)


@pytest.mark.parametrize(("norm", "zeros"), [(nn.LayerNorm, 2), (nn.RMSNorm, 1)])
def test_a_norm_on_the_stream_is_not_singular(norm, zeros):
    found = assert_blocks(sequence(lambda: Post(norm)), zeros)
    assert all(block.kappa < 1e4 for block in found.values() if block.span != "stack")


def test_gains_of_zero_count_as_zeros():
    model = sequence(lambda: Post(nn.LayerNorm))
    with torch.no_grad():
        model[1].norm.weight[:5] = 0
    found, _ = measure(model, {"input": values()})
    by_layer = [block.zeros for block in found.values() if block.span == "layer"]
    assert by_layer == [2, 5, 2]
    x = model[0](values()).detach()
    jacobian = oracle.at_token(model[1].double(), x.double(), 4)
    assert np.linalg.matrix_rank(jacobian, 1e-4) == WIDTH - 5
    assert_like(next(b for name, b in found.items() if name.endswith("layer#1")), jacobian, 5)


def test_a_scaled_skip_is_not_measured_against_the_identity():
    found = assert_blocks(sequence(lambda: Block(scale=0.5)), 0)
    assert all(block.distance is None for block in found.values())


class Projection(nn.Module):
    """x - v v'x: a direction is taken out."""

    def __init__(self):
        super().__init__()
        v = torch.nn.functional.normalize(torch.arange(1.0, WIDTH + 1), dim=0)
        self.weight = nn.Parameter(-torch.outer(v, v))

    def forward(self, x):
        return x + x @ self.weight


def test_what_rounding_hides_is_given_as_a_bound():
    found, _ = measure(nn.Sequential(Projection(), Projection()), {"input": values()})
    for block in found.values():
        assert block.is_bound
        assert 0 < block.sigma_min < 1e-5
        assert block.kappa == pytest.approx(block.sigma_max / block.sigma_min)
        assert block.sigma_max == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("name", ["llama", "bert", "gpt2", "t5 decoder"])
def test_too_wide_to_be_held(monkeypatch, name):
    monkeypatch.setattr(measured, "WIDEST", WIDTH - 1)
    build, stack, count, zeros = FAMILIES[name]
    torch.manual_seed(0)
    model = enliven(build(), 1)
    found, skipped = measure(model, given(name))
    assert skipped == ()
    layers = oracle.Layers(model, given(name), [f"{stack}.{k}" for k in range(count)], LENGTH - 1)
    assert {block.method for block in found.values()} == {"iterative"}
    for k in range(count):
        jacobian = layers.jacobian(k, k + 1)
        block = found[f"{stack}/layer#{k}"]
        assert block.is_bound
        assert_like(block, jacobian, zeros)
        if block.distance is not None:
            assert block.distance == pytest.approx(oracle.distance(jacobian), rel=2e-3)
    assert_like(found[stack], layers.jacobian(0, count), zeros)


@pytest.mark.parametrize("few", [4, 8])
def test_an_iteration_that_is_cut_short_knows_how_far_it_may_be_off(monkeypatch, few):
    monkeypatch.setattr(measured, "WIDEST", 1)
    monkeypatch.setattr(block_numbers, "STEPS", few)
    model = enliven(FAMILIES["llama"][0](), 1)
    found, _ = measure(model, given("llama"))
    layers = oracle.Layers(model, given("llama"), [f"model.layers.{k}" for k in range(3)], 15)
    for k in range(3):
        block, expected = (
            found[f"model.layers/layer#{k}"],
            oracle.numbers(layers.jacobian(k, k + 1), 0),
        )
        assert abs(block.sigma_max / expected["sigma_max"] - 1) <= block.error
        assert block.sigma_min >= expected["sigma_min"]


class Pooled(nn.Module):
    """Half of the tokens are dropped between the blocks."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, input):
        return self.blocks[1](self.blocks[0](input)[:, ::2])


class Frozen(nn.Module):
    """As code for inference is written."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    @torch.no_grad()
    def forward(self, input):
        return self.blocks(input)


def test_tokens_that_change_number_are_said():
    found, skipped = measure(Pooled().eval(), {"input": values(6)})
    (said,) = skipped
    assert "tokens change places or number" in said.why
    assert "blocks.0/add#0" in said.what
    assert "blocks.1/add#0" in found


def test_a_forward_without_autograd_is_said():
    found, skipped = measure(Frozen().eval(), {"input": values()})
    assert found == {}
    (said,) = skipped
    assert "autograd does not follow" in said.why
    assert "more" in said.what


def test_values_that_are_not_finite_are_said():
    model = sequence(Block, 2)
    with torch.no_grad():
        model[1].up.weight[0, 0] = float("nan")
    found, skipped = measure(model, {"input": values()})
    assert [name for name in found if name.endswith("layer#0")]
    (said,) = skipped
    assert "not finite" in said.why


def test_every_span_is_a_step():
    model = FAMILIES["t5 decoder"][0]().eval()
    batch = Batch(inputs=given("t5"), rows=(0,))
    with tapped(model, batch) as taps:
        expected = steps(taps.sites.architecture)
    done = []
    found, _ = measure_blocks(model, batch, lambda: done.append(1))
    assert len(done) == expected == len(found)


def test_half_precision_says_so():
    torch.manual_seed(0)
    model = enliven(FAMILIES["llama"][0](), 1)
    layers = oracle.Layers(model, given("llama"), [f"model.layers.{k}" for k in range(3)], 15)
    found, _ = measure(model.bfloat16(), given("llama"))
    for k in range(3):
        block, expected = (
            found[f"model.layers/layer#{k}"],
            oracle.numbers(layers.jacobian(k, k + 1), 0),
        )
        assert abs(block.sigma_max / expected["sigma_max"] - 1) <= block.error
        assert 0.01 < block.error < 0.5
