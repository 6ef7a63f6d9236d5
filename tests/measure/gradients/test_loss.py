"""Which loss is chosen: by what goes in, what comes out, and what the output depends on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM

from normdiag.inputs.batch import Batch
from normdiag.measure.gradients.loss import NoLossError, TriedTokens, choose_objective
from normdiag.measure.gradients.objectives import LossSettings, Objective

VOCABULARY, WIDTH, LENGTH = 40, 8, 20
IDS = torch.randint(1, VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(0))


class Tokens(nn.Module):
    """x + mix(norm(x)); `mix` may look back, ahead, or nowhere; then a head of any width."""

    def __init__(self, out: int | None, mask: str = "causal", rows: int = VOCABULARY) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.head = nn.Identity() if out is None else nn.Linear(WIDTH, out)
        self.mask = mask

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.head(self.stream(tokens))

    def stream(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        n = tokens.shape[-1]
        weights = torch.ones(n, n)
        weights = weights.tril() if self.mask == "causal" else weights
        weights = torch.eye(n) if self.mask == "none" else weights
        weights = weights / weights.sum(-1, keepdim=True)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + weights @ layer(norm(x))
        return x


def chosen(model: nn.Module, batch: Batch, **choice: Any) -> Objective:
    torch.manual_seed(0)
    return choose_objective(model.eval(), batch, LossSettings(**choice))


def choose_loss(model: nn.Module, *args: torch.Tensor, **choice: Any) -> Objective:
    return chosen(model, Batch(args=args), **choice)


@pytest.mark.parametrize(
    ("mask", "kind"), [("causal", "causal-lm"), ("none", "causal-lm"), ("both", "masked-lm")]
)
def test_a_model_of_tokens_is_told_by_whether_it_reads_ahead(mask: str, kind: str) -> None:
    assert choose_loss(Tokens(VOCABULARY, mask), IDS).kind == kind


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_that_is_drawn_small_is_seen_all_the_same(dtype: torch.dtype) -> None:
    """In a BERT of width 32 as it is drawn, a token moves the others by a thousandth."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    bert = BertForMaskedLM(BertConfig(**sizes, intermediate_size=37, vocab_size=VOCABULARY))
    assert chosen(bert.to(dtype), Batch(inputs={"input_ids": IDS})).kind == "masked-lm"


def test_what_was_tried_is_not_tried_again() -> None:
    model, tokens, forwards = Tokens(VOCABULARY, "both"), TriedTokens(), []
    model.register_forward_pre_hook(lambda *_: forwards.append(1))
    long = torch.cat([IDS.expand(1, -1) if IDS.dim() == 1 else IDS[:1]] * 20, 1)
    settings = LossSettings()
    first = choose_objective(model, Batch(args=(long[:, :32],)), settings, tokens)
    tried = len(forwards)
    again = choose_objective(model, Batch(args=(long,)), settings, tokens)
    assert len(forwards) == tried > 0
    assert (again.kind, first.kind) == ("masked-lm", "masked-lm")
    assert again.batch.args[0].shape == long.shape
    choose_objective(model, Batch(args=(long.roll(1),)), settings, tokens)
    assert len(forwards) == 2 * tried


def test_one_sequence_without_a_batch() -> None:
    assert choose_loss(Tokens(VOCABULARY), IDS[0]).kind == "causal-lm"


def test_a_text_of_one_token_repeated() -> None:
    assert choose_loss(Tokens(VOCABULARY), torch.zeros_like(IDS)).kind == "causal-lm"
    assert choose_loss(Tokens(VOCABULARY, "both"), torch.zeros_like(IDS)).kind == "masked-lm"


def test_only_the_table_of_the_tokens_counts() -> None:
    """As many outputs as another table has rows are classes."""
    assert choose_loss(Tokens(VOCABULARY + 3), IDS).kind == "classification"
    assert choose_loss(Tokens(VOCABULARY, rows=VOCABULARY + 3), IDS).kind == "classification"


def test_a_value_that_is_not_finite_decides_nothing() -> None:
    model = Tokens(VOCABULARY, "both")
    with torch.no_grad():
        model.table.weight.fill_(float("nan"))
    objective = choose_loss(model, IDS)
    assert objective.kind == "causal-lm" and "not tried" in objective.note


class TestMaskedTokens:
    def test_the_mask_token_stands_in_their_places_and_they_are_the_targets(self) -> None:
        model = Tokens(VOCABULARY, "both")
        objective = choose_loss(model, IDS, mask_id=0)
        (masked,) = objective.batch.args
        places = masked[0] == 0
        assert int(places.sum()) == round(0.15 * LENGTH)
        assert torch.equal(masked[0, ~places], IDS[0, ~places])
        out = model(masked)
        loss, tokens = objective.compute_loss(out)
        assert tokens == int(places.sum())
        assert float(loss.detach()) == pytest.approx(
            float(cross_entropy(out[0, places], IDS[0, places]).detach())
        )
        assert "the mask token 0" in objective.note

    def test_without_a_mask_token_others_of_the_text_do(self) -> None:
        objective = choose_loss(Tokens(VOCABULARY, "both"), IDS)
        (masked,) = objective.batch.args
        moved = masked != IDS
        assert 0 < int(moved.sum()) <= round(0.15 * LENGTH)
        assert set(masked[moved].tolist()) <= set(IDS[0].tolist())

    def test_the_seed_draws_them(self) -> None:
        model = Tokens(VOCABULARY, "both")
        a, b, c = (
            choose_loss(model, IDS, mask_id=0, seed=seed).batch.args[0] for seed in (0, 0, 1)
        )
        assert torch.equal(a, b) and not torch.equal(a, c)

    def test_special_tokens_are_never_masked(self) -> None:
        special = (tuple(i not in (3, 4) for i in range(LENGTH)),)
        batch = Batch(args=(IDS,), special=special)
        (masked,) = chosen(Tokens(VOCABULARY, "both"), batch, mask_id=0).batch.args
        assert {*(masked[0] == 0).nonzero().flatten().tolist()} <= {3, 4}

    def test_the_given_ids_are_left_alone(self) -> None:
        before = IDS.clone()
        choose_loss(Tokens(VOCABULARY, "both"), IDS, mask_id=0)
        assert torch.equal(IDS, before)


