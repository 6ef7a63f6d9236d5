"""What a PNG was made from, as compressed text in the picture itself.

Pixels differ between browsers and fonts; a picture is current if its content is.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEYWORD = b"Source"
_KEPT = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
"""Chunks of the browser's picture that are kept: not the time, nor the resolution."""


def write_content(png: bytes, content: str) -> bytes:
    """Return the picture with `content` in it, its pixels packed more tightly."""
    chunks = [(kind, data) for kind, data in list_chunks(png) if kind in _KEPT]
    pixels = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    others = [(kind, data) for kind, data in chunks if kind not in (b"IDAT", b"IEND")]
    text = _KEYWORD + b"\0\0\0\0\0" + content.encode()
    packed = _KEYWORD + b"\0\1\0\0\0" + zlib.compress(content.encode(), 9)
    kept = [
        *others,
        (b"iTXt", min(text, packed, key=len)),
        (b"IDAT", zlib.compress(pixels, 9)),
        (b"IEND", b""),
    ]
    return _SIGNATURE + b"".join(_pack_chunk(kind, data) for kind, data in kept)


def read_content(png: bytes) -> str:
    """Return the content that `write_content` put there. Raises ValueError where there is none."""
    for kind, data in list_chunks(png):
        if kind == b"iTXt" and data.startswith(_KEYWORD + b"\0"):
            is_packed, text = data[len(_KEYWORD) + 1], data[len(_KEYWORD) + 5 :]
            return (zlib.decompress(text) if is_packed else text).decode()
    raise ValueError("the picture holds no content")


def list_chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and data of every chunk. Raises ValueError where it is no PNG."""
    if not png.startswith(_SIGNATURE):
        raise ValueError("this is no PNG")
    at = len(_SIGNATURE)
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += 12 + size


def _pack_chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check
