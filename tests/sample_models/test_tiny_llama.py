"""The committed checkpoint: small, readable without a hub, and made by the script beside it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

FOLDER = Path(__file__).parents[2] / "sample_models" / "tiny_llama"


@pytest.fixture(scope="module")
def model() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(FOLDER, local_files_only=True).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)


@pytest.fixture(scope="module")
def script() -> Any:
    return importlib.import_module("sample_models.tiny_llama")


def test_is_under_a_megabyte() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_000_000


def test_loads_whole(model: Any) -> None:
    stored = load_file(FOLDER / "model.safetensors")
    loaded = dict(model.named_parameters())  # the head is tied: named once
    assert stored.keys() == loaded.keys()
    assert all(torch.equal(stored[name], loaded[name]) for name in stored)
    assert {tensor.dtype for tensor in stored.values()} == {torch.float32}
    assert sum(tensor.numel() for tensor in stored.values()) == pytest.approx(228_000, rel=0.01)


def test_has_the_structure_that_the_script_promises(model: Any, script: Any) -> None:
    norms = {n: m for n, m in model.named_modules() if type(m).__name__ == "LlamaRMSNorm"}
    assert len(norms) == 17 and list(norms)[-1] == "model.norm"
    assert {tuple(m.weight.shape) for m in norms.values()} == {(48,)}
    assert {m.variance_epsilon for m in norms.values()} == {1e-5}
    assert len(model.model.layers) == script.CONFIG.num_hidden_layers == 8


def test_has_learned_the_text(model: Any, tokenizer: Any, script: Any) -> None:
    ids = tokenizer(script.TEXT, verbose=False, return_tensors="pt")["input_ids"][:, :65]
    with torch.no_grad():
        loss = model(input_ids=ids, labels=ids).loss.item()
    assert loss < 1  # log(512) = 6.2 untrained


def test_its_first_token_is_a_sink(model: Any, tokenizer: Any) -> None:
    ids = tokenizer("A token that was never in the text.", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        streams = model(input_ids=ids, output_hidden_states=True).hidden_states
    size = np.linalg.norm(streams[4][0].double().numpy(), axis=-1)
    assert size[0] > 2 * np.median(size[1:])


@pytest.mark.parametrize(
    "text",
    ["", "The norm divides the vector by its own size.", "  x = y**2\n\n\tif x:", "Grüße, 世界 🙂"],
)
def test_tokenizer_round_trips_and_puts_bos_first(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text)["input_ids"]
    assert ids[0] == tokenizer.bos_token_id == 0 and 0 not in ids[1:]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer(text, add_special_tokens=False)["input_ids"] == ids[1:]


def test_tokenizer_is_the_one_that_the_script_makes(tokenizer: Any, script: Any) -> None:
    made = script.make_tokenizer()
    assert made.get_vocab() == tokenizer.get_vocab()
    assert (
        made(script.TEXT, verbose=False)["input_ids"]
        == (tokenizer(script.TEXT, verbose=False)["input_ids"])
    )


def test_the_incomplete_checkpoint_lacks_one_gain(tmp_path: Path) -> None:
    incomplete = importlib.import_module("sample_models.incomplete_checkpoint")
    broken = load_file(incomplete.write(tmp_path) / "model.safetensors")
    whole = load_file(FOLDER / "model.safetensors")
    assert whole.keys() - broken.keys() == {"model.norm.weight"}
    assert all(torch.equal(broken[name], whole[name]) for name in broken)
    assert whole["model.norm.weight"].square().mean().sqrt() == pytest.approx(1.7, abs=0.05)


@pytest.mark.slow
def test_the_script_makes_the_checkpoint_again(script: Any, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=[]):
            script.main(tmp_path)
    finally:
        torch.set_num_threads(threads)
    committed = load_file(FOLDER / "model.safetensors")
    made = load_file(tmp_path / "model.safetensors")
    assert made.keys() == committed.keys()
    # Another processor rounds in another order, and 600 steps carry that far: equal in kind only.
    for name in committed:
        ratio = made[name].norm() / committed[name].norm()
        assert 0.5 < ratio < 2, name
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in FOLDER.iterdir()}
