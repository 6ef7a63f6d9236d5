"""Check the records of a torch archive against the sizes in its pickle, without unpickling.

Read with a memory map, torch takes the bytes behind a record that is too short for its own.
"""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from normdiag.errors import LoadError

_ELEMENT_BYTES = {
    "UntypedStorage": 1, "ByteStorage": 1, "CharStorage": 1, "BoolStorage": 1,
    "ShortStorage": 2, "HalfStorage": 2, "BFloat16Storage": 2,
    "IntStorage": 4, "FloatStorage": 4, "LongStorage": 8, "DoubleStorage": 8,
    "ComplexFloatStorage": 8, "ComplexDoubleStorage": 16,
}  # fmt: skip
_PUSHES = frozenset({"GLOBAL", "STACK_GLOBAL"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


def is_stored_archive(path: Path) -> bool:
    """Whether `path` is a zip archive without compression, which can be mapped into memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            return all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError):
        return False


def check_storage_records(path: Path) -> None:
    """Raise LoadError for a record whose size is not that of the storage it holds.

    A pickle that cannot be followed is left to the loader, which refuses what is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            pickled = [name for name in sizes if name.rpartition("/")[2] == "data.pkl"]
            content = {name: archive.read(name) for name in pickled}
        for name, raw in content.items():
            folder = name[: -len("data.pkl")]
            for key, expected in _iterate_storages(raw):
                actual = sizes.get(f"{folder}data/{key}")
                if actual is not None and actual != expected:
                    raise LoadError(
                        f"{path} is damaged: its record data/{key} has {actual} bytes, and the "
                        f"tensor it holds takes {expected}",
                        "copy or download it again",
                    )
    except (zipfile.BadZipFile, pickle.UnpicklingError, ValueError, NotImplementedError, OSError):
        return


def _iterate_storages(raw: bytes) -> Iterator[tuple[str, int]]:
    """Key and bytes of every storage: persistent ids ("storage", class, key, device, elements)."""
    values: list[Any] = []
    memo: dict[Any, Any] = {}
    for opcode, argument, _ in pickletools.genops(raw):
        if opcode.name in _GETS:
            values.append(memo.get(argument))
        elif opcode.name in _PUTS and values:
            memo[argument] = values[-1]
        elif opcode.name == "MEMOIZE" and values:
            memo[len(memo)] = values[-1]
        elif opcode.name == "BINPERSID":
            yield from _parse_persistent_id(values[-5:])
        elif opcode.name in _PUSHES or isinstance(argument, (str, int)):
            values.append(argument)


def _parse_persistent_id(values: list[Any]) -> Iterator[tuple[str, int]]:
    if len(values) < 5 or not isinstance(values[1], str) or not isinstance(values[4], int):
        return
    element = _ELEMENT_BYTES.get(values[1].rpartition(" ")[2])
    if values[0] == "storage" and element is not None:
        yield str(values[2]), values[4] * element
