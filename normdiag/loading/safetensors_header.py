"""Read the header of a .safetensors file and check that the file is complete.

Format: 8 bytes little-endian n, n bytes of JSON {name: {dtype, shape, data_offsets}}, the data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from normdiag.errors import LoadError

_MAX_HEADER = 100_000_000  # bytes; the format's own limit
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
    """The tensors, and the end of the last one in bytes after the header."""
    try:
        entries = json.loads(raw)
        entries.pop("__metadata__", None)
        tensors = {
            str(name): TensorHeader(str(entry["dtype"]), tuple(int(n) for n in entry["shape"]))
            for name, entry in entries.items()
        }
        ends = [int(entry["data_offsets"][1]) for entry in entries.values()]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise LoadError(
            f"{path} is not a safetensors file: its header cannot be read ({error})",
            "the file is damaged or of another format",
        ) from error
    return tensors, max(ends, default=0)
