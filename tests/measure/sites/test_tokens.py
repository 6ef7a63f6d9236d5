"""What `trace` says of every token is what `inspect` summarises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

import normdiag
from normdiag.report.report import Report


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln, self.q, self.out = (
            nn.LayerNorm(width),
            nn.Linear(width, width),
            nn.Linear(width, width),
        )
        self.heads, self.q_norm = heads, nn.LayerNorm(width // heads)

    def forward(self, x):
        b, s, h = x.shape
        q = self.q_norm(self.q(self.ln(x)).view(b, s, self.heads, -1).transpose(1, 2))
        weights = (q @ q.transpose(-1, -2)).softmax(-1)
        return x + self.out((weights @ q).transpose(1, 2).reshape(b, s, h))


class Model(nn.Module):
    def __init__(self, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(3))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, inputs_embeds, attention_mask=None):
        for block in self.blocks:
            inputs_embeds = block(inputs_embeds)
        return self.ln_f(inputs_embeds)


def inspect_and_trace(inputs: object) -> tuple[Report, Report]:
    torch.manual_seed(0)
    model = Model().double()
    return normdiag.inspect(model, inputs=inputs), normdiag.trace(model, inputs=inputs)


X = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
CASES = {
    "one batch": {"inputs_embeds": X},
    "padded": {"inputs_embeds": X, "attention_mask": MASK},
    "padded on the left": {"inputs_embeds": X, "attention_mask": MASK.flip(1)},
    "two passes": [{"inputs_embeds": X[:1, :3]}, {"inputs_embeds": X[1:]}],
}


@pytest.mark.parametrize("case", CASES)
class TestAgainstInspect:
    def test_adds(self, case: str) -> None:
        inspected, traced = inspect_and_trace(CASES[case])
        assert len(traced.trace) == 2
        for site, summary in inspected.measurements.stream.items():
            for name in ("out_norm", "update_ratio"):
                tokens = np.concatenate([getattr(t, name)[site] for t in traced.trace])
                whole = getattr(summary, name)
                assert tokens.size == summary.tokens
                np.testing.assert_allclose(tokens.mean(), whole.mean, rtol=1e-12)
                np.testing.assert_allclose(np.median(tokens), whole.median, rtol=1e-12)
                np.testing.assert_allclose(tokens.max(), whole.max, rtol=1e-12)
            largest = traced.trace[summary.max_token.sequence].max_abs[site]
            assert max(largest) == summary.max_abs

    def test_norms(self, case: str) -> None:
        inspected, traced = inspect_and_trace(CASES[case])
        for site, summary in inspected.measurements.norms.items():
            if site.endswith("q_norm"):
                continue
            tokens = np.concatenate([t.input_var[site] for t in traced.trace])
            assert tokens.size == summary.tokens
            np.testing.assert_allclose(np.median(tokens), summary.input_var.median, rtol=1e-12)
            np.testing.assert_allclose(tokens.min(), summary.input_var.min, rtol=1e-12)
            np.testing.assert_allclose(tokens.max(), summary.input_var.max, rtol=1e-12)

    def test_every_list_is_as_long_as_the_tokens(self, case: str) -> None:
        _, traced = inspect_and_trace(CASES[case])
        for sequence, real in zip(traced.trace, (3 if case != "one batch" else 5, 5), strict=True):
            lists = [
                *sequence.out_norm.values(),
                *sequence.update_ratio.values(),
                *sequence.input_var.values(),
                *sequence.max_abs.values(),
                *sequence.max_channel.values(),
            ]
            assert {len(each) for each in lists} == {real}

    def test_norms_of_heads_have_no_one_number_per_token(self, case: str) -> None:
        inspected, traced = inspect_and_trace(CASES[case])
        for sequence in traced.trace:
            assert not any(site.endswith("q_norm") for site in sequence.input_var)
        real = sum(len(t.out_norm["blocks.0/add#0"]) for t in traced.trace)
        assert inspected.measurements.norms["blocks.0.q_norm"].tokens == 3 * real


def test_heads_before_positions_as_gemma_has_them() -> None:
    config = Gemma3TextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16,
    )  # fmt: skip
    torch.manual_seed(0)
    ids = torch.randint(3, 64, (2, 5))
    traced = normdiag.trace(Gemma3ForCausalLM(config), inputs={"input_ids": ids})
    for sequence in traced.trace:
        assert {len(values) for values in sequence.input_var.values()} == {5}
        assert not any("q_norm" in site for site in sequence.input_var)  # two heads a token
