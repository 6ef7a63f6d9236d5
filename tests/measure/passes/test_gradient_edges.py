"""Gradient edges at the stream's values: derivatives against torch.func."""

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import RowSampling, run_forward
from normdiag.measure.passes.gradient_edges import record_gradient_edges
from normdiag.measure.passes.site_observer import MeasuredQuantities
from tests.test_untouched import changes, lived_in, state  # noqa: F401  (lived_in: a fixture)

WIDTH = 6


class Block(nn.Module):
    """x + F(N(x)), the sum written in place or not."""

    def __init__(self, in_place=False):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, WIDTH)
        self.in_place = in_place

    def forward(self, x):
        u = torch.tanh(self.up(self.norm(x)))
        if self.in_place:
            x += u
            return x
        return x + u


class PostBlock(Block):
    """N(x + F(x))."""

    def forward(self, x):
        return self.norm(x + torch.tanh(self.up(x)))


class TwoBranches(Block):
    """x + F(N(x)) + G(N(x))."""

    def __init__(self):
        super().__init__()
        self.other = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        z = self.norm(x)
        return x + torch.tanh(self.up(z)) + torch.tanh(self.other(z))


class Cast(Block):
    """The skip operand is a view and a copy in another precision, times a constant."""

    def forward(self, x):
        skip = 0.5 * x.reshape(-1, WIDTH).float()
        return (skip + torch.tanh(self.up(self.norm(x))).reshape(-1, WIDTH)).reshape(x.shape)


