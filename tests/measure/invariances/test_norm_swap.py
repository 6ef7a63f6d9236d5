"""The other kind of norm at every site, against models that are built with it by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

import normdiag
from normdiag.evidence.norm_swap import NormSwap
from normdiag.measures import DEFAULT_MEASURES, expand_measures
from sample_models import norms as spellings

EPS, WIDTH = 1e-5, 16
LAYER_NORMS = [norm.__name__ for norm in (*spellings.LAYER_NORMS, spellings.weightless_ln)]
RMS_NORMS = [norm.__name__ for norm in (*spellings.RMS_NORMS, spellings.weightless_rms)]


def layer_norm(x, gain, bias, eps):
    """Independent of torch's kernels and of the sample models."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + eps) ** 0.5 * gain + bias


def rms_norm(x, gain, bias, eps):
    return x / (x.pow(2).mean(-1, keepdim=True) + eps) ** 0.5 * gain + bias


class Stack(nn.Module):
    """Pre-norm blocks and a final norm, with an offset for centring to remove."""

    def __init__(self, norm, layers: int = 3, *, head: int = 0, has_bias: bool = True) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.norm = norm
        self.embed = nn.Embedding(head or 8, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.gains = nn.ParameterList(torch.rand(WIDTH) + 0.5 for _ in range(layers + 1))
        bias = torch.randn if has_bias else torch.zeros
        self.biases = nn.ParameterList(0.2 * bias(WIDTH) for _ in range(layers + 1))
        self.head = nn.Linear(WIDTH, head, bias=False) if head else None
        with torch.no_grad():
            self.embed.weight += 0.8

    def hidden(self, x):
        for i, layer in enumerate(self.layers):
            x = x + torch.tanh(layer(self.norm(x, self.gains[i], self.biases[i], EPS)))
        return self.norm(x, self.gains[-1], self.biases[-1], EPS)

    def forward(self, input_ids):
        hidden = self.hidden(self.embed(input_ids))
        return hidden if self.head is None else self.head(hidden)


def measure(model: nn.Module, ids: torch.Tensor) -> NormSwap:
    inputs = {"input_ids": ids}
    report = normdiag.inspect(model.eval(), inputs=inputs, measure=("centring-swap",))
    assert report.measurements.norm_swap is not None
    return report.measurements.norm_swap


def by_hand(norm, ids: torch.Tensor, **given) -> tuple[torch.Tensor, torch.Tensor]:
    """The last hidden state and the output of the stack built with `norm`."""
    model = Stack(norm, **given).eval()
    with torch.no_grad():
        return model.hidden(model.embed(ids)).double(), model(ids)


IDS = torch.randint(0, 8, (2, 12), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", LAYER_NORMS + RMS_NORMS)
def test_every_spelling_is_swapped(name: str) -> None:
    spelling = getattr(spellings, name)
    centres = name in LAYER_NORMS
    weightless = name.startswith("weightless")

    def other(x, gain, bias, eps):
        if weightless:
            gain, bias = torch.ones(WIDTH), torch.zeros(WIDTH)
        bias = bias if centres else torch.zeros(WIDTH)
        return (rms_norm if centres else layer_norm)(x, gain, bias, eps)

    swap = measure(Stack(spelling), IDS)
    assert (swap.layer_norms, swap.rms_norms) == ((4, 0) if centres else (0, 4))
    assert swap.swapped == 4
    (before, _), (after, _) = by_hand(spelling, IDS), by_hand(other, IDS)
    expected = float((after - before).norm() / before.norm())
    assert expected > 0.02
    assert swap.hidden_change == pytest.approx(expected, rel=1e-4)
    assert swap.tokens == 24


def test_the_loss_before_and_after() -> None:
    given = {"head": 32, "has_bias": False}
    ids = torch.arange(24).view(2, 12)
    swap = measure(Stack(rms_norm, **given), ids)
    assert swap.loss is not None and swap.loss.kind == "causal-lm" and swap.loss.tokens == 22
    for norm, loss in ((rms_norm, swap.loss.before), (layer_norm, swap.loss.after)):
        _, scores = by_hand(norm, ids, **given)
        expected = F.cross_entropy(scores[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        assert loss == pytest.approx(float(expected), rel=1e-5)


def test_each_norm_alone_on_its_own_rows() -> None:
    model = Stack(layer_norm).eval()
    inputs: list[torch.Tensor] = []

    def listen(x, gain, bias, eps):
        inputs.append(x.double())
        return layer_norm(x, gain, bias, eps)

    with torch.no_grad():
        by_hand(listen, IDS)
    report = normdiag.inspect(
        model, inputs={"input_ids": IDS}, measure=("centring-swap",), all_tokens=True
    )
    assert report.measurements.norm_swap is not None
    alone = list(report.measurements.norm_swap.alone.values())
    assert len(alone) == 4
    for i, effect in enumerate(alone):
        gain, bias = model.gains[i].detach().double(), model.biases[i].detach().double()
        x = inputs[i].flatten(0, -2)
        own, swapped = layer_norm(x, gain, bias, EPS), rms_norm(x, gain, bias, EPS)
        changes = (swapped - own).norm(dim=-1) / own.norm(dim=-1)
        assert effect.max == pytest.approx(float(changes.max()), rel=1e-5)
        assert effect.median == pytest.approx(float(changes.quantile(0.5)), rel=1e-5)


def test_padding_is_left_out() -> None:
    class Padded(Stack):
        def forward(self, input_ids, attention_mask=None):
            return super().forward(input_ids)

    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 5:] = 0
    inputs = {"input_ids": IDS, "attention_mask": mask}
    model = Padded(layer_norm).eval()
    swap = normdiag.inspect(model, inputs=inputs, measure=("centring-swap",)).measurements.norm_swap
    assert swap is not None and swap.tokens == 17
    (before, _), (after, _) = by_hand(layer_norm, IDS), by_hand(rms_norm, IDS)
    before, after = before[mask.bool()], after[mask.bool()]
    expected = float((after - before).norm() / before.norm())
    assert swap.hidden_change == pytest.approx(expected, rel=1e-4)


def test_centred_inputs_change_nothing() -> None:
    class Centred(Stack):
        def hidden(self, x):
            return x + self.layers[0](self.norm(x, 1.0, 0.0, EPS))

    model = Centred(lambda x, gain, bias, eps: F.rms_norm(x, (WIDTH,), eps=eps))
    with torch.no_grad():
        model.embed.weight -= model.embed.weight.mean(-1, keepdim=True)
    swap = measure(model, IDS)
    assert swap.rms_norms == 1
    assert swap.hidden_change == pytest.approx(0, abs=1e-6)
    assert next(iter(swap.alone.values())).max == pytest.approx(0, abs=1e-6)


def test_a_model_in_half_precision_is_swapped() -> None:
    swap = measure(Stack(spellings.functional_ln).to(torch.bfloat16), IDS)
    (before, _), (after, _) = by_hand(layer_norm, IDS), by_hand(rms_norm, IDS)
    expected = float((after - before).norm() / before.norm())
    assert swap.swapped == 4
    assert swap.hidden_change == pytest.approx(expected, rel=0.05)


def test_without_such_norms_there_is_no_swap() -> None:
    model = Stack(lambda x, gain, bias, eps: x)
    report = normdiag.inspect(model.eval(), inputs={"input_ids": IDS}, measure=("centring-swap",))
    assert report.measurements.norm_swap is None


def test_the_model_is_left_as_it_was() -> None:
    model = Stack(spellings.functional_ln).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    output = model(IDS)
    measure(model, IDS)
    assert torch.equal(model(IDS), output)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_speed_is_measured_only_when_asked_for() -> None:
    assert "norm-speed" not in expand_measures(DEFAULT_MEASURES)
    report = normdiag.inspect(
        Stack(spellings.functional_ln).eval(), inputs={"input_ids": IDS}, measure=("norm-speed",)
    )
    speeds = report.measurements.norm_speed
    assert [(s.form, s.shape, s.features, s.dtype, s.norms) for s in speeds] == [
        (form, (2, 12, WIDTH), WIDTH, "float32", 4) for form in ("fused", "composed")
    ]
    for speed in speeds:
        assert 0 < speed.ratio_min <= speed.ratio <= speed.ratio_max


@pytest.mark.parametrize("mask", [False, True])
def test_the_forward_that_reads_logits_is_the_one_without_the_swap(mask: bool) -> None:
    """One forward fewer, and the same numbers; a masked LM runs on other ids and shares none."""
    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 20}
    heads = {"num_attention_heads": 2, "attn_implementation": "eager"}
    model = (
        BertForMaskedLM(BertConfig(**small, **heads))
        if mask
        else LlamaForCausalLM(LlamaConfig(**small, **heads))
    ).eval()
    ids = torch.randint(2, 20, (1, 40), generator=torch.Generator().manual_seed(0))
    lengths = []

    def count_whole_forwards(*names: str) -> tuple[int, NormSwap | None]:
        lengths.clear()
        report = normdiag.inspect(model, inputs={"input_ids": ids}, measure=names)
        return lengths.count(40), report.measurements.norm_swap

    model.register_forward_pre_hook(
        lambda _, args, given: lengths.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    logits, _ = count_whole_forwards("attention-logits")
    swap, alone = count_whole_forwards("centring-swap")
    both, beside = count_whole_forwards("attention-logits", "centring-swap")
    assert alone is not None
    assert alone.loss is not None
    assert beside == alone
    assert (logits, swap, both) == (2, 3, 4 if mask else 3)
