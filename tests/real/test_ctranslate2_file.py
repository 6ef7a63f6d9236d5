"""A file written by hand, field by field, is read back; one of another version is refused."""

from __future__ import annotations

import struct

import pytest
import torch

from tests.real.ctranslate2_file import read_variables


def text(content: str) -> bytes:
    return struct.pack("<H", len(content) + 1) + content.encode() + b"\0"


def variable(name: str, shape: tuple[int, ...], kind: int, values: bytes) -> bytes:
    sizes = struct.pack(f"<B{len(shape)}I", len(shape), *shape)
    return text(name) + sizes + struct.pack("<BI", kind, len(values)) + values


HEAD = text("WhisperSpec") + struct.pack("<I", 3)
MATRIX = variable("a/weight", (2, 3), 4, struct.pack("<6e", 1, 2, 3, -4, 0.5, 65504))
SCALAR = variable("a/heads", (), 2, struct.pack("<h", 8))
ALIAS = struct.pack("<I", 1) + text("b/weight") + text("a/weight")


def test_variables_and_aliases() -> None:
    whole = struct.pack("<I", 6) + HEAD + struct.pack("<I", 2) + MATRIX + SCALAR + ALIAS
    found = read_variables(whole)
    expected = torch.tensor([[1, 2, 3], [-4, 0.5, 65504]], dtype=torch.float16)
    assert set(found) == {"a/weight", "a/heads", "b/weight"}
    assert torch.equal(found["a/weight"], expected)
    assert found["b/weight"] is found["a/weight"]
    assert torch.equal(found["a/heads"], torch.tensor(8, dtype=torch.int16))


@pytest.mark.parametrize("change", [lambda whole: b"\5" + whole[1:], lambda whole: whole + b"\0"])
def test_another_version_and_bytes_left_over_are_refused(change) -> None:
    whole = struct.pack("<I", 6) + HEAD + struct.pack("<I", 1) + MATRIX + ALIAS
    with pytest.raises(AssertionError):
        read_variables(change(whole))
