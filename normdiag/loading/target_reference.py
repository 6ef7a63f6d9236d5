"""What a target string means: a hub id, a directory, a file of weights or a factory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from normdiag.errors import LoadError, UsageError

TargetKind = Literal["hub", "directory", "safetensors", "gguf", "checkpoint", "factory"]

FORMS = (
    'a target is a hub id ("org/name"), a checkpoint directory, a .safetensors, .bin or .gguf '
    'file, or a factory ("package.module:function" or "file.py:function")'
)

_SUFFIXES: dict[str, TargetKind] = {
    ".safetensors": "safetensors",
    ".gguf": "gguf",
    ".bin": "checkpoint",
    ".pt": "checkpoint",
    ".pth": "checkpoint",
    ".ckpt": "checkpoint",
}
_FACTORY = re.compile(r"(?P<module>.+):(?P<factory>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_HUB_ID = re.compile(r"(?!.*(?:--|\.\.))\w[\w.-]*(?:/\w[\w.-]*)?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class TargetReference:
    """A parsed target. `path` is set for local targets, `module` and `factory` for code."""

    kind: TargetKind
    target: str
    path: Path | None = None
    module: str | None = None
    factory: str | None = None

    @property
    def local_path(self) -> Path:
        """The path of a local target. Raises ValueError for any other."""
        if self.path is None:
            raise ValueError(f"{self.target} is not a path")
        return self.path


def parse_target(target: str) -> TargetReference:
    """Parse a target. An existing path takes precedence over every other form.

    Raises UsageError for an empty target and LoadError for a path that does not exist, a file
    of an unknown type and a string that is none of the forms.
    """
    if not target.strip():
        raise UsageError("the target is empty", FORMS)
    path = Path(os.path.expanduser(target))  # noqa: PTH111  (pathlib raises for an unknown user)
    if os.path.isdir(path):  # noqa: PTH112  (pathlib raises for names that no file can have)
        return TargetReference(kind="directory", target=target, path=path)
    if os.path.exists(path):  # noqa: PTH110
        return TargetReference(kind=_detect_file_kind(path), target=target, path=path)
    if match := _FACTORY.fullmatch(target):
        return _parse_factory(target, match["module"], match["factory"])
    if _resembles_path(target):
        raise LoadError(f"{target} does not exist", _missing_path_advice(path))
    if _HUB_ID.fullmatch(target):
        return TargetReference(kind="hub", target=target)
    raise LoadError(f"{target!r} is not a valid target", FORMS)


def _detect_file_kind(path: Path) -> TargetKind:
    if kind := _SUFFIXES.get(path.suffix.lower()):
        return kind
    if path.suffix == ".py":
        raise LoadError(
            f"{path} is a Python file without the name of the function that builds the model",
            f"append it: {path}:build",
        )
    if path.suffix == ".pt2":
        raise LoadError(
            f"{path} is a program of torch.export, not weights alone",
            "pass a factory (file.py:function) that returns torch.export.load(path).module()",
        )
    if path.name.endswith(".index.json"):
        raise LoadError(f"{path} is the index of a sharded checkpoint", f"pass {path.parent}")
    with path.open("rb") as file:
        if file.read(4) == b"GGUF":  # content-addressed stores keep them without a suffix
            return "gguf"
    raise LoadError(f"{path} is a file of unknown type ({path.suffix or 'no suffix'})", FORMS)


def _parse_factory(target: str, module: str, factory: str) -> TargetReference:
    if module.endswith(".py"):
        path = Path(module).expanduser()
        if not path.is_file():
            raise LoadError(f"{module} does not exist", _missing_path_advice(path))
        return TargetReference(kind="factory", target=target, path=path, factory=factory)
    if _MODULE.fullmatch(module):
        return TargetReference(kind="factory", target=target, module=module, factory=factory)
    raise LoadError(
        f"{target!r} names a factory in {module!r}, which is neither a module nor a .py file", FORMS
    )


def _resembles_path(target: str) -> bool:
    return (
        target.startswith((".", "/", "~"))
        or "\\" in target
        or target.endswith("/")
        or target.count("/") > 1
        or Path(target).suffix.lower() in {*_SUFFIXES, ".py", ".json"}
    )


def _missing_path_advice(path: Path) -> str:
    missing = path
    while not os.path.exists(missing.parent):  # noqa: PTH110
        missing = missing.parent
    if set(missing.name) & set("*?["):
        return f"nothing in {missing.parent.absolute()} matches {missing.name}"
    return f"{missing.name} is not in {missing.parent.absolute()}; check the spelling"
