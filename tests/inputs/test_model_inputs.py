"""Inputs for models of other kinds and for plain modules: each of them must run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import transformers
from torch import nn

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.inputs.model_inputs import build_inputs
from normdiag.loading.factory import wrap_module
from normdiag.loading.interface import LoadedModel
from normdiag.options import InputOptions

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
VISION = {**SMALL, "image_size": 12, "patch_size": 4}
CONVOLUTIONS = {"conv_dim": [8, 8], "conv_stride": [5, 2], "conv_kernel": [10, 3]}


def vit() -> nn.Module:
    return transformers.ViTModel(transformers.ViTConfig(**VISION, num_channels=2))


def dinov2() -> nn.Module:
    config = transformers.Dinov2Config(**VISION)
    return transformers.Dinov2Model(config)


def whisper() -> nn.Module:
    config = transformers.WhisperConfig(
        d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, vocab_size=30,
        num_mel_bins=8, max_source_positions=10, max_target_positions=9,
        decoder_start_token_id=5, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.WhisperModel(config)


def wav2vec2() -> nn.Module:
    config = transformers.Wav2Vec2Config(
        **SMALL, **CONVOLUTIONS, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2
    )
    return transformers.Wav2Vec2Model(config)


def spectrogram() -> nn.Module:
    config = transformers.ASTConfig(**SMALL, patch_size=4, num_mel_bins=12, max_length=20)
    return transformers.ASTModel(config)


def clip() -> nn.Module:
    text = {**SMALL, "vocab_size": 50, "max_position_embeddings": 7, "eos_token_id": 3}
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=8)
    return transformers.CLIPModel(config)


def captioner() -> nn.Module:
    decoder = transformers.GPT2Config(
        n_embd=16, n_layer=1, n_head=2, vocab_size=30, add_cross_attention=True
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.ViTConfig(**VISION), decoder
    )
    config.decoder_start_token_id = 4
    return transformers.VisionEncoderDecoderModel(config)


def bert() -> nn.Module:
    return transformers.BertModel(transformers.BertConfig(**SMALL, vocab_size=30))


@pytest.mark.parametrize(
    ("make", "names", "shape"),
    [
        (vit, {"pixel_values"}, (2, 2, 12, 12)),
        (dinov2, {"pixel_values"}, (2, 3, 12, 12)),
        (whisper, {"input_features", "decoder_input_ids"}, (2, 8, 20)),
        (wav2vec2, {"input_values"}, (2, (64 * 2 + 1) * 5 + 5)),
        (spectrogram, {"input_values"}, (2, 20, 12)),
        (clip, {"pixel_values", "input_ids"}, (4, 3, 12, 12)),
        (captioner, {"pixel_values", "decoder_input_ids"}, (2, 3, 12, 12)),
        (bert, {"input_ids"}, (4, 128)),
    ],
)
def test_models_of_all_kinds_run(
    make: Callable[[], nn.Module], names: set[str], shape: tuple[int, ...]
) -> None:
    loaded = wrap_module(make().eval())
    (batch,), probe, _ = build_inputs(loaded, InputOptions())
    assert set(batch.inputs) - {"use_cache"} == names
    assert next(v for v in batch.inputs.values() if hasattr(v, "shape")).shape == shape
    assert probe.sequences == len(batch.rows) == shape[0]
    assert probe.note
    with torch.no_grad():
        loaded.model(**batch.inputs)


def test_the_decoder_of_a_speech_model_starts_where_it_should() -> None:
    (batch,), _, _ = build_inputs(wrap_module(whisper()), InputOptions())
    ids = batch.inputs["decoder_input_ids"]
    assert ids.shape == (2, 9)
    assert ids[:, 0].tolist() == [5, 5]
    assert int(ids.max()) < 30


def test_noise_is_seeded_and_in_the_models_dtype() -> None:
    loaded = wrap_module(vit().to(torch.bfloat16))
    one, again, other = (
        build_inputs(loaded, InputOptions(seed=s))[0][0].inputs["pixel_values"] for s in (1, 1, 2)
    )
    assert one.dtype is torch.bfloat16
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_an_input_of_unknown_shape_is_named() -> None:
    config = transformers.DecisionTransformerConfig(hidden_size=8, n_layer=1, n_head=1)
    loaded = wrap_module(transformers.DecisionTransformerModel(config))
    with pytest.raises(RunError, match="DecisionTransformerModel takes 'states'") as caught:
        build_inputs(loaded, InputOptions())
    assert "--inputs FILE" in str(caught.value.hint)
    assert "inputs={'states': tensor" in str(caught.value.hint)


class Block(nn.Module):
    """x + fc(norm(x)), its norm first."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc(self.norm(x))


