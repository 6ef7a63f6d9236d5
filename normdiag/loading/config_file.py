"""`config.json` as a stranger wrote it: read strictly, before any of it is acted on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normdiag.errors import LoadError

_DAMAGED = "the file is damaged, or not a transformers configuration"
_TYPES: dict[str, type] = {
    "model_type": str,
    "architectures": list,
    "auto_map": dict,
    "quantization_config": dict,
    "dtype": str,
    "torch_dtype": str,
}
_IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")


@dataclass(frozen=True)
class ConfigFile:
    """The fields that decide how a checkpoint is loaded, with their types checked."""

    path: Path
    fields: dict[str, Any]

    @property
    def model_type(self) -> str | None:
        """The family, a key of transformers' table of configurations."""
        name: str | None = self._typed_field("model_type")
        return name

    @property
    def architecture_class(self) -> str | None:
        """The class that wrote the checkpoint."""
        names = self._typed_field("architectures")
        if not names:
            return None
        if not isinstance(names[0], str):
            raise LoadError(
                f"{self.path}: architectures[0] is {names[0]!r}, not a class name", _DAMAGED
            )
        return names[0]

    @property
    def auto_map(self) -> dict[str, str]:
        """Classes that the checkpoint brings as code: auto class -> where its code is."""
        return self._typed_field("auto_map") or {}

    @property
    def quantisation_method(self) -> str | None:
        """The method, where the weights are stored quantised."""
        declared = self._typed_field("quantization_config")
        return (
            None if declared is None else str(declared.get("quant_method", "of no stated method"))
        )

    def check(self) -> None:
        """Raise LoadError for the first of these fields that has the wrong type."""
        for key in _TYPES:
            self._typed_field(key)
        _ = self.architecture_class

    def hub_kernels(self) -> list[str]:
        """Implementations that would be fetched from the hub and run: code by another name."""
        return [name for name in _iterate_implementations(self.fields) if "/" in name]

    def _typed_field(self, key: str) -> Any:
        value, wanted = self.fields.get(key), _TYPES[key]
        if value is None or isinstance(value, wanted):
            return value
        raise LoadError(
            f"{self.path}: {key} is {value!r} ({type(value).__name__}), "
            f"where a {wanted.__name__} belongs",
            _DAMAGED,
        )


def read_config(folder: Path) -> ConfigFile | None:
    """The configuration in `folder`, or None. Raises LoadError where it is not a JSON object."""
    path = folder / "config.json"
    if not path.is_file():
        return None
    return ConfigFile(path, read_json_object(path))


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON file that must be an object. Raises LoadError that says where it is not JSON."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise LoadError(
            f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            "download or export it again; an interrupted download leaves half a file",
        ) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise LoadError(f"{path} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise LoadError(f"{path} holds a {type(fields).__name__}, where an object belongs")
    return fields


def _iterate_implementations(fields: dict[str, Any]) -> Iterator[str]:
    for key, value in fields.items():
        if any(name in key for name in _IMPLEMENTATIONS):
            yield from (str(v) for v in (value.values() if isinstance(value, dict) else [value]))
        elif isinstance(value, dict):
            yield from _iterate_implementations(value)
