"""A matrix as a PNG: read back by an independent decoder of the format."""

from __future__ import annotations

import base64
import math
import struct
import zlib

import pytest

from normdiag.charts.colours import NOT_FINITE, VIRIDIS
from normdiag.charts.palette_image import draw_matrix
from normdiag.charts.token_maps import list_token_maps
from normdiag.render.html.figures import pack_values
from tests.charts.reports import complete


def read_pixels(url: str) -> list[list[tuple[int, int, int]]]:
    data = base64.b64decode(url.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind] = body
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour) == (8, 3)
    lines = zlib.decompress(chunks[b"IDAT"])
    palette = [tuple(chunks[b"PLTE"][3 * i : 3 * i + 3]) for i in range(256)]
    rows = [lines[row * (width + 1) : (row + 1) * (width + 1)] for row in range(height)]
    assert all(row[0] == 0 for row in rows)
    return [[palette[index] for index in row[1:]] for row in rows]


def test_ends_of_the_range_have_the_ends_of_the_palette() -> None:
    pixels = read_pixels(
        draw_matrix([[1.0, 100.0, math.nan], [10.0, math.inf, 0.5]], 1, 100, is_log=True)
    )
    assert pixels[0] == [VIRIDIS[0], VIRIDIS[-1], NOT_FINITE]
    assert pixels[1][1:] == [NOT_FINITE, VIRIDIS[0]]
    middle = read_pixels(draw_matrix([[10.0, 50.5]], 1, 100, is_log=False))[0]
    assert pixels[1][0] == middle[1] != middle[0]


def test_a_matrix_of_one_value() -> None:
    assert read_pixels(draw_matrix([[2.0]], 2.0, 2.0, is_log=True)) == [[VIRIDIS[0]]]


@pytest.mark.parametrize("lowest", [0.01, -1.0])
def test_values_are_read_out_within_half_a_step(lowest: float) -> None:
    rows = [[lowest, 3.0, 1e4], [math.nan, 7.5, 0.5]]
    packed = pack_values(rows)
    steps = struct.unpack("<6H", base64.b64decode(packed["steps"]))
    assert steps[3] == 65535
    assert packed["is_log"] == (lowest > 0)
    for step, value in zip(steps, [value for row in rows for value in row], strict=True):
        if math.isfinite(value):
            back = packed["low"] + step / 65534 * packed["span"]
            exact = math.log(value) if packed["is_log"] else value
            assert abs(back - exact) <= packed["span"] / 65534


def test_maps_have_a_row_per_site_and_a_column_per_token() -> None:
    report = complete(3, tokens=11)
    maps = list_token_maps(report)
    assert list(maps) == ["tokens_out_norm_0", "tokens_update_ratio_0", "tokens_input_var_0"]
    trace = report.trace[0]
    for name, shown in maps.items():
        held = getattr(trace, name.removeprefix("tokens_").removesuffix("_0"))
        assert dict(zip(shown.sites, shown.rows, strict=True)) == held
