"""`config.json` of an untrusted checkpoint: types are checked before any field is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normdiag.errors import LoadError

_DAMAGED = "the file is damaged or is not a transformers configuration"
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
        """The model family, a key of transformers' CONFIG_MAPPING."""
        name: str | None = self._typed_field("model_type")
        return name

    @property
    def architecture_class(self) -> str | None:
        """The first of `architectures`: the class that wrote the checkpoint."""
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
        """Classes whose code comes with the checkpoint: auto class -> module and class name."""
        return self._typed_field("auto_map") or {}

    @property
    def quantisation_method(self) -> str | None:
        """The quantisation method; None where the weights are not stored quantised."""
        declared = self._typed_field("quantization_config")
        return None if declared is None else str(declared.get("quant_method", "unknown method"))

    def check(self) -> None:
        """Raise LoadError for the first field of a wrong type."""
        for key in _TYPES:
            self._typed_field(key)
        _ = self.architecture_class

    def hub_kernels(self) -> list[str]:
        """Attention and expert kernels that transformers would download from the hub and run."""
        return [name for name in _iterate_implementations(self.fields) if "/" in name]

    def _typed_field(self, key: str) -> Any:
        value, expected = self.fields.get(key), _TYPES[key]
        if value is None or isinstance(value, expected):
            return value
        raise LoadError(
            f"{self.path}: {key} is {value!r} of type {type(value).__name__}; expected "
            f"{expected.__name__}",
            _DAMAGED,
        )


def read_config(folder: Path) -> ConfigFile | None:
    """Read the configuration in `folder`, if there is one.

    Raises LoadError where it is not a JSON object.
    """
    path = folder / "config.json"
    if not path.is_file():
        return None
    return ConfigFile(path, read_json_object(path))


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises LoadError, with the place of a syntax error, for anything else."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise LoadError(
            f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            "download or export it again; the file may be cut off by an interrupted download",
        ) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise LoadError(f"{path} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise LoadError(f"{path} holds a JSON {type(fields).__name__}; expected an object")
    return fields


def _iterate_implementations(fields: dict[str, Any]) -> Iterator[str]:
    for key, value in fields.items():
        if any(name in key for name in _IMPLEMENTATIONS):
            yield from (str(v) for v in (value.values() if isinstance(value, dict) else [value]))
        elif isinstance(value, dict):
            yield from _iterate_implementations(value)