class Written(nn.Module):
    """Custom code: one norm and two adds, no module for any of them."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(WIDTH, WIDTH) / 3)

    def forward(self, x):
        for _ in range(2):
            z = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
            x = x + torch.sin(z @ self.w)
        return x


class Frozen(Block):
    """As code for inference is written."""

    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


def stack_blocks(*blocks):
    torch.manual_seed(0)
    return nn.Sequential(*(block() for block in blocks)).eval()


def example_input(seed=1):
    return torch.randn(1, 3, WIDTH, generator=torch.Generator().manual_seed(seed))


def jacobian_between(out, into, shape=(1, 3, WIDTH)):
    size = 3 * WIDTH
    basis = torch.eye(size).reshape(size, *shape)
    rows = torch.autograd.grad(out, into, basis, is_grads_batched=True, retain_graph=True)[0]
    return rows.reshape(size, size)


def jacobian(function, x):
    return torch.func.jacrev(function)(x).reshape(x.numel(), x.numel())


def without_in_place(block):
    """torch.func cannot differentiate what was written in place."""
    block.in_place = False
    return block


@pytest.mark.parametrize(
    "block",
    [Block, lambda: Block(in_place=True), PostBlock, TwoBranches, Cast],
    ids=["pre", "in place", "post", "two branches", "cast skip"],
)
def test_the_derivative_between_two_adds_is_that_of_the_block(block):
    model = stack_blocks(block, block, block)
    with record_gradient_edges(model, Batch(args=(example_input(),))) as edges:
        first, second, _ = edges.adds.values()
        measured = jacobian_between(second.skip, first.skip, second.skip_shape)
        for parameter in model.parameters():
            assert parameter.grad is None
    expected = jacobian(without_in_place(model[0]), example_input())
    assert torch.allclose(measured, expected, atol=1e-6)


def test_an_add_that_is_the_output_has_its_edge():
    model = stack_blocks(Block, lambda: Block(in_place=True))
    with record_gradient_edges(model, Batch(args=(example_input(),))) as edges:
        last = list(edges.adds.values())[-1]
        measured = jacobian_between(last.out, last.skip)
    x = model[0](example_input()).detach()
    assert torch.allclose(measured, jacobian(without_in_place(model[1]), x), atol=1e-6)


def test_skip_and_branches_make_the_sum():
    model = stack_blocks(TwoBranches, TwoBranches)
    with record_gradient_edges(model, Batch(args=(example_input(),))) as edges:
        add = list(edges.adds.values())[-1]
        assert len(add.branches) == 2
        identity = torch.eye(3 * WIDTH)
        for branch in add.branches:
            assert torch.equal(jacobian_between(add.out, branch), identity)
        parts = sum(jacobian_between(branch, add.skip) for branch in add.branches)
        assert torch.allclose(jacobian_between(add.out, add.skip), identity + parts, atol=1e-6)


def test_custom_code_has_edges_at_its_norms():
    model = stack_blocks(Written)
    with record_gradient_edges(model, Batch(args=(example_input(),))) as edges:
        norm = list(edges.norms.values())[1]
        measured = jacobian_between(norm.output, norm.input)
        assert len(edges.adds) == 2
    x = example_input()
    with torch.no_grad():
        z = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        x = x + torch.sin(z @ model[0].w)
    expected = jacobian(lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), x)
    assert torch.allclose(measured, expected, atol=1e-5)


def test_it_can_be_differentiated_twice():
    model = stack_blocks(Block, Block)
    with record_gradient_edges(model, Batch(args=(example_input(),))) as edges:
        add = list(edges.adds.values())[-1]
        w = torch.zeros(add.shape, requires_grad=True)
        pulled = torch.autograd.grad(add.out, add.skip, w, create_graph=True)[0]
        pushed = torch.autograd.grad(pulled, w, example_input(2), retain_graph=True)[0]
        expected = jacobian_between(add.out, add.skip) @ example_input(2).flatten()
    assert torch.allclose(pushed.flatten(), expected, atol=1e-6)


def test_a_model_that_learns_nothing():
    model = stack_blocks(Block, Block).requires_grad_(False)
    with record_gradient_edges(model, Batch(args=(example_input(),))) as edges:
        assert all(add.skip and add.out for add in edges.adds.values())
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_a_forward_without_autograd_has_no_edges():
    with record_gradient_edges(
        stack_blocks(Frozen, Frozen), Batch(args=(example_input(),))
    ) as edges:
        assert len(edges.adds) == 2
        assert all(add.branches == (None,) and add.out is None for add in edges.adds.values())


def test_the_caller_in_inference_mode():
    model = stack_blocks(Block, Block)
    with torch.inference_mode():
        batch = Batch(args=(example_input(),))
        with record_gradient_edges(model, batch) as edges:
            assert all(add.skip and add.out for add in edges.adds.values())
        assert torch.is_inference_mode_enabled()


def small_models():
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 40}
    heads = {"num_attention_heads": 2}
    return (
        LlamaForCausalLM(LlamaConfig(**small, **heads, num_key_value_heads=1)),
        BertModel(BertConfig(**small, **heads)),
        LlamaForCausalLM(LlamaConfig(**small, **heads, attn_implementation="eager")),
    )


@pytest.mark.parametrize("model", small_models(), ids=["llama", "bert", "eager"])
def test_sites_are_those_of_the_main_pass(model):
    batch = Batch(inputs={"input_ids": torch.arange(8)[None]}, rows=(0,))
    main = run_forward(model, batch, MeasuredQuantities(), RowSampling())
    with record_gradient_edges(model, batch) as edges:
        assert list(edges.sites.architecture.stacks) == list(main.sites.architecture.stacks)
        assert list(edges.adds) == list(main.sites.adds.values())
        assert list(edges.norms) == list(main.sites.norms.values())


def test_the_padding_is_known():
    model = small_models()[0]
    mask = torch.tensor([[1, 1, 1, 0, 0]])
    batch = Batch(inputs={"input_ids": torch.arange(5)[None], "attention_mask": mask})
    with record_gradient_edges(model, batch) as edges:
        assert all(add.tokens.valid.tolist() == [0, 1, 2] for add in edges.adds.values())


def test_everything_is_left_as_it_was(lived_in):  # noqa: F811
    model, inputs = lived_in
    before = state(model)
    with record_gradient_edges(model, Batch(inputs=inputs)) as edges:
        add = list(edges.adds.values())[-1]
        torch.autograd.grad(add.out, add.skip, torch.ones(add.shape))
    assert changes(before, state(model)) == []


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt])
def test_an_error_in_forward_leaves_everything_as_it_was(lived_in, raised):  # noqa: F811
    model, inputs = lived_in

    def fail(module, args):
        raise raised("in the middle")

    last = [module for module in model.modules() if not list(module.children())][-1]
    last.register_forward_pre_hook(fail)
    before = state(model)
    expected = RunError if raised is ValueError else raised
    with (
        pytest.raises(expected, match="in the middle"),
        record_gradient_edges(model, Batch(inputs=inputs)),
    ):
        pass
    assert changes(before, state(model)) == []


class PostRMS(PostBlock):
    """A norm whose gain is a product of its own; the next skip operand is what comes out of it."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        nn.init.uniform_(self.norm.weight, 0.5, 2.0)


def test_the_gain_of_a_norm_on_the_stream_is_no_skip_scale():
    model = stack_blocks(PostRMS, PostRMS)
    with record_gradient_edges(model, Batch(args=(example_input(),))) as edges:
        first, second = edges.adds.values()
        measured = jacobian_between(second.skip, first.skip)
    assert torch.allclose(measured, jacobian(model[0], example_input()), atol=1e-6)
