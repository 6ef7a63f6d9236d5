"""The tensors of a CTranslate2 model.bin, format version 6."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO

import torch

VERSION = 6
_DTYPES = {
    0: torch.float32,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.float16,
    5: torch.bfloat16,
}


def read_variables(content: bytes) -> dict[str, torch.Tensor]:
    """Name -> tensor, of every variable of the file; an alias names the tensor of its original.

    The file, little-endian: version, name of the specification, its revision, the number of
    variables; per variable its name, rank, sizes, dtype, number of bytes and these; the number of
    aliases and per alias two names. A text is its length with the closing NUL, then its bytes.
    """
    file = BytesIO(content)
    version = _number(file, "I")
    assert version == VERSION, f"this file is of format version {version}, not {VERSION}"
    _text(file)
    _number(file, "I")
    variables = dict(_read_variable(file) for _ in range(_number(file, "I")))
    for alias, original in _read_aliases(file):
        variables[alias] = variables[original]
    assert not file.read(1), "bytes are left after the last alias"
    return variables


def _read_variable(file: BytesIO) -> tuple[str, torch.Tensor]:
    name = _text(file)
    shape = [_number(file, "I") for _ in range(_number(file, "B"))]
    dtype = _DTYPES[_number(file, "B")]
    values = bytearray(file.read(_number(file, "I")))
    return name, torch.frombuffer(values, dtype=dtype).reshape(shape)


def _read_aliases(file: BytesIO) -> Iterator[tuple[str, str]]:
    for _ in range(_number(file, "I")):
        yield _text(file), _text(file)


def _number(file: BytesIO, kind: str) -> int:
    (number,) = struct.unpack(f"<{kind}", file.read(struct.calcsize(f"<{kind}")))
    return int(number)


def _text(file: BytesIO) -> str:
    return file.read(_number(file, "H")).rstrip(b"\0").decode()
