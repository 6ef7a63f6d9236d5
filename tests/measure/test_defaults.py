"""What a setting that config.json leaves out decides, against models loaded with it written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import (
    BertConfig,
    GPTNeoXConfig,
    GraniteConfig,
    LlamaConfig,
    OPTConfig,
    PreTrainedConfig,
)
from transformers.models.auto.modeling_auto import MODEL_MAPPING

import normdiag
from normdiag.evidence.architecture import Architecture
from normdiag.evidence.subject import OmittedSetting
from normdiag.loading.omitted_settings import flip_setting, omitted_settings
from normdiag.measure import defaults
from normdiag.report.report import Report

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 40,
    "max_position_embeddings": 32,
}
IDS = {"input_ids": torch.arange(6)[None]}


@pytest.fixture
def written(tmp_path: Path):
    def write(
        config: PreTrainedConfig, measure: str | tuple[str, ...] = "defaults", **changes: object
    ) -> Report:
        """The report of a tiny model of `config`, its file changed; None leaves a key out."""
        torch.manual_seed(0)
        MODEL_MAPPING[type(config)](config).save_pretrained(tmp_path)
        path = tmp_path / "config.json"
        fields = json.loads(path.read_text()) | changes
        kept = {name: value for name, value in fields.items() if value is not None}
        path.write_text(json.dumps(kept))
        return normdiag.inspect(str(tmp_path), inputs=IDS, measure=measure)

    return write


def find_defaults(report: Report) -> tuple[OmittedSetting, ...]:
    assert report.subject.loading.defaulted is not None
    return report.subject.loading.defaulted


def test_the_wiring(written) -> None:
    config = GPTNeoXConfig(**SMALL, use_parallel_residual=False)
    (one,) = find_defaults(written(config, use_parallel_residual=None))
    assert (one.setting, one.value, one.alternative) == ("use_parallel_residual", "True", "False")
    for value, told in ((True, one.effect), (False, one.alternative_effect)):
        report = written(config, use_parallel_residual=value)
        (stack,) = report.architecture.stacks
        assert f"{stack.id} is {stack.placement}, {stack.drawing}" in told
        assert find_defaults(report) == ()


def test_a_scale_on_the_branches(written) -> None:
    (one,) = find_defaults(written(GraniteConfig(**SMALL), residual_multiplier=None))
    assert one.setting == "residual_multiplier" and "x + 2 F(rms(x))" in one.alternative_effect


def test_a_scale_on_what_the_stream_starts_from(written) -> None:
    (one,) = find_defaults(written(GraniteConfig(**SMALL), embedding_multiplier=None))
    assert (one.setting, one.effect, one.alternative_effect) == (
        "embedding_multiplier",
        "no scale",
        "a scale of 2 in the model",
    )


def test_an_epsilon(written) -> None:
    (one,) = find_defaults(written(LlamaConfig(**SMALL, rms_norm_eps=1e-5), rms_norm_eps=None))
    assert (one.setting, one.value) == ("rms_norm_eps", "1e-06")
    assert one.effect == "epsilon 1e-06 at layers.0.input_layernorm"


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (LlamaConfig(**SMALL), ("attention_bias", "mlp_bias")),  # decide which tensors there are
        (BertConfig(**SMALL), ("is_decoder", "add_cross_attention")),  # a mask; tensors
        (OPTConfig(**SMALL, ffn_dim=32, word_embed_proj_dim=16), ("do_layer_norm_before",)),
        (LlamaConfig(**SMALL), ("attention_dropout", "initializer_range")),  # of training alone
        (LlamaConfig(**SMALL), ()),
    ],
)
def test_what_decides_nothing_that_the_tensors_do_not(written, config, names) -> None:
    assert find_defaults(written(config, **dict.fromkeys(names))) == ()


def test_a_module_has_no_file(written) -> None:
    report = normdiag.inspect(torch.nn.LayerNorm(4), inputs=torch.randn(2, 3, 4), measure=())
    assert find_defaults(report) == ()


def test_only_what_is_left_out_and_can_be_turned() -> None:
    config = GPTNeoXConfig(**SMALL)
    everything = set(vars(config))
    assert omitted_settings(config, everything) == {}
    assert omitted_settings(
        config, everything - {"layer_norm_eps", "hidden_size", "use_cache"}
    ) == {
        "layer_norm_eps": 1e-5,
        "use_cache": True,
    }
    assert (flip_setting(True), flip_setting(0.5), flip_setting(0.0)) == (False, 1.0, 1.0)


def test_settings_are_turned_together(written, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that decides is found among many that do not, and the forwards stay few."""
    runs = []
    whole = defaults.run_meta_forward

    def counted(*given):
        runs.append(given)
        return whole(*given)

    monkeypatch.setattr(defaults, "run_meta_forward", counted)
    lost = ("attention_dropout", "hidden_dropout", "initializer_range", "classifier_dropout")
    config = GPTNeoXConfig(**SMALL)
    assert find_defaults(written(config, **dict.fromkeys(lost))) == ()
    assert len(runs) == 2
    (one,) = find_defaults(written(config, **dict.fromkeys((*lost, "use_parallel_residual"))))
    assert one.setting == "use_parallel_residual" and len(runs) <= 12


@pytest.mark.parametrize(
    ("settings", "layers", "is_cheap"),
    [(1, 8, False), (1, 9, True), (3, 24, False), (3, 25, True), (12, 96, False), (99, 97, True)],
)
def test_what_costs_less_than_a_forward(settings: int, layers: int, is_cheap: bool) -> None:
    (stack,) = normdiag.inspect("sample_models/tiny_llama", measure=()).architecture.stacks
    deep = Architecture(stacks=(replace(stack, layers=layers),))
    assert defaults.costs_less_than_forward(settings, deep) == is_cheap
    two = Architecture(stacks=(replace(stack, layers=layers),) * 2)
    assert not defaults.costs_less_than_forward(settings, two)


@pytest.mark.parametrize(("layers", "is_measured"), [(2, False), (12, True)])
def test_without_being_asked_for_only_where_cheap(written, layers: int, is_measured: bool) -> None:
    config = LlamaConfig(**{**SMALL, "num_hidden_layers": layers}, rms_norm_eps=1e-5)
    report = written(config, measure=(), rms_norm_eps=None)
    assert (report.subject.loading.defaulted is not None) == is_measured
    assert ("defaults" in report.coverage.measures) == is_measured
    skipped = {skip.code: skip.why for skip in report.rules.skipped}
    assert ("ND004" in skipped) != is_measured
    assert is_measured or "add 'defaults' to --measure" in skipped["ND004"]
