"""Settings that a configuration file does not hold, so that the class's default was taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from normdiag.errors import LoadError
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.library_output import silence_libraries
from normdiag.progress import NoProgress

if TYPE_CHECKING:
    from torch import nn


def omitted_settings(config: Any, written: Iterable[str]) -> dict[str, bool | float]:
    """Setting -> the default that was taken; booleans and fractions, which can be turned.

    Settings that every configuration has (of training, of generation) are left aside.
    """
    import transformers

    common = vars(transformers.PreTrainedConfig())
    other_names = getattr(config, "attribute_map", {})
    written = {*written, *(other_names.get(name, name) for name in written)}
    return {
        name: value
        for name, value in vars(config).items()
        if isinstance(value, (bool, float))
        and not name.startswith("_")
        and name not in written
        and name not in common
    }


def flip_setting(value: bool | float) -> bool | float:
    """Another value of the same setting."""
    if isinstance(value, bool):
        return not value
    return 2 * value if value else 1.0


def build_on_meta(model: nn.Module, settings: Mapping[str, bool | float]) -> nn.Module:
    """A model of the same class on the meta device, some of its settings changed.

    Raises LoadError where that cannot be built.
    """
    import torch
    import transformers

    if not isinstance(model, transformers.PreTrainedModel):
        raise LoadError("no configuration tells how to build the model anew")
    config = deepcopy(model.config)
    try:
        for name, value in settings.items():
            setattr(config, name, value)
        with silence_libraries(NoProgress()), torch.device("meta"):
            made: nn.Module = type(model)._from_config(config)
        return made.eval()
    except Exception as error:
        raise LoadError(
            f"it cannot be built with {dict(settings)}: {describe_exception(error)}"
        ) from error