class Named(Tokens):
    """Takes its tokens and its mask by name; pads what the mask leaves out."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return super().forward(input_ids * attention_mask)


def test_padding_is_no_target() -> None:
    mask = torch.ones_like(IDS)
    mask[0, 7:] = 0
    model = Named(VOCABULARY)
    objective = chosen(model, Batch(inputs={"input_ids": IDS, "attention_mask": mask}))
    out = model(IDS, mask)
    loss, tokens = objective.compute_loss(out)
    expected = cross_entropy(out[0, :6], IDS[0, 1:7])
    assert tokens == 6 and float(loss.detach()) == pytest.approx(float(expected.detach()))


class Source(nn.Module):
    """A decoder whose branches read what an encoder made of other tokens, or of features."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = Tokens(VOCABULARY)
        self.read = nn.Linear(WIDTH, WIDTH)

    def forward(self, source: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        if not source.is_floating_point():
            source = self.decoder.table(source)
        x = self.decoder.stream(tokens)
        x = x + self.read(torch.softmax(x @ source.mT, -1) @ source)
        return self.decoder.head(x)


@pytest.mark.parametrize("source", [IDS.flip(1), torch.randn(1, 6, WIDTH)], ids=["ids", "features"])
def test_a_decoder_with_a_source_predicts_its_own_tokens(source: torch.Tensor) -> None:
    model = Source()
    objective = choose_loss(model, source, IDS)
    assert objective.kind == "sequence-to-sequence"
    out = model(source, IDS)
    expected = cross_entropy(out[0, :-1], IDS[0, 1:])
    assert float(objective.compute_loss(out)[0].detach()) == pytest.approx(float(expected.detach()))


class Pooled(Tokens):
    """One output for the whole text."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.stream(tokens).mean(-2))


def test_classes_are_drawn_from_what_the_model_predicts() -> None:
    """A sure model is asked for what it is sure of."""
    model = Pooled(5)
    with torch.no_grad():
        model.head.bias[3] = 30.0
    objective = choose_loss(model, IDS)
    assert objective.kind == "classification"
    loss, tokens = objective.compute_loss(model(IDS))
    assert tokens == 1 and float(loss.detach()) < 1e-6


def test_every_token_is_classified_where_every_token_has_an_output() -> None:
    model = Tokens(5)
    out = model(IDS)
    loss, tokens = choose_loss(model, IDS).compute_loss(out)
    assert tokens == LENGTH
    assert 0.5 < float(loss.detach()) / float(torch.log(torch.tensor(5.0))) < 2


@pytest.mark.parametrize("model", [Tokens(None), Pooled(None), Pooled(WIDTH)])
def test_without_a_head_the_output_is_projected(model: nn.Module) -> None:
    """Mean over tokens of <r, y> / sqrt(H); r is standard normal, drawn by the seed."""
    objective = choose_loss(model, IDS, seed=3)
    assert objective.kind == "random-projection"
    y = model(IDS).detach()
    r = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
    rows = y.numel() // WIDTH
    loss, tokens = objective.compute_loss(y)
    assert tokens == rows
    assert float(loss) == pytest.approx(float((r * y).sum()) / rows / WIDTH**0.5, rel=1e-5)


class Convolved(nn.Module):
    """A map with channels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(6, 6, 3, padding=1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def test_a_map_has_a_token_per_place() -> None:
    image = torch.randn(2, 6, 4, 5, generator=torch.Generator().manual_seed(1))
    objective = choose_loss(Convolved(), image)
    assert objective.kind == "random-projection"
    assert objective.compute_loss(image)[1] == 2 * 4 * 5


class Scored(Tokens):
    """Gives back its own loss beside something else."""

    def forward(self, tokens: torch.Tensor) -> Any:
        return {"loss": super().forward(tokens).square().mean()}


def test_one_number_is_its_own_loss() -> None:
    model = Scored(VOCABULARY)
    out = model(IDS)
    objective = choose_loss(model, IDS)
    assert objective.kind == "own" and objective.compute_loss(out)[0] == out["loss"]


class Numbered(Tokens):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return super().forward(tokens).argmax(-1)


def test_whole_numbers_have_no_derivative() -> None:
    with pytest.raises(NoLossError, match="no floating-point"):
        choose_loss(Numbered(VOCABULARY), IDS)


def test_a_loss_without_gradient_is_that_of_all_rows_at_once() -> None:
    """Rows of scores are turned into losses some at a time; 3 x 70 are more than one part."""
    ids = torch.randint(1, VOCABULARY, (3, 70), generator=torch.Generator().manual_seed(1))
    model = Tokens(VOCABULARY)
    batch = Batch(inputs={"tokens": ids})
    objective = chosen(model, batch)
    scores = model(ids).detach()
    loss, count = objective.compute_loss(scores)
    expected = cross_entropy(scores[:, :-1].flatten(0, 1).double(), ids[:, 1:].flatten())
    assert count == 3 * 69
    assert float(loss) == pytest.approx(float(expected), rel=1e-6)
    with_gradient, _ = objective.compute_loss(scores.requires_grad_())
    assert float(with_gradient) == pytest.approx(float(expected), rel=1e-6)
