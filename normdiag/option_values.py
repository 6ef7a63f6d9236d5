"""The values of options that are written as text, parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from normdiag.errors import UsageError

DEVICE_MAPS = ("auto", "balanced", "sequential", "cpu", "disk")
DTYPES = ("float64", "float32", "float16", "bfloat16")
_DTYPE_ALIASES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "double": "float64",
    "float": "float32",
    "half": "float16",
}


def parse_dtype_name(name: str) -> str | None:
    """Return torch's name of the dtype `name`, such as "bf16" or "torch.half"; None for "auto"."""
    name = name.removeprefix("torch.").lower()
    return None if name == "auto" else _DTYPE_ALIASES.get(name, name)


def parse_memory_limits(limits: str | Mapping[Any, Any]) -> Mapping[int | str, Any]:
    """Parse "0=20GiB,cpu=30GiB": what each accelerator, by number, and the main memory take.

    Raises UsageError for a device that is neither a number nor "cpu", and for what is no size.
    """
    pairs = limits.items() if isinstance(limits, Mapping) else _split_pairs(limits)
    parsed: dict[int | str, Any] = {}
    for device, size in pairs:
        name = str(device).strip()
        if name != "cpu" and not (name.isascii() and name.isdecimal()):
            raise UsageError(
                f"max_memory names a device {name!r}",
                'it is the number of an accelerator, or "cpu"',
            )
        if not re.fullmatch(r"\d+(\.\d+)?\s*([KMGT]i?B)?", str(size).strip(), re.IGNORECASE):
            raise UsageError(
                f"{size!r} is no size in memory", "give bytes or a unit: 0=20GiB,cpu=30GiB"
            )
        key: int | str = name if name == "cpu" else int(name)
        parsed[key] = size.strip() if isinstance(size, str) else size
    return parsed


def _split_pairs(limits: str) -> list[tuple[str, str]]:
    pairs = [(*part.split("=", 1), "")[:2] for part in limits.split(",") if part.strip()]
    return [(str(device), str(size)) for device, size in pairs]


def parse_ids(sequences: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """Parse sequences of token ids, such as "1,2,3" or "[1 2 3]".

    Raises UsageError for an empty sequence and for anything but whole numbers from 0 on.
    """
    parsed = []
    for sequence in sequences:
        words = [word for word in re.split(r"[\s,]+", sequence.strip(" [],")) if word]
        if not words or not all(word.isascii() and word.isdecimal() for word in words):
            raise UsageError(
                f"{sequence!r} is not a list of token ids",
                'give comma-separated whole numbers from 0 on: --ids "1,2,3"',
            )
        parsed.append(tuple(int(word) for word in words))
    return tuple(parsed)
