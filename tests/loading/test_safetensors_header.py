"""The header of a .safetensors file, against the safetensors library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from normdiag.errors import LoadError
from normdiag.loading.safetensors_header import read_safetensors_header

TENSORS = {
    "a.weight": torch.arange(12.0).reshape(3, 4),
    "b": torch.ones(5, dtype=torch.bfloat16),
    "c": torch.zeros((), dtype=torch.int64),
    "none": torch.zeros(0, 7),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("st") / "model.safetensors"
    save_file(TENSORS, path, metadata={"format": "pt"})
    return path


def test_names_shapes_and_dtypes_are_those_of_the_library(whole: Path) -> None:
    header = read_safetensors_header(whole)
    with safe_open(whole, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        assert {n: (h.dtype, list(h.shape)) for n, h in header.items()} == {
            n: (s.get_dtype(), s.get_shape()) for n, s in slices.items()
        }


def test_a_truncated_file_is_reported_with_both_sizes(whole: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(whole.read_bytes()[:-10])
    size = whole.stat().st_size
    with pytest.raises(LoadError) as caught:
        read_safetensors_header(cut)
    assert caught.value.what == (
        f"{cut} is truncated: {size} bytes expected, {size - 10} present (10 missing)"
    )


@settings(max_examples=60)
@given(data=st.data())
def test_no_truncation_passes(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = whole.read_bytes()
    cut = tmp_path_factory.mktemp("cut") / "cut.safetensors"
    cut.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(LoadError):
        read_safetensors_header(cut)


def test_bytes_behind_the_end_are_an_error(whole: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.safetensors"
    long.write_bytes(whole.read_bytes() + b"!")
    with pytest.raises(LoadError, match="too long"):
        read_safetensors_header(long)


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"[1, 2]",
        b'{"a": 3}',
        b'{"a": {"dtype": "F32", "shape": 4, "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}',
        b"[" * 50_000,
        json.dumps({"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 4]}}).encode(),
    ],
)
def test_an_invalid_header_is_an_error(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "odd.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(LoadError, match="not a safetensors file"):
        read_safetensors_header(path)


def test_another_format_under_the_name_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pickle.safetensors"
    path.write_bytes(b"PK\x03\x04" + b"x" * 100)
    with pytest.raises(LoadError, match="not a safetensors file"):
        read_safetensors_header(path)
