"""Which files of a checkpoint hold weights, and whether they are whole. Nothing is unpickled."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from normdiag.errors import LoadError
from normdiag.loading.config_file import read_json_object
from normdiag.loading.safetensors_header import read_safetensors_header

# In the order in which transformers looks for them.
STANDARD = ("model.safetensors", "pytorch_model.bin")
INDEX_SUFFIX = ".index.json"
_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class WeightFiles:
    """The files that hold the weights of one checkpoint."""

    format: Literal["safetensors", "pickle"]
    paths: tuple[Path, ...]

    def check(self) -> None:
        """Raise LoadError for the first file that is empty, a pointer, cut or damaged."""
        for path in self.paths:
            _refuse_placeholder(path)
            if self.format == "safetensors":
                read_safetensors_header(path)
            else:
                _check_archive(path)


def single_file(path: Path) -> WeightFiles:
    """`path` as all the weights there are."""
    return WeightFiles("safetensors" if path.suffix == ".safetensors" else "pickle", (path,))


def find_weight_files(folder: Path) -> WeightFiles | None:
    """The weights of `folder` as transformers would choose them, or None.

    Raises LoadError for a missing shard.
    """
    for name in STANDARD:
        if (folder / name).is_file():
            return single_file(folder / name)
        index = folder / (name + INDEX_SUFFIX)
        if index.is_file():
            return WeightFiles(single_file(folder / name).format, list_shards(index))
    return None


def list_shards(index: Path) -> tuple[Path, ...]:
    """The files that an index names, in its order. Raises LoadError where one is missing."""
    places = read_shard_index(index)
    names = tuple(dict.fromkeys(places.values()))
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        lost = sum(name in missing for name in places.values())
        raise LoadError(
            f"{len(missing)} of {len(names)} shards missing in {index.parent}: "
            f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}; "
            f"{lost} of {len(places)} tensors are in them",
            "the download is incomplete: fetch what is missing",
        )
    return tuple(index.parent / name for name in names)


def read_shard_index(index: Path) -> dict[str, str]:
    """Tensor -> file, as an index has it. Raises LoadError for a place outside its folder."""
    places = read_json_object(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise LoadError(f"{index} has no weight_map (tensor -> file)", "export the model again")
    for tensor, name in places.items():
        if not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
            raise LoadError(
                f"{index} puts {tensor} in {name!r}, which is no file name",
                "shards lie beside their index; a path that leads elsewhere is not followed",
            )
    return places


def _refuse_placeholder(path: Path) -> None:
    size = path.stat().st_size
    if size == 0:
        raise LoadError(f"{path} is empty (0 bytes)", "copy or download it again")
    with path.open("rb") as file:
        start = file.read(200)
    if start.startswith(_POINTER):
        stated = [line for line in start.decode(errors="replace").splitlines() if "size" in line]
        raise LoadError(
            f"{path} is a Git LFS pointer of {size} bytes, not the weights"
            f"{' (' + stated[0] + ' bytes)' if stated else ''}",
            "run `git lfs pull` in the repository",
        )
    if start.lstrip()[:5].lower() in (b"<!doc", b"<html"):
        raise LoadError(f"{path} is a web page, not weights", "download it again, logged in")


def _check_archive(path: Path) -> None:
    """torch's archives are zip files, whose directory stands at the end: cut files lack it."""
    with path.open("rb") as file:
        is_archive = file.read(4) == b"PK\x03\x04"
    if is_archive and not zipfile.is_zipfile(path):
        raise LoadError(
            f"{path} is truncated: {path.stat().st_size} bytes found, "
            "and the directory at the end of the archive is missing",
            "copy or download it again",
        )
