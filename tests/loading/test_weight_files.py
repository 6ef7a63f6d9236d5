"""Which files hold weights, and whether they are whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from normdiag.errors import LoadError
from normdiag.loading.weight_files import find_weight_files, list_shards


def index_of(folder: Path, places: object, name: str = "model.safetensors") -> Path:
    path = folder / f"{name}.index.json"
    path.write_text(json.dumps({"weight_map": places}))
    return path


def test_safetensors_come_before_pickles(tmp_path: Path) -> None:
    for name in ("model.safetensors", "pytorch_model.bin"):
        (tmp_path / name).touch()
    weights = find_weight_files(tmp_path)
    assert weights is not None
    assert (weights.format, weights.paths) == ("safetensors", (tmp_path / "model.safetensors",))


def test_an_index_of_pickles_is_followed(tmp_path: Path) -> None:
    (tmp_path / "one.bin").touch()
    index_of(tmp_path, {"a": "one.bin", "b": "one.bin"}, "pytorch_model.bin")
    weights = find_weight_files(tmp_path)
    assert weights is not None
    assert (weights.format, weights.paths) == ("pickle", (tmp_path / "one.bin",))


def test_no_weights_are_none(tmp_path: Path) -> None:
    assert find_weight_files(tmp_path) is None


def test_missing_shards_are_named_and_their_tensors_counted(tmp_path: Path) -> None:
    (tmp_path / "s1").touch()
    index = index_of(tmp_path, {"a": "s1", "b": "s2", "c": "s3", "d": "s3"})
    with pytest.raises(LoadError, match="2 of 3 shards missing") as caught:
        list_shards(index)
    assert "s2, s3; 3 of 4 tensors" in caught.value.what


@pytest.mark.parametrize("place", ["../secret", "/etc/passwd", "sub/one", "", 7, None])
def test_a_shard_elsewhere_is_not_followed(tmp_path: Path, place: object) -> None:
    with pytest.raises(LoadError, match="not a file name"):
        list_shards(index_of(tmp_path, {"a": place}))


@pytest.mark.parametrize("places", [None, {}, [], "x"])
def test_an_index_without_a_map_is_an_error(tmp_path: Path, places: object) -> None:
    with pytest.raises(LoadError, match="no weight_map"):
        list_shards(index_of(tmp_path, places))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 5340\n", "size 5340"),
        (b"<!DOCTYPE html><html>Log in</html>", "a web page"),
    ],
)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_file_without_weights_is_an_error(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    weights = find_weight_files(tmp_path)
    assert weights is not None
    with pytest.raises(LoadError, match=message) as caught:
        weights.check()
    assert name in caught.value.what


def test_a_truncated_archive_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.ones(1000)}, path)
    path.write_bytes(path.read_bytes()[:-500])
    weights = find_weight_files(tmp_path)
    assert weights is not None
    with pytest.raises(LoadError, match=r"pytorch_model\.bin is truncated"):
        weights.check()


def test_complete_files_pass(tmp_path: Path) -> None:
    save_file({"a": torch.ones(3)}, tmp_path / "model.safetensors")
    weights = find_weight_files(tmp_path)
    assert weights is not None
    weights.check()
