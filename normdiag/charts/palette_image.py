"""A matrix of numbers as a small PNG of palette colours, one pixel per number."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence

from normdiag.charts.colours import NOT_FINITE, interpolate_viridis

_STEPS = 255
"""Colours of the palette; the last entry is for what is not finite."""


def draw_matrix(rows: Sequence[Sequence[float]], low: float, high: float, *, is_log: bool) -> str:
    """Return the PNG as a data URL, the first row on top.

    `low` has the darkest colour and `high` the brightest; values beyond are drawn as these.
    """
    lines = b"".join(
        b"\0" + bytes(_choose_index(value, low, high, is_log=is_log) for value in row)
        for row in rows
    )
    width, height = len(rows[0]), len(rows)
    palette = [interpolate_viridis(step / (_STEPS - 1)) for step in range(_STEPS)]
    png = b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _make_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _make_chunk(b"PLTE", b"".join(bytes(colour) for colour in (*palette, NOT_FINITE))),
            _make_chunk(b"IDAT", zlib.compress(lines, 9)),
            _make_chunk(b"IEND", b""),
        )
    )
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def _choose_index(value: float, low: float, high: float, *, is_log: bool) -> int:
    if not math.isfinite(value):
        return _STEPS
    if is_log:
        start, end = math.log(low), math.log(high)
        position = (math.log(max(value, low)) - start) / (end - start) if end > start else 0.0
    else:
        position = (value - low) / (high - low) if high > low else 0.0
    return round(min(max(position, 0.0), 1.0) * (_STEPS - 1))


def _make_chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
