"""Find the weight files of a checkpoint and check that they are complete, without unpickling."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from normdiag.errors import LoadError
from normdiag.loading.archive_records import check_storage_records
from normdiag.loading.config_file import read_json_object
from normdiag.loading.safetensors_header import read_safetensors_header

# In the order in which transformers looks for them.
STANDARD = ("model.safetensors", "pytorch_model.bin")
INDEX_SUFFIX = ".index.json"
FileFormat = Literal["safetensors", "pickle"]
_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class WeightFiles:
    """The files that hold the weights of one checkpoint."""

    format: FileFormat
    paths: tuple[Path, ...]

    def check(self) -> None:
        """Raise LoadError for the first file that is empty, a pointer, truncated or damaged."""
        for path in self.paths:
            _refuse_placeholder(path)
            if self.format == "safetensors":
                read_safetensors_header(path)
            else:
                _check_archive(path)


def single_file(path: Path) -> WeightFiles:
    """The weights of a checkpoint in one file."""
    return WeightFiles("safetensors" if path.suffix == ".safetensors" else "pickle", (path,))


def find_weight_files(folder: Path) -> WeightFiles | None:
    """Find the weights of `folder` that transformers would load, or None.

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
    """List the files of an index, in its order. Raises LoadError where one is missing."""
    files = read_shard_index(index)
    names = tuple(dict.fromkeys(files.values()))
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        affected = sum(name in missing for name in files.values())
        raise LoadError(
            f"{len(missing)} of {len(names)} shards missing in {index.parent}: "
            f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}; "
            f"{affected} of {len(files)} tensors are in them",
            "the download is incomplete: download the missing files",
        )
    return tuple(index.parent / name for name in names)


def read_shard_index(index: Path) -> dict[str, str]:
    """Read tensor -> file from an index. Raises LoadError for a file outside its folder."""
    files = read_json_object(index).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise LoadError(f"{index} has no weight_map (tensor -> file)", "export the model again")
    for tensor, name in files.items():
        if not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
            raise LoadError(
                f"{index} places {tensor} in {name!r}, which is not a file name",
                "shards must be in the directory of their index; other paths are not followed",
            )
    return files


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
        raise LoadError(f"{path} is a web page, not weights", "log in and download it again")


def _check_archive(path: Path) -> None:
    """Raise LoadError where the zip directory at the end of a torch archive is missing."""
    with path.open("rb") as file:
        is_archive = file.read(4) == b"PK\x03\x04"
    if is_archive and not zipfile.is_zipfile(path):
        raise LoadError(
            f"{path} is truncated: {path.stat().st_size} bytes present, "
            "and the directory at the end of the archive is missing",
            "copy or download it again",
        )
    if is_archive:
        _refuse_program(path)
        check_storage_records(path)


def _refuse_program(path: Path) -> None:
    """Raise LoadError for an archive that holds a program with the weights inside."""
    with zipfile.ZipFile(path) as archive:
        is_script = any(name.endswith("/constants.pkl") for name in archive.namelist())
    if is_script:
        raise LoadError(
            f"{path} is a TorchScript archive: a program, not weights alone",
            "pass a factory (file.py:function) that returns torch.jit.load of it",
        )
