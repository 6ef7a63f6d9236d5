"""Weights files that a library refuses, or reads past the end of a record, in every mode."""

from __future__ import annotations

import json
import math
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open

from normdiag.errors import LoadError
from normdiag.loading.load_target import load_target
from normdiag.loading.safetensors_header import read_safetensors_header
from normdiag.loading.weight_files import single_file
from normdiag.options import LoadingOptions


def entry(dtype: Any = "F32", shape: Any = (2, 2), offsets: Any = (0, 16)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def write_header(path: Path, header: bytes, size: int = 32) -> Path:
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
    return path


def header_of(first: dict[str, Any], second: dict[str, Any] | None = None) -> bytes:
    second = second or entry(offsets=[16, 32])
    return json.dumps({"layer.a": first, "layer.b": second}).encode()


BAD_ENTRIES = [
    entry(dtype="X"),
    entry(dtype=123),
    entry(dtype=None),
    entry(dtype="f32"),
    entry(dtype="F16"),
    entry(shape=[2, 3]),
    entry(shape=[0, 2]),
    entry(shape=[-2, -2]),
    entry(shape=[2.0, 2]),
    entry(shape=["2", 2]),
    entry(shape=[True, 4]),
    entry(shape=[2**62, 2**62]),
    entry(shape=[2**62, 2**62, 0], offsets=[0, 0]),
    entry(shape=[math.inf]),
    entry(shape=None),
    entry(shape=4),
    entry(offsets=[16, 0]),
    entry(offsets=[-16, 0]),
    entry(offsets=[0, 8, 16]),
    entry(offsets=[0.0, 16.0]),
    entry(offsets=["0", "16"]),
    entry(offsets=[16, 32]),
    entry(offsets=[8, 24]),
    entry(offsets=None),
    entry(dtype="F4", shape=[1], offsets=[0, 1]),
]


@pytest.mark.parametrize("bad", BAD_ENTRIES, ids=str)
def test_what_the_library_refuses_is_refused_by_name(tmp_path: Path, bad: dict[str, Any]) -> None:
    path = write_header(tmp_path / "model.safetensors", header_of(bad))
    with pytest.raises(SafetensorError), safe_open(path, framework="pt"):
        pass
    with pytest.raises(LoadError, match=r"header cannot be read") as caught:
        read_safetensors_header(path)
    assert "layer." in caught.value.what or "JSON" in caught.value.what
    for mode in ({"structure_only": True}, {"weights_only": True}, {}):
        with pytest.raises(LoadError, match="header cannot be read"):
            load_target(str(path), LoadingOptions(**mode))


GOOD = json.dumps(entry())
SECOND = json.dumps(entry(offsets=[16, 32]))
BAD_TEXTS = {
    "byte-order mark": '\ufeff{"a":GOOD},"b":SECOND}',
    "metadata": '{"a":GOOD},"b":SECOND,"__metadata__":{"a":1}}',
    "metadata twice": '{"__metadata__":{},"a":GOOD},"b":SECOND,"__metadata__":{}}',
    "dtype twice": '{"a":GOOD,"dtype":"F32"},"b":SECOND}',
    "tensor twice": '{"a":GOOD},"a":SECOND}',
    "constant": '{"a":GOOD,"x":NaN},"b":SECOND}',
    "overflow": '{"a":GOOD},"b":{"dtype":"F32","shape":[1e999],"data_offsets":[16,32]}}',
    "list": "[]",
    "lone surrogate": '{"\\ud800":GOOD},"b":SECOND}',
}
"""GOOD stands for the entry of a tensor without its closing brace."""


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_json_that_the_library_refuses_is_refused(tmp_path: Path, name: str) -> None:
    text = BAD_TEXTS[name].replace("GOOD", GOOD[:-1]).replace("SECOND", SECOND)
    path = write_header(tmp_path / "model.safetensors", text.encode())
    with pytest.raises(SafetensorError), safe_open(path, framework="pt"):
        pass
    with pytest.raises(LoadError):
        read_safetensors_header(path)


def test_swapped_offsets_of_tensors_of_different_size(tmp_path: Path) -> None:
    swapped = header_of(entry(offsets=[16, 40]), entry(shape=[6], offsets=[0, 16]))
    path = write_header(tmp_path / "model.safetensors", swapped, 40)
    with pytest.raises(SafetensorError), safe_open(path, framework="pt"):
        pass
    with pytest.raises(LoadError, match=r"layer\.a.*takes 16 bytes.*are 24"):
        read_safetensors_header(path)


DTYPES = (
    "BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 I16 U16 F16 BF16 I32 U32 F32 C64 F64 "
    "I64 U64"
)


@pytest.mark.parametrize("dtype", DTYPES.split())
@pytest.mark.parametrize("size", [4, 6, 8, 16, 32, 64])
def test_sizes_of_dtypes_are_those_of_the_library(tmp_path: Path, dtype: str, size: int) -> None:
    header = json.dumps({"a": entry(dtype, [8], [0, size])}).encode()
    path = write_header(tmp_path / "model.safetensors", header, size)
    try:
        with safe_open(path, framework="pt"):
            accepted = True
    except SafetensorError:
        accepted = False
    if accepted:
        assert read_safetensors_header(path)["a"].shape == (8,)
    else:
        with pytest.raises(LoadError):
            read_safetensors_header(path)


def rewrite_archive(path: Path, cut: str | None = None, method: int = zipfile.ZIP_STORED) -> None:
    """Write the archive again: `cut` shortened to 64 bytes, records by `method`."""
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in records.items():
            short = cut is not None and name.endswith(cut)
            archive.writestr(name, content[:64] if short else content)


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    shared = torch.arange(64.0)
    return {
        "a": shared,
        "view": shared[10:20],
        "half": torch.ones(100, dtype=torch.bfloat16),
        "ids": torch.arange(50),
        "parameter": torch.nn.Parameter(torch.ones(3, 40)),
        "empty": torch.empty(0),
    }


@pytest.mark.parametrize(
    ("record", "size"), [("data/0", 256), ("data/1", 200), ("data/2", 400), ("data/3", 480)]
)
@pytest.mark.parametrize("weights_only", [False, True])
def test_a_record_that_is_too_short_is_named_with_both_sizes(
    copy_of_llama: Path,
    state: dict[str, torch.Tensor],
    record: str,
    size: int,
    weights_only: bool,
) -> None:
    (copy_of_llama / "model.safetensors").unlink()
    path = copy_of_llama / "pytorch_model.bin"
    torch.save(state, path)
    rewrite_archive(path, record)
    with pytest.raises(RuntimeError):  # the reader itself refuses it without a memory map
        torch.load(path, weights_only=True)
    with pytest.raises(LoadError, match=f"record {record} has 64 bytes.* takes {size}"):
        load_target(str(copy_of_llama), LoadingOptions(weights_only=weights_only))


def test_whole_archives_pass(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    path = tmp_path / "whole.bin"
    torch.save(state, path)
    single_file(path).check()
    rewrite_archive(path)
    single_file(path).check()


def test_compressed_records_are_not_mapped(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    path = tmp_path / "packed.bin"
    torch.save(state, path)
    rewrite_archive(path, method=zipfile.ZIP_DEFLATED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = torch.load(path, weights_only=True)
    stored = dict(load_target(str(path), LoadingOptions(weights_only=True)).tensors({}))
    assert all(torch.equal(stored[name], expected[name]) for name in expected)
