"""The class that a checkpoint is loaded as: its own, a base class, or its remote code."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import transformers

from normdiag.errors import LoadError
from normdiag.loading.config_file import ConfigFile


def needs_checkpoint_code(settings: ConfigFile) -> bool:
    """Whether only the code in the checkpoint (`auto_map`) defines its model."""
    if not settings.auto_map:
        return False
    is_known = settings.model_type in transformers.CONFIG_MAPPING
    return not is_known or (
        settings.architecture_class is not None
        and find_transformers_class(settings.architecture_class) is None
        and _find_auto_class(settings) is not None
    )


def refuse_checkpoint_code(settings: ConfigFile) -> None:
    """Raise LoadError: the checkpoint's code is not run without permission."""
    code = ", ".join(f"{auto} -> {place}" for auto, place in list(settings.auto_map.items())[:3])
    raise LoadError(
        f"{settings.path} asks to run code that comes with the checkpoint ({code})",
        "read that code, then run it with --trust-remote-code, "
        "or check the tensors without it: --weights-only",
    )


def load_config(folder: Path, settings: ConfigFile | None, **extra: Any) -> Any:
    """Load transformers' configuration of `folder`; `extra` names a GGUF or allows its code."""
    if settings is None or extra.get("trust_remote_code"):
        return transformers.AutoConfig.from_pretrained(folder, **extra)
    model_type = settings.model_type
    if model_type in transformers.CONFIG_MAPPING:
        return transformers.AutoConfig.from_pretrained(folder, **extra)
    native = find_transformers_class(settings.architecture_class)
    if model_type is None and native is not None:  # configurations older than `model_type`
        return native.config_class.from_pretrained(folder)
    raise _unknown_type_error(settings)


def choose_model_class(
    config: Any, settings: ConfigFile | None, *, own_code: bool
) -> tuple[Any, str]:
    """Choose the class to load, with a note where the checkpoint names another."""
    if settings is not None and own_code and (auto := _find_auto_class(settings)):
        from transformers.dynamic_module_utils import get_class_from_dynamic_module

        place = settings.auto_map[auto]
        return get_class_from_dynamic_module(
            place, settings.path.parent
        ), f"code of {place} was run"
    names = getattr(config, "architectures", None) or [None]
    if settings is not None and _is_sentence_encoder(settings.path.parent):
        encoder = find_base_class(config)
        if encoder is not None:
            return encoder, f"a sentence encoder (modules.json); loaded as {encoder.__name__}"
    if (native := find_transformers_class(names[0])) is not None:
        return native, ""
    base = find_base_class(config)
    if base is None:
        raise LoadError(
            f"transformers {transformers.__version__} has neither {names[0]} nor a base class for "
            f"model_type {config.model_type!r}",
            "upgrade transformers, or pass a factory (file.py:function) that builds the model",
        )
    if names[0] is None:
        return base, f"the configuration names no class; loaded as {base.__name__} (AutoModel)"
    return base, f"transformers has no {names[0]}; loaded as {base.__name__} (AutoModel)"


def choose_language_model(config: Any) -> tuple[Any, str]:
    """The class with a language model's head, for weights that name no class and have one."""
    for mapping in (
        transformers.MODEL_FOR_CAUSAL_LM_MAPPING,
        transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    ):
        chosen = mapping.get(type(config), None)
        if chosen is not None:
            chosen = chosen[0] if isinstance(chosen, tuple) else chosen
            return chosen, f"the file names no class; loaded as {chosen.__name__}, with its head"
    return choose_model_class(config, None, own_code=False)


def find_base_class(config: Any) -> Any | None:
    """The class that AutoModel builds from `config`, without a head; None where it knows none."""
    base = transformers.MODEL_MAPPING.get(type(config), None)
    return base[0] if isinstance(base, tuple) else base


def _is_sentence_encoder(folder: Path) -> bool:
    """Whether `folder` holds a pipeline of sentence-transformers whose first module it is.

    Such a pipeline loads its transformer by AutoModel: `architectures` in the configuration is what
    the encoder was trained from, and its head is not stored.
    """
    modules = folder / "modules.json"
    if not modules.is_file():
        return False
    try:
        listed = json.loads(modules.read_text(encoding="utf-8"))
    except ValueError:  # some other tool's file: `architectures` decides
        return False
    first = listed[0] if isinstance(listed, list) and listed else None
    kind = first.get("type") if isinstance(first, dict) and first.get("path") == "" else None
    return isinstance(kind, str) and kind.endswith(".Transformer")


def find_transformers_class(name: str | None) -> Any | None:
    """Look up a transformers model class by name; other attributes of the package are ignored."""
    value = getattr(transformers, name, None) if name else None
    is_model = isinstance(value, type) and issubclass(value, transformers.PreTrainedModel)
    return value if is_model else None


def select_sub_config(config: Any, chosen: Any) -> Any:
    """The part of a composite configuration that `chosen`, such as a text model, is built from."""
    expected: Any = getattr(chosen, "config_class", None)
    text = getattr(type(config), "sub_configs", {}).get("text_config")
    if expected is not None and expected is text and type(config) is not expected:
        return config.get_text_config()
    return config


def _find_auto_class(settings: ConfigFile) -> str | None:
    """The `auto_map` entry of the checkpoint's class, or else of any model class."""
    models = {auto: ref for auto, ref in settings.auto_map.items() if auto.startswith("AutoModel")}
    for auto, place in models.items():
        if str(place).rpartition(".")[2] == settings.architecture_class:
            return auto
    return next(iter(models), None)


def _unknown_type_error(settings: ConfigFile) -> LoadError:
    version = transformers.__version__
    if settings.model_type is None:
        named = (
            f" and architectures {settings.architecture_class!r}"
            if settings.architecture_class
            else ""
        )
        return LoadError(
            f"{settings.path} has no model_type{named}, so the model class is unknown",
            "add model_type, or pass a factory (file.py:function) that builds the model",
        )
    near = difflib.get_close_matches(settings.model_type, list(transformers.CONFIG_MAPPING.keys()))
    similar = f" (similar: {', '.join(near)})" if near else ""
    return LoadError(
        f"{settings.path}: transformers {version} does not know model_type "
        f"{settings.model_type!r}{similar}",
        "upgrade transformers, pass a factory (file.py:function) that builds the model, or check "
        "the tensors alone: --weights-only",
    )
