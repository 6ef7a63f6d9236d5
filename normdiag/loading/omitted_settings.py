"""Settings that a configuration file omits, so that the default of the class applies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from normdiag.errors import LoadError
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.silence_libraries import silence_libraries
from normdiag.progress import NoProgress

if TYPE_CHECKING:
    from torch import nn


def omitted_settings(config: Any, written: Iterable[str]) -> dict[str, bool | float]:
    """Setting -> default, for omitted booleans and floats, which have an obvious alternative.

    Settings that every configuration has (of training, of generation) are excluded.
    """
    import transformers

    common = vars(transformers.PreTrainedConfig())
    aliases = getattr(config, "attribute_map", {})
    written = {*written, *(aliases.get(name, name) for name in written)}
    return {
        name: value
        for name, value in vars(config).items()
        if isinstance(value, (bool, float))
        and not name.startswith("_")
        and name not in written
        and name not in common
    }


def flip_setting(value: bool | float) -> bool | float:
    """The alternative: the opposite of a boolean, twice a float, 1 for 0."""
    if isinstance(value, bool):
        return not value
    return 2 * value if value else 1.0


def build_on_meta(model: nn.Module, settings: Mapping[str, bool | float]) -> nn.Module:
    """Build a model of the same class on the meta device with some settings changed.

    Raises LoadError where that fails.
    """
    import torch
    import transformers

    if not isinstance(model, transformers.PreTrainedModel):
        raise LoadError("the model has no transformers configuration to build it from")
    config = deepcopy(model.config)
    try:
        for name, value in settings.items():
            setattr(config, name, value)
        with silence_libraries(NoProgress()), torch.device("meta"):
            variant: nn.Module = type(model)._from_config(config)
        return variant.eval()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LoadError(
            f"the model cannot be built with {dict(settings)}: {describe_exception(error)}"
        ) from error
