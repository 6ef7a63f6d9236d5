"""GGUF files, against the gguf package and the model that was written."""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.errors import LoadError
from normdiag.loading.gguf_header import read_gguf_header
from normdiag.loading.interface import CheckpointTensors, LoadedModel
from normdiag.loading.load_target import load_target
from normdiag.options import LoadingOptions
from tests.loading.gguf_files import gguf_name, write_llama

Load = Callable[..., LoadedModel]
Q8 = gguf.GGMLQuantizationType.Q8_0


@pytest.fixture(scope="module")
def original(llama_dir: Path) -> transformers.LlamaForCausalLM:
    return transformers.LlamaForCausalLM.from_pretrained(llama_dir)


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory,
    original: transformers.LlamaForCausalLM,
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "llama-f32.gguf"
    write_llama(path, original, tokenizer)
    return path


@pytest.fixture(scope="module")
def packed(
    tmp_path_factory: pytest.TempPathFactory,
    original: transformers.LlamaForCausalLM,
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "llama-q8.gguf"
    write_llama(path, original, tokenizer, Q8)
    return path


class TestLoading:
    def test_the_model_is_the_one_that_was_written(
        self, whole: Path, original: transformers.LlamaForCausalLM, run: Load
    ) -> None:
        loaded = run(whole)
        assert type(loaded.model) is transformers.LlamaForCausalLM
        expected = original.state_dict()
        actual = loaded.model.state_dict()
        assert actual.keys() == expected.keys()
        for name in expected:
            assert torch.equal(actual[name], expected[name]), name
        assert loaded.loading.missing == ()

    def test_a_head_that_is_not_stored_is_tied(
        self,
        tmp_path: Path,
        original: transformers.LlamaForCausalLM,
        tokenizer: transformers.PreTrainedTokenizerFast,
        run: Load,
    ) -> None:
        path = tmp_path / "tied.gguf"
        write_llama(path, original, tokenizer, has_head=False)
        loaded = run(path)
        assert type(loaded.model) is transformers.LlamaForCausalLM
        head = loaded.model.get_output_embeddings().weight
        assert torch.equal(head, original.state_dict()["model.embed_tokens.weight"])
        assert loaded.loading.missing == ()

    def test_an_embedding_model_has_no_head(
        self,
        tmp_path: Path,
        original: transformers.LlamaForCausalLM,
        tokenizer: transformers.PreTrainedTokenizerFast,
        run: Load,
    ) -> None:
        path = tmp_path / "pooled.gguf"
        write_llama(path, original, tokenizer, has_head=False, pooling=gguf.PoolingType.MEAN)
        assert type(run(path).model) is transformers.LlamaModel

    def test_the_tokenizer_is_loaded(
        self, whole: Path, tokenizer: transformers.PreTrainedTokenizerFast, run: Load
    ) -> None:
        actual = run(whole).tokenizer
        assert actual is not None
        text = "The lighthouse keeper"
        assert (
            actual(text, add_special_tokens=False)["input_ids"]
            == tokenizer(text, add_special_tokens=False)["input_ids"]
        )

    def test_quantised_weights_are_dequantised(
        self, packed: Path, original: transformers.LlamaForCausalLM, run: Load
    ) -> None:
        loaded = run(packed)
        name = "model.layers.0.mlp.up_proj.weight"
        actual = loaded.model.state_dict()[name]
        expected = original.state_dict()[name]
        assert actual.dtype is torch.float32
        step = expected.abs().max() / 127
        assert 0 < (actual - expected).abs().max() <= step
        assert any("Q8_0" in note for note in loaded.notes)

    def test_nothing_is_printed(
        self, whole: Path, run: Load, capfd: pytest.CaptureFixture[str]
    ) -> None:
        run(whole)
        assert capfd.readouterr() == ("", "")

    def test_the_structure_needs_the_metadata_only(self, whole: Path, run: Load) -> None:
        loaded = run(whole, structure_only=True)
        assert all(p.is_meta for p in loaded.model.parameters())
        assert not any("dequantised" in note for note in loaded.notes)

    def test_random_weights_need_the_metadata_only(self, whole: Path, run: Load) -> None:
        loaded = run(whole, random_init=True)
        assert loaded.mode == "random-init"
        assert loaded.model.config.hidden_size == 32


class TestTensors:
    def test_they_are_those_of_the_file(
        self, packed: Path, original: transformers.LlamaForCausalLM
    ) -> None:
        alone = load_target(str(packed), LoadingOptions(weights_only=True))
        assert isinstance(alone, CheckpointTensors)
        assert alone.model_type == "llama"
        actual = dict(alone.tensors({}))
        reader = gguf.GGUFReader(packed)
        assert list(actual) == [tensor.name for tensor in reader.tensors]
        for tensor in reader.tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            assert np.array_equal(actual[tensor.name].numpy(), values), tensor.name
        assert {gguf_name(name) for name in original.state_dict()} == set(actual)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
    def test_plain_types_are_kept(self, tmp_path: Path, dtype: torch.dtype) -> None:
        stored = torch.arange(6).reshape(2, 3).to(dtype)
        path = tmp_path / "plain.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        if dtype is torch.bfloat16:
            raw = stored.view(torch.uint8).numpy()
            writer.add_tensor("a", raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor("a", stored.numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        alone = load_target(str(path), LoadingOptions(weights_only=True))
        ((_, actual),) = alone.tensors({})
        assert actual.dtype is dtype
        assert torch.equal(actual, stored)


class TestHeader:
    def test_it_says_what_the_package_reads(self, packed: Path) -> None:
        header = read_gguf_header(packed)
        reader = gguf.GGUFReader(packed)
        assert [(t.name, t.type, t.start, t.bytes) for t in header.tensors] == [
            (t.name, t.tensor_type, t.data_offset, t.n_bytes) for t in reader.tensors
        ]
        assert [t.shape for t in header.tensors] == [
            tuple(int(n) for n in reversed(t.shape)) for t in reader.tensors
        ]
        assert header.architecture_name == "llama"
        assert header.fields["llama.embedding_length"] == 32

    def test_a_truncated_file_is_reported_with_both_sizes(
        self, whole: Path, tmp_path: Path
    ) -> None:
        cut = tmp_path / "cut.gguf"
        size = whole.stat().st_size
        cut.write_bytes(whole.read_bytes()[:-100])
        with pytest.raises(LoadError, match=rf"{size - 100} present") as caught:
            read_gguf_header(cut)
        assert str(cut) in caught.value.what

    @settings(max_examples=60)
    @given(data=st.data())
    def test_no_truncation_passes(
        self, whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        content = whole.read_bytes()
        tensors = read_gguf_header(whole).tensors
        end = max(tensor.start + tensor.bytes for tensor in tensors)
        cut = tmp_path_factory.mktemp("cut") / "cut.gguf"
        cut.write_bytes(content[: data.draw(st.integers(0, end - 1))])
        with pytest.raises(LoadError):
            read_gguf_header(cut)

    @settings(max_examples=100)
    @given(noise=st.binary(max_size=300))
    def test_noise_is_an_error(
        self, tmp_path_factory: pytest.TempPathFactory, noise: bytes
    ) -> None:
        path = tmp_path_factory.mktemp("noise") / "noise.gguf"
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + noise)
        with pytest.raises(LoadError):
            read_gguf_header(path)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "so it holds no model"),
            (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1"),
            (b"PK\x03\x04" + bytes(40), "is not a GGUF file"),
            (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "truncated or damaged"),
        ],
    )
    def test_a_file_without_model_is_an_error(
        self, tmp_path: Path, content: bytes, message: str
    ) -> None:
        path = tmp_path / "odd.gguf"
        path.write_bytes(content)
        with pytest.raises(LoadError, match=message):
            load_target(str(path))

    def test_one_part_of_several_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "piece.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_uint16("split.count", 3)
        writer.add_tensor("a", np.ones(32, dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with pytest.raises(LoadError, match="one of 3 parts"):
            load_target(str(path))


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, "wonderbread")
    writer.add_tensor("a", np.ones(32, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(LoadError, match="wonderbread") as caught:
        load_target(str(path))
    assert "--weights-only" in str(caught.value.hint)
    alone = load_target(str(path), LoadingOptions(weights_only=True))
    assert [name for name, _ in alone.tensors({})] == ["a"]


@pytest.mark.parametrize("package", ["gguf", "accelerate"])
def test_a_missing_package_says_how_to_install_it(
    whole: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == package else find(name, *a)
    )
    with pytest.raises(LoadError, match=f"the package {package} ") as caught:
        load_target(str(whole))
    assert caught.value.hint == 'pip install "normdiag[gguf]"'
