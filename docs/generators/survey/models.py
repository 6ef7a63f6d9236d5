"""The trained models of the survey, from packages of the Python package index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.real import crepe, gemma3, mpnet, rxnfp, smollm2, whisper
from tests.real.packages import MINILM, RXNMAPPER, weights

MODELS: dict[str, Callable[[], Path | str]] = {
    "CREPE-tiny": crepe.find_target,
    "Gemma-3-270M": gemma3.safetensors_copy,
    "SmolLM2-135M-Instruct": smollm2.safetensors_copy,
    "Whisper-base": whisper.short_copy,
    "all-MiniLM-L6-v2": lambda: weights(MINILM),
    "all-mpnet-base-v2": mpnet.unpack_mpnet,
    "rxnfp-bert": rxnfp.complete_copy,
    "rxnmapper-albert": lambda: weights(RXNMAPPER),
}
"""Name -> what `normdiag inspect` takes; downloads what the cache lacks, or UnavailableError."""
