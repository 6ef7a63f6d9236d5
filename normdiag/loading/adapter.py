"""A LoRA, or another adapter of peft's, merged into its base model.

Merging changes weights and keeps the modules of the base, so adapted model and base can be compared
site by site.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normdiag.errors import LoadError, UsageError
from normdiag.loading.config_file import read_json_object
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.interface import LoadedModel, LoadedTarget, Source
from normdiag.loading.weight_files import WeightFiles, single_file
from normdiag.options import LoadingOptions
from normdiag.progress import Progress

if TYPE_CHECKING:
    import torch
    from torch import nn

CONFIG = "adapter_config.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")


@dataclass(frozen=True)
class Adapter:
    """An adapter whose files are complete. Whether it fits a model shows when it is merged."""

    folder: Path
    settings: Mapping[str, Any]
    weights: WeightFiles

    def merge_into(self, model: nn.Module, tensors: int) -> nn.Module:
        """Merge into `model` in place.

        Raises LoadError where a tensor of the adapter has no counterpart in the model.
        """
        from peft import PeftModel

        requires_grad = {path: p.requires_grad for path, p in model.named_parameters()}
        device = str(next(model.parameters()).device)
        name = type(model).__name__
        try:
            adapted = PeftModel.from_pretrained(model, self.folder, torch_device=device)
            tuner: Any = adapted.base_model
            if not hasattr(tuner, "merge_and_unload"):
                raise self._unmergeable_error()
            # a second time, because the first does not return the unmatched keys
            keys = adapted.load_adapter(self.folder, "default", torch_device=device)
            self._refuse_unmatched(name, keys.unexpected_keys, keys.missing_keys, tensors)
            merged: nn.Module = tuner.merge_and_unload()
        except (LoadError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise self._misfit_error(name, describe_exception(error)) from error
        for path, parameter in merged.named_parameters():  # peft froze what it did not add
            parameter.requires_grad_(requires_grad.get(path, parameter.is_floating_point()))
        return merged.eval()

    def describe_merge(self, tensors: int) -> str:
        """Describe the merge for the notes of the report."""
        base = self.settings.get("base_model_name_or_path")
        trained_on = f", trained on {base!r}" if base else ""
        details = f"{self._adapter_type}, {tensors} tensors{trained_on}"
        return f"merged with the adapter {self.folder} ({details})"

    def _refuse_unmatched(
        self, name: str, unexpected: list[str], missing: list[str], tensors: int
    ) -> None:
        """Raise LoadError for unmatched tensors, which peft ignores: the merge would be partial."""
        if unexpected:
            raise self._misfit_error(
                name,
                f"{len(unexpected)} of its {tensors} tensors have no counterpart in the model, "
                f"such as {unexpected[0]}",
            )
        if missing:
            raise self._misfit_error(
                name,
                f"{len(missing)} tensors that the model needs are missing, such as {missing[0]}",
            )

    def _misfit_error(self, name: str, reason: str) -> LoadError:
        base = self.settings.get("base_model_name_or_path")
        return LoadError(
            f"the adapter {self.folder} does not fit {name}: {reason}",
            f"pass the base model that it was trained on as the target: {base!r}"
            if base
            else "pass the base model it was trained on as the target (the adapter names none)",
        )

    def _unmergeable_error(self) -> LoadError:
        return LoadError(
            f"the adapter {self.folder} is of type {self._adapter_type}, which changes no weights "
            "and cannot be merged",
            "inspect the base model without it",
        )

    @property
    def _adapter_type(self) -> str:
        return str(self.settings.get("peft_type"))


@dataclass(frozen=True)
class AdaptedModel:
    """A base model and the adapter to merge into it."""

    base: Source
    adapter: Adapter

    def load_contents(self, progress: Progress) -> LoadedTarget:
        """Load the base model and merge the adapter into it."""
        loaded = self.base.load_contents(progress)
        if not isinstance(loaded, LoadedModel):
            return loaded
        from normdiag.loading.silence_libraries import silence_libraries
        from normdiag.loading.stored_tensors import stored_tensors

        progress.start_stage("merging the adapter")
        adapter_tensors = stored_tensors(self.adapter.weights)
        count = sum(1 for _ in adapter_tensors({}))  # rejects an unsafe pickle before peft opens it
        with silence_libraries(progress):
            model = self.adapter.merge_into(loaded.model, count)

        def read_tensors(_: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
            # always from disk: the weights in memory are merged
            return chain(loaded.tensors({}), adapter_tensors({}))

        notes = (*loaded.notes, self.adapter.describe_merge(count))
        return replace(loaded, model=model, notes=notes, tensors=read_tensors)


def open_adapter(folder: Path, options: LoadingOptions) -> Adapter:
    """Check the files, without torch.

    Raises LoadError for missing files, UsageError where the options exclude an adapter.
    """
    if options.weights_only or options.structure_only:
        mode = "weights_only" if options.weights_only else "structure_only"
        raise UsageError(
            f"adapter {folder} and {mode} exclude each other",
            "an adapter is merged into a model that is run; leave one of the two out",
        )
    if not folder.is_dir():
        raise LoadError(
            f"the adapter {folder} is no directory", f"pass the directory with {CONFIG}"
        )
    if not (folder / CONFIG).is_file():
        raise LoadError(f"{folder} is no adapter: {CONFIG} is missing", "check the path")
    if importlib.util.find_spec("peft") is None:
        raise LoadError(
            f"{folder} is an adapter, and the package peft, which loads it, is not installed",
            'pip install "normdiag[adapters]"',
        )
    settings = read_json_object(folder / CONFIG)
    if settings.get("megatron_config") and not options.trust_remote_code:
        raise LoadError(
            f"{folder / CONFIG} asks for the import of {settings.get('megatron_core')!r}",
            "remove megatron_config, or pass --trust-remote-code",
        )
    return Adapter(folder, settings, _find_adapter_weights(folder))


def refuse_adapter(folder: Path) -> None:
    """Raise LoadError where `folder` holds an adapter in place of a model."""
    path = folder / CONFIG
    if not path.is_file():
        return
    try:
        base = json.loads(path.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (ValueError, AttributeError, RecursionError):
        base = None
    raise LoadError(
        f"{folder} is an adapter ({CONFIG}), not a model; its base model is {base!r}",
        f"pass the base model as the target and merge the adapter: --adapter {folder}",
    )


def refuse_adapter_for_module(folder: str | Path) -> None:
    """Raise UsageError: merging would change the weights of the caller's module."""
    raise UsageError(
        f"adapter {folder} cannot be merged into a module that exists already",
        "merge it before: peft.PeftModel.from_pretrained, then merge_and_unload",
    )


def _find_adapter_weights(folder: Path) -> WeightFiles:
    for name in _WEIGHTS:
        if (folder / name).is_file():
            weights = single_file(folder / name)
            weights.check()
            return weights
    raise LoadError(
        f"{folder} has an {CONFIG} and no weights ({' and '.join(_WEIGHTS)} are missing)",
        "the download is incomplete: download the missing files",
    )
