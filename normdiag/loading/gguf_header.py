"""Read the header of a GGUF file and check that the file is complete.

Format (versions 2 and 3): magic, version, counts; key-value pairs; name, shape, type and offset of
every tensor; the data, aligned. The `gguf` package's reader takes seconds for the same, since it
makes an array of every token of the vocabulary.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from normdiag.errors import LoadError

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32


@dataclass(frozen=True)
class GgufTensor:
    """One tensor: shape in torch's order, quantisation type, offset and size in bytes."""

    name: str
    shape: tuple[int, ...]
    type: GGMLQuantizationType
    start: int
    bytes: int


@dataclass(frozen=True)
class GgufHeader:
    """Scalar metadata (arrays are skipped) and the tensors."""

    path: Path
    fields: dict[str, Any]
    tensors: tuple[GgufTensor, ...]

    @property
    def architecture_name(self) -> str:
        """llama.cpp's name of the model family."""
        return str(self.fields["general.architecture"])

    @property
    def is_language_model(self) -> bool:
        """Whether the file holds a language model with its head, stored or tied.

        An encoder states that its attention is not causal, an embedding model how it pools.
        """
        if any(tensor.name == "output.weight" for tensor in self.tensors):
            return True
        kind = self.architecture_name
        is_causal = self.fields.get(f"{kind}.attention.causal", True)
        return bool(is_causal) and not self.fields.get(f"{kind}.pooling_type", 0)


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the header of `path`, and no tensor.

    Raises LoadError, with the expected and the actual number of bytes, for a truncated file,
    and for one that is empty, one of several parts, or not GGUF.
    """
    actual = path.stat().st_size
    if actual == 0:
        raise LoadError(f"{path} is empty (0 bytes)", "copy or download it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as blob:
        try:
            header = _HeaderReader(path, blob).read_header()
        except (struct.error, OverflowError, UnicodeDecodeError) as error:
            raise LoadError(
                f"{path} is truncated or damaged: its header does not end within the file's "
                f"{actual} bytes",
                "copy or download it again",
            ) from error
    expected = max((tensor.start + tensor.bytes for tensor in header.tensors), default=0)
    if actual < expected:
        raise LoadError(
            f"{path} is truncated: {expected} bytes expected, {actual} present "
            f"({expected - actual} missing)",
            "copy or download it again",
        )
    _refuse_unusable(header)
    return header


def _refuse_unusable(header: GgufHeader) -> None:
    parts = header.fields.get("split.count", 1)
    if isinstance(parts, int) and parts > 1:
        raise LoadError(
            f"{header.path} is one of {parts} parts of a GGUF",
            "merge the parts (llama.cpp: gguf-split --merge) and pass the merged file",
        )
    if not header.tensors or "general.architecture" not in header.fields:
        raise LoadError(
            f"{header.path} is a GGUF with {len(header.tensors)} tensors and "
            f"{len(header.fields)} fields, so it holds no model",
            "convert or download it again",
        )


class _HeaderReader:
    """Reads one value after the other. struct.error means that the file is truncated."""

    def __init__(self, path: Path, blob: mmap.mmap) -> None:
        self._path = path
        self._blob = blob
        self._at = 0

    def read_header(self) -> GgufHeader:
        if self._blob[:4] != b"GGUF":
            raise LoadError(f"{self._path} is not a GGUF file (it starts with {self._blob[:4]!r})")
        self._at = 4
        version, tensors, pairs = (
            self._read_scalar("I"),
            self._read_scalar("Q"),
            self._read_scalar("Q"),
        )
        if version not in (2, 3):
            raise LoadError(
                f"{self._path} is GGUF version {version}; versions 2 and 3 are supported",
                "convert it again with a current llama.cpp",
            )
        fields: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._read_string()
            fields[key] = self._read_value(self._read_scalar("I"))
        table = [self._read_entry() for _ in range(tensors)]
        align = fields.get("general.alignment", _ALIGNMENT)
        align = align if isinstance(align, int) and align > 0 else _ALIGNMENT
        data = -(-self._at // align) * align
        scalars = {key: value for key, value in fields.items() if value is not None}
        return GgufHeader(self._path, scalars, tuple(self._locate_tensor(*e, data) for e in table))

    def _read_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dims = self._read_string(), self._read_scalar("I")
        shape = tuple(self._read_scalar("Q") for _ in range(dims))
        return (
            name,
            shape[::-1],
            self._read_scalar("I"),
            self._read_scalar("Q"),
        )  # ggml lists the fastest axis first

    def _locate_tensor(
        self, name: str, shape: tuple[int, ...], code: int, offset: int, data: int
    ) -> GgufTensor:
        try:
            kind = GGMLQuantizationType(code)
            elements, size = GGML_QUANT_SIZES[kind]
        except (ValueError, KeyError):
            raise LoadError(
                f"{self._path} stores {name} in ggml type {code}, which the installed gguf package "
                "does not know",
                'pip install --upgrade "normdiag[gguf]" gguf',
            ) from None
        return GgufTensor(name, shape, kind, data + offset, prod(shape) // elements * size)

    def _read_value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._read_string()
        if kind in _SCALARS:
            return self._read_scalar(_SCALARS[kind])
        if kind != _ARRAY:
            raise LoadError(f"{self._path} holds a field of type {kind}, which is not a GGUF type")
        of, count = self._read_scalar("I"), self._read_scalar("Q")
        if of in _SCALARS:
            self._at += count * struct.calcsize("<" + _SCALARS[of])
        else:
            for _ in range(count):
                self._read_value(of) if of == _ARRAY else self._skip_string()
        return None

    def _read_scalar(self, form: str) -> Any:
        (value,) = struct.unpack_from("<" + form, self._blob, self._at)
        self._at += struct.calcsize("<" + form)
        return value

    def _skip_string(self) -> None:
        length = self._read_scalar("Q")
        self._at += length

    def _read_string(self) -> str:
        length = self._read_scalar("Q")
        if self._at + length > len(self._blob):
            raise struct.error("the string ends after the file")
        start, self._at = self._at, self._at + length
        return self._blob[start : self._at].decode("utf-8")
