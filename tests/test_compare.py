"""Two models compared: each change of one is named at its site, from values and from reports."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import normdiag
from normdiag import Comparison
from normdiag.errors import UsageError
from sample_models.post_norm import PostNorm
from sample_models.pre_norm import PreNorm
from tests.gpt2_by_hand import convert_weights
from tests.oracle.lively import enliven

IDS = ((7, 3, 12, 40, 9, 22, 5, 31),)
LAYERS = 3
H = "transformer.h"
OF_STREAM = {"stream", "stream-factor", "non-finite", "output"}


@pytest.fixture(scope="module")
def original() -> Any:
    config = GPT2Config(
        vocab_size=50, n_positions=20, n_embd=32, n_layer=LAYERS, n_head=4,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return enliven(GPT2LMHeadModel(config), seed=5)


@pytest.fixture(scope="module")
def of_original(original: Any) -> normdiag.Report:
    return normdiag.inspect(original, measure=("stream",), ids=IDS)


def change_model(original: Any, change: Callable[[Any], None]) -> Any:
    model = copy.deepcopy(original)
    with torch.no_grad():
        change(model)
    return model


def compare(a: Any, b: Any, **options: Any) -> Comparison:
    return normdiag.compare(a, b, **({"measure": ("stream",), "ids": IDS} | options))


def causes(comparison: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    """Kind and sites of what differs, consequences for the stream left out."""
    return [(d.kind, d.a or d.b) for d in comparison.differences if d.kind not in OF_STREAM]


def gain(model: Any) -> None:
    model.transformer.h[1].ln_1.weight[7] *= 1.5


def epsilon(model: Any) -> None:
    model.transformer.h[2].ln_2.eps = 1e-2


def swap(model: Any) -> None:
    layers = model.transformer.h
    layers[0], layers[2] = layers[2], layers[0]


def one_added(model: Any) -> None:
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight += 1


def doubled_gain(model: Any) -> None:
    model.transformer.h[1].ln_2.weight *= 2


def bias(model: Any) -> None:
    model.transformer.ln_f.bias[3] += 1


def one_weight(model: Any) -> None:
    model.transformer.h[1].mlp.c_proj.weight[3, 5] += 0.5


def merge_lora(model: Any) -> None:
    """As a LoRA of rank 1 on the last projection of every attention."""
    for layer in model.transformer.h:
        width = layer.attn.c_proj.weight.shape[0]
        layer.attn.c_proj.weight += 0.01 * torch.outer(torch.ones(width), torch.arange(width))


def no_final_norm(model: Any) -> None:
    model.transformer.ln_f = nn.Identity()


def embedding_times_five(model: Any) -> None:
    model.transformer.wte.weight *= 5
    model.transformer.wpe.weight *= 5


def other_activation(model: Any) -> None:
    model.transformer.h[2].mlp.act = nn.ReLU()


def infinite_weight(model: Any) -> None:
    model.transformer.h[1].mlp.c_fc.bias[0] = torch.inf


NORMS = tuple(f"{H}.{i}.{name}" for i in range(LAYERS) for name in ("ln_1", "ln_2"))
CHANGES = [
    (gain, [("gain", (f"{H}.1.ln_1",))], (f"{H}.1/add#0", "branch")),
    (epsilon, [("epsilon", (f"{H}.2.ln_2",))], (f"{H}.2/add#1", "branch")),
    (
        swap,
        [("moved-layers", (f"{H}/layer#0", f"{H}/layer#2"))],
        (f"{H}.0/add#0", "branch"),
    ),
    (one_added, [("gain-offset", (*NORMS, "transformer.ln_f"))], (f"{H}.0/add#0", "branch")),
    (doubled_gain, [("gain-factor", (f"{H}.1.ln_2",))], (f"{H}.1/add#1", "branch")),
    (bias, [("bias", ("transformer.ln_f",))], None),
    (one_weight, [("weights", (f"{H}.1/add#1",))], (f"{H}.1/add#1", "branch")),
    (
        merge_lora,
        [("weights", tuple(f"{H}.{i}/add#0" for i in range(LAYERS)))],
        (f"{H}.0/add#0", "branch"),
    ),
    (no_final_norm, [("missing-norm", ("transformer.ln_f",))], None),
    (embedding_times_five, [], (f"{H}.0/add#0", "skip")),
    (other_activation, [], (f"{H}.2/add#1", "branch")),
    (infinite_weight, [("weights", (f"{H}.1/add#1",))], (f"{H}.1/add#1", "branch")),
]


@pytest.mark.parametrize("basis", ["values", "summaries"])
@pytest.mark.parametrize(
    ("change", "expected", "parts"), CHANGES, ids=[change.__name__ for change, *_ in CHANGES]
)
def test_a_change_is_named_at_its_site(
    original: Any,
    of_original: normdiag.Report,
    change: Callable[[Any], None],
    expected: list[Any],
    parts: tuple[str, str] | None,
    basis: str,
) -> None:
    model = change_model(original, change)
    if basis == "values":
        comparison = compare(original, model)
    else:
        report = normdiag.inspect(model, measure=("stream",), ids=IDS)
        comparison = normdiag.compare(of_original, report)
    assert comparison.basis == basis
    assert causes(comparison) == expected
    part = comparison.first_divergence
    assert (part and (part.a, part.where)) == parts
    for _, sites in expected:
        if not sites[0].startswith(f"{H}/layer"):
            assert sites[0] in comparison.headline


class TestWords:
    """What the headline says of each."""

    def headline(self, original: Any, change: Callable[[Any], None]) -> str:
        return compare(original, change_model(original, change)).headline

    def test_of_a_gain(self, original: Any) -> None:
        value = original.transformer.h[1].ln_1.weight[7].item()
        said = self.headline(original, gain)
        assert said.startswith(
            f"the gain differs at {H}.1.ln_1 (max relative difference 0.333 at channel 7: "
            f"{value:.6g} in A, "
            f"{1.5 * value:.6g} in B); the stream diverges from {H}.1/add#0 on"
        )

    def test_of_an_epsilon(self, original: Any) -> None:
        said = self.headline(original, epsilon)
        assert said.startswith(f"epsilon is 1e-05 in A and 0.01 in B at {H}.2.ln_2; the stream")

    def test_of_swapped_layers(self, original: Any) -> None:
        assert self.headline(original, swap).startswith(
            f"layers 0 and 2 of {H} are swapped in B: each has the weights of the other"
        )

    def test_of_the_one_of_one_plus_w(self, original: Any) -> None:
        said = self.headline(original, one_added)
        assert "larger by just 1 in B than in A, as with the 1 of 1 + w at all 7 norms" in said

    def test_of_a_scaled_embedding(self, original: Any) -> None:
        said = self.headline(original, embedding_times_five)
        assert said.startswith(
            f"the start of the stream (the embedding) at {H}.0/add#0 is 5 times as large in B "
            "as in A; tensors that differ: transformer.wte.weight"
        )

    def test_of_what_differs_before_every_norm(self, original: Any) -> None:
        def change(model: Any) -> None:
            model.transformer.wte.weight[:, 3] += 1
            model.transformer.h[0].ln_1.weight[7] *= 1.5

        said = self.headline(original, change)
        assert said.startswith(
            f"the streams diverge: the start of the stream (the embedding) at {H}.0/add#0 differs; "
            f"downstream, the gain differs at {H}.0.ln_1"
        )

    def test_of_code_that_differs(self, original: Any) -> None:
        said = self.headline(original, other_activation)
        assert "its norms and weights are equal: compare the code of that branch" in said

    def test_of_what_is_not_finite(self, original: Any) -> None:
        comparison = compare(original, change_model(original, infinite_weight))
        kinds = {each.kind: each for each in comparison.differences}
        assert kinds["non-finite"].severity == "error"
        assert f"not finite from {H}.1/add#1 on" in kinds["non-finite"].message


def test_a_model_does_not_differ_from_itself(original: Any) -> None:
    comparison = compare(original, original)
    assert comparison.differences == comparison.changes == ()
    assert comparison.first_divergence is None
    assert comparison.changed_severities == frozenset()
    assert all(site.out.max == 0.0 == site.branch.max for site in comparison.stream)
    assert comparison.headline.startswith("no difference: the streams and outputs are equal")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_cast_is_rounding(original: Any, dtype: torch.dtype) -> None:
    comparison = compare(original, copy.deepcopy(original).to(dtype))
    assert comparison.differences == ()
    assert comparison.first_divergence is None
    errors = [site.out.median for site in comparison.stream]
    assert 0 < min(errors) < max(errors) < 4 * torch.finfo(dtype).eps
    assert "no difference beyond rounding in" in comparison.headline


def test_a_change_is_seen_through_a_cast(original: Any) -> None:
    model = change_model(original, gain).half()
    assert causes(compare(original, model)) == [("gain", (f"{H}.1.ln_1",))]


def test_errors_are_those_that_hooks_see(original: Any) -> None:
    model = change_model(original, gain)
    comparison = compare(original, model, all_tokens=True)
    seen = []
    for each in (original, model):
        streams: list[np.ndarray] = []
        layers = each.transformer.h
        hooks = [
            layer.register_forward_hook(lambda _, __, y, into=streams: into.append(first(y)))
            for layer in layers
        ]
        with torch.no_grad():
            each(torch.tensor(IDS))
        for hook in hooks:
            hook.remove()
        seen.append(streams)
    for layer, (a, b) in enumerate(zip(*seen, strict=True)):
        expected = np.linalg.norm(a - b, axis=-1) / np.linalg.norm(a, axis=-1)
        site = comparison.stream[2 * layer + 1]
        assert site.a == f"{H}.{layer}/add#1"
        assert site.tokens == len(IDS[0])
        assert site.out.median == pytest.approx(np.median(expected), rel=1e-9, abs=1e-12)
        assert site.out.max == pytest.approx(expected.max(), rel=1e-9, abs=1e-12)


def first(output: Any) -> np.ndarray:
    tensor = output if isinstance(output, torch.Tensor) else output[0]
    return tensor.double().numpy().reshape(len(IDS[0]), -1)


class TestAnotherImplementation:
    """The same weights in code that somebody else wrote, with other names and inputs."""

    def test_it_is_the_same(self, original: Any) -> None:
        for a, b in ((original, convert_weights(original)), (convert_weights(original), original)):
            comparison = compare(a, b)
            assert comparison.basis == "values"
            assert comparison.paired_by == "position"
            assert comparison.differences == ()
            assert len(comparison.stream) == 2 * LAYERS
            assert max(site.out.median for site in comparison.stream) < 1e-6

    def test_what_was_converted_wrongly_is_named_by_both_names(self, original: Any) -> None:
        port = convert_weights(original)
        port.tower[1][1].eps = 1e-3
        with torch.no_grad():
            port.tower[2][0].gain[3] += 0.5
        comparison = compare(original, port)
        found = [(d.kind, d.a, d.b) for d in comparison.differences]
        assert found[:2] == [
            ("epsilon", (f"{H}.1.ln_2",), ("tower.1.1/norm#0",)),
            ("gain", (f"{H}.2.ln_1",), ("tower.2.0/norm#0",)),
        ]
        assert comparison.first_divergence is not None
        divergence = comparison.first_divergence
        assert (divergence.a, divergence.b) == (f"{H}.1/add#1", "tower.1.1/add#0")
        assert f"{H}.1.ln_2 (tower.1.1/norm#0 in B)" in comparison.headline

    def test_from_reports(self, original: Any, of_original: normdiag.Report) -> None:
        report = normdiag.inspect(convert_weights(original), measure=("stream",), ids=IDS)
        comparison = normdiag.compare(of_original, report)
        assert (comparison.basis, comparison.differences) == ("summaries", ())


def test_a_layer_that_is_gone(original: Any) -> None:
    def drop(model: Any) -> None:
        del model.transformer.h[1]

    comparison = compare(original, change_model(original, drop))
    assert causes(comparison) == [("layers", (H,))]
    assert "3 layers in A and 2 in B: layer 1 of A without counterpart" in comparison.headline
    assert comparison.first_divergence is not None
    divergence = comparison.first_divergence
    assert (divergence.a, divergence.b) == (f"{H}.2/add#0", f"{H}.1/add#0")
    assert comparison.first_divergence.where == "skip"


def test_other_placements() -> None:
    x = torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(0))
    pre, post = PreNorm(layers=2).eval(), PostNorm(layers=2).eval()
    comparison = normdiag.compare(pre, post, measure=("stream",), inputs=x)
    found = {each.kind: each for each in comparison.differences}
    assert found["placement"].message.startswith("the placement is pre in A and post in B at all 2")
    assert found["missing-norm"].a == ("ln_f",)
    assert found["placement"].severity == "error"


class TestTheProbe:
    """Values are compared where both can be run on the same inputs."""

    def test_of_another_vocabulary(self, original: Any) -> None:
        def small(model: Any) -> None:
            model.resize_token_embeddings(20)
            model.transformer.h[1].ln_1.weight[7] *= 1.5

        comparison = compare(original, change_model(original, small), ids=None)
        assert comparison.basis == "structure"
        assert "the vocabularies differ" in str(comparison.note)
        assert "has 20 rows" in str(comparison.note)
        assert comparison.stream == ()
        assert ("gain", (f"{H}.1.ln_1",)) in causes(comparison)
        assert "at channel 7" in comparison.headline

    def test_what_does_not_run_on_it_is_run_on_its_own(self, original: Any) -> None:
        def short(model: Any) -> None:
            model.transformer.wpe = nn.Embedding(4, 32)
            model.config.n_positions = 4
            model.transformer.h[1].ln_1.weight[7] *= 1.5

        comparison = compare(original, change_model(original, short), ids=None)
        assert "B does not run on the inputs of A" in str(comparison.note)
        assert comparison.basis == "structure"
        assert causes(comparison) == [("gain", (f"{H}.1.ln_1",))]

    def test_of_reports_that_were_run_on_others(
        self, original: Any, of_original: normdiag.Report
    ) -> None:
        report = normdiag.inspect(original, measure=("stream",), ids=((8, *IDS[0][1:]),))
        comparison = normdiag.compare(of_original, report)
        assert (comparison.basis, comparison.stream) == ("structure", ())
        assert "the streams are not compared" in str(comparison.note)

    def test_a_report_and_a_model(self, original: Any, of_original: normdiag.Report) -> None:
        comparison = compare(of_original, change_model(original, gain))
        assert comparison.basis == "summaries"
        assert causes(comparison) == [("gain", (f"{H}.1.ln_1",))]

    def test_options_of_the_second_alone(self, tmp_path: Any, original: Any) -> None:
        original.save_pretrained(tmp_path / "saved")
        target = str(tmp_path / "saved")
        comparison = compare(target, target, second={"dtype": "bfloat16"})
        assert (comparison.a.dtype, comparison.b.dtype) == ("float32", "bfloat16")
        assert comparison.differences == ()


def test_what_has_no_structure_is_refused(tmp_path: Any, original: Any) -> None:
    original.save_pretrained(tmp_path)
    target = str(tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match="has no structure"):
        normdiag.compare(target, target, weights_only=True)


def test_one_model_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "built.py").write_text("models = []\nalive = []\n", encoding="utf-8")
    (tmp_path / "factory.py").write_text(
        "import weakref\n"
        "import built\n"
        "from sample_models import pre_norm\n"
        "def build():\n"
        "    built.alive.append(sum(model() is not None for model in built.models))\n"
        "    model, inputs = pre_norm.build(layers=3)\n"
        "    built.models.append(weakref.ref(model))\n"
        "    return model, inputs\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    target = f"{tmp_path / 'factory.py'}:build"
    comparison = normdiag.compare(target, target, measure=("stream",))
    assert comparison.basis == "values"
    assert comparison.differences == ()
    assert importlib.import_module("built").alive == [0, 0]


def reversed_rows(model: Any) -> None:
    weight = model.transformer.h[1].mlp.c_proj.weight
    weight.copy_(weight.flip(0).clone())


def transposed_square(model: Any) -> None:
    weight = model.transformer.h[1].attn.c_proj.weight
    weight.copy_(weight.T.clone())


def exchanged_norms(model: Any) -> None:
    block = model.transformer.h[1]
    first = block.ln_1.weight.clone()
    block.ln_1.weight.copy_(block.ln_2.weight)
    block.ln_2.weight.copy_(first)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (reversed_rows, f"{H}.1.mlp.c_proj.weight has the same values in another order: its rows"),
        (transposed_square, f"{H}.1.attn.c_proj.weight has the same values in another order: it is "
         "transposed"),
        (exchanged_norms, f"the tensors {H}.1.ln_1.weight and {H}.1.ln_2.weight are exchanged"),
    ],
)  # fmt: skip
def test_the_order_of_weights(original: Any, change: Callable[[Any], None], words: str) -> None:
    said = [d.message for d in compare(original, change_model(original, change)).differences]
    assert any(words in message for message in said), said


def test_outputs_are_compared_behind_the_last_add(original: Any) -> None:
    other = change_model(original, negate_head)
    comparison = compare(original, other)
    assert comparison.outputs["logits"].median == pytest.approx(2.0)
    assert "equal up to the last add" in comparison.headline


def negate_head(model: Any) -> None:
    model.lm_head.weight = nn.Parameter(-model.lm_head.weight)


def test_outputs_of_reports_are_compared_by_their_sums(
    original: Any, of_original: normdiag.Report
) -> None:
    assert normdiag.compare(of_original, of_original).equal_outputs == ("logits",)
    with torch.no_grad():
        logits = original(torch.tensor(IDS)).logits.double().reshape(-1, original.config.vocab_size)
    (sums,) = of_original.measurements.outputs["logits"]
    assert sums.sum == pytest.approx(logits.sum().item(), rel=1e-5)
    assert sums.squares == pytest.approx(logits.square().sum().item(), rel=1e-5)
    negated = normdiag.inspect(change_model(original, negate_head), measure=("stream",), ids=IDS)
    comparison = normdiag.compare(of_original, negated)
    assert comparison.equal_outputs == ()
    (output,) = (each for each in comparison.differences if each.kind == "output")
    assert "the outputs (logits) differ in their sums" in output.message


def test_outputs_of_older_reports_are_not_compared(of_original: normdiag.Report) -> None:
    older = replace(of_original, measurements=replace(of_original.measurements, outputs={}))
    comparison = normdiag.compare(older, of_original)
    assert comparison.outputs == {} and comparison.equal_outputs == ()
    assert comparison.not_compared == ("outputs: not compared (saved reports)",)