class Reader(nn.Module):
    """Ids in, features out."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, idx: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        x = self.table(idx) * scale
        for block in self.blocks:
            x = block(x)
        return x


class Bare(nn.Module):
    """No module of its own, only parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(5))

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return values[0] * self.gain


class TestPlainModules:
    @pytest.mark.parametrize(
        ("module", "name", "shape"),
        [
            (Block(), "x", (2, 16, 6)),
            (Reader(), "idx", (2, 16)),
            (nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), "input", (2, 16, 3)),
            (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), "src", (2, 16, 8)),
        ],
    )
    def test_the_first_weight_tells_the_shape(
        self, module: nn.Module, name: str, shape: tuple[int, ...]
    ) -> None:
        loaded = wrap_module(module.eval())
        (batch,), probe, _ = build_inputs(loaded, InputOptions())
        assert batch.inputs[name].shape == shape
        assert (probe.sequences, probe.tokens) == (2, 32)
        assert "first weight" in str(probe.note) or "rows of table" in str(probe.note)
        with torch.no_grad():
            loaded.model(*batch.args, **batch.inputs)

    def test_ids_have_rows(self) -> None:
        (batch,), probe, _ = build_inputs(wrap_module(Reader()), InputOptions())
        assert int(batch.inputs["idx"].max()) < 11
        assert probe.kind == "random-ids"
        assert batch.ids is not None

    def test_arguments_without_a_name_are_given_by_position(self) -> None:
        loaded = wrap_module(Bare())
        (batch,), _, _ = build_inputs(loaded, InputOptions())
        assert batch.inputs == {}
        assert loaded.model(*batch.args).shape == (2, 16, 5)

    def test_more_than_one_argument_is_an_error_that_names_them(self) -> None:
        with pytest.raises(RunError, match="Transformer needs several inputs: src, tgt") as caught:
            build_inputs(wrap_module(nn.Transformer(8, 2, 1, 1, 8)), InputOptions())
        assert "--inputs FILE" in str(caught.value.hint)

    @pytest.mark.parametrize("module", [nn.Conv2d(3, 4, 3), nn.ReLU()])
    def test_a_module_of_unknown_input_shape_is_an_error(self, module: nn.Module) -> None:
        with pytest.raises(RunError, match="takes 'input', whose shape neither"):
            build_inputs(wrap_module(module), InputOptions())


class TestAuthorInputs:
    def test_those_of_the_factory_come_first(self) -> None:
        loaded = wrap_module(Block(), inputs=(torch.ones(1, 2, 6),))
        (batch,), probe, _ = build_inputs(loaded, InputOptions())
        assert torch.equal(batch.inputs["x"], torch.ones(1, 2, 6))
        assert (probe.kind, probe.sequences, probe.tokens) == ("inputs", 1, 2)

    @pytest.mark.parametrize(
        "example",
        [
            torch.ones(1, 2, 6),
            (torch.ones(1, 2, 6),),
            {"x": torch.ones(1, 2, 6)},
            lambda: torch.ones(1, 2, 6),
        ],
    )
    def test_a_module_may_have_its_own(self, example: object) -> None:
        module = Block()
        module.example_inputs = example
        (batch,), _, _ = build_inputs(wrap_module(module), InputOptions())
        assert torch.equal(batch.inputs["x"], torch.ones(1, 2, 6))

    def test_several_forwards(self) -> None:
        loaded: LoadedModel = wrap_module(
            Block(), inputs=[torch.ones(1, 2, 6), torch.ones(3, 1, 6)]
        )
        batches, probe, _ = build_inputs(loaded, InputOptions())
        assert [batch.rows for batch in batches] == [(0,), (1, 2, 3)]
        assert (probe.sequences, probe.tokens) == (4, 5)


def test_padding_is_not_counted() -> None:
    inputs = {
        "input_ids": torch.tensor([[4, 5, 6], [7, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1], [1, 0, 0]]),
    }
    _, probe, _ = build_inputs(replace(wrap_module(bert()), author_inputs=inputs), InputOptions())
    assert (probe.sequences, probe.tokens) == (2, 4)


def test_batches_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Batch().rows = (1,)  # type: ignore[misc]
