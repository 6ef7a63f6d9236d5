"""Read the header of a .safetensors file and check that the file is complete.

Format: 8 bytes little-endian n, n bytes of JSON {name: {dtype, shape, data_offsets}}, the data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normdiag.errors import LoadError

_MAX_HEADER = 100_000_000  # bytes; the format's own limit
_MAX_SIZE = 2**64 - 1
_BITS = (
    dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8)
    | dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8)
    | dict.fromkeys(("I16", "U16", "F16", "BF16"), 16)
    | dict.fromkeys(("I32", "U32", "F32"), 32)
    | dict.fromkeys(("I64", "U64", "F64", "C64"), 64)
    | {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
)
"""Bits per element of the dtypes that the format has."""
_DOWNLOAD_AGAIN = "copy or download it again"


@dataclass(frozen=True)
class TensorHeader:
    """Dtype and shape of one tensor."""

    dtype: str
    shape: tuple[int, ...]


def read_safetensors_header(path: Path) -> dict[str, TensorHeader]:
    """Read name, dtype and shape of the tensors of `path`, and no tensor.

    Raises LoadError, with the expected and the actual number of bytes, for a truncated file.
    """
    actual = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if actual < 8 or (length <= _MAX_HEADER and 8 + length > actual):
            raise LoadError(
                f"{path} is truncated: its header alone takes {8 + length} bytes, "
                f"and the file has {actual}",
                _DOWNLOAD_AGAIN,
            )
        if length > _MAX_HEADER:
            raise LoadError(
                f"{path} is not a safetensors file: it states a header of {length} bytes",
                "the file is damaged or of another format",
            )
        raw = file.read(length)
    tensors, end = _parse_header(path, raw)
    expected = 8 + length + end
    if actual != expected:
        state = "truncated" if actual < expected else "too long"
        raise LoadError(
            f"{path} is {state}: {expected} bytes expected, {actual} present "
            f"({abs(expected - actual)} {'missing' if actual < expected else 'too many'})",
            _DOWNLOAD_AGAIN,
        )
    return tensors


def _parse_header(path: Path, raw: bytes) -> tuple[dict[str, TensorHeader], int]:
    """The tensors, and the end of the last one in bytes after the header.

    As strict as the safetensors library, and stricter for a key that occurs twice.
    """
    try:
        entries = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_refuse_repeated, parse_constant=_refuse_constant
        )
        if not isinstance(entries, dict):
            raise _HeaderError("it is no JSON object")
        _check_metadata(entries.pop("__metadata__", None))
        spans = {name: _parse_entry(name, entry) for name, entry in entries.items()}
        end = _check_layout(spans)
    except (ValueError, RecursionError) as error:
        raise LoadError(
            f"{path} is not a safetensors file: its header cannot be read ({error})",
            "the weights file is damaged or of another format; copy or download it again",
        ) from error
    return {name: span.tensor for name, span in spans.items()}, end


class _HeaderError(ValueError):
    """What the format does not allow."""


@dataclass(frozen=True)
class _Span:
    tensor: TensorHeader
    start: int
    end: int


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for text in (part for pair in pairs for part in pair if isinstance(part, str)):
        text.encode()  # raises for half of a surrogate pair
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _HeaderError(f"the key {repeated!r} occurs twice")
    return content


def _refuse_constant(constant: str) -> None:
    raise _HeaderError(f"{constant} is not JSON")


def _check_metadata(metadata: Any) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _HeaderError("__metadata__ maps no names to texts")


def _parse_entry(name: str, entry: Any) -> _Span:
    if not isinstance(entry, dict):
        raise _HeaderError(f"tensor {name!r}: {entry!r} is no JSON object")
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise _HeaderError(f"tensor {name!r}: unknown dtype {dtype!r}")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise _HeaderError(f"tensor {name!r}: invalid shape {shape!r}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise _HeaderError(f"tensor {name!r}: invalid data_offsets {offsets!r}")
    bits = _BITS[dtype]
    for size in shape:
        bits *= size
        if bits > _MAX_SIZE:
            raise _HeaderError(f"tensor {name!r}: shape {shape} is too large")
    start, end = offsets
    if bits != 8 * (end - start):
        raise _HeaderError(
            f"tensor {name!r}: {dtype}{shape} takes {bits / 8:.15g} bytes, and data_offsets "
            f"{offsets} are {end - start}"
        )
    return _Span(TensorHeader(dtype, tuple(shape)), start, end)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_SIZE


def _check_layout(spans: dict[str, _Span]) -> int:
    """The tensors lie one behind the other, without gap or overlap; return their end."""
    end = 0
    for name, span in sorted(spans.items(), key=lambda item: (item[1].start, item[1].end)):
        if span.start != end:
            kind = "a gap" if span.start > end else "an overlap"
            raise _HeaderError(
                f"tensor {name!r}: data_offsets [{span.start}, {span.end}] leave {kind}; "
                f"the tensors before it end at {end}"
            )
        end = span.end
    return end
