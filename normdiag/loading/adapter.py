"""A LoRA, or another adapter of peft's, put on its base: the model that the two of them make.

The adapter is merged into the weights that it changes, so every module stays where the base has
it, and adapted model and base can be compared site by site.
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
    """An adapter whose files are whole. Whether it fits a model shows when it is put on one."""

    folder: Path
    settings: Mapping[str, Any]
    weights: WeightFiles

    def merge_into(self, model: nn.Module, tensors: int) -> nn.Module:
        """`model`, changed in place. Raises LoadError where not all of the adapter has a place."""
        from peft import PeftModel

        learns = {path: p.requires_grad for path, p in model.named_parameters()}
        device = str(next(model.parameters()).device)
        name = type(model).__name__
        try:
            adapted = PeftModel.from_pretrained(model, self.folder, torch_device=device)
            tuner: Any = adapted.base_model
            if not hasattr(tuner, "merge_and_unload"):
                raise self._unmergeable_error()
            # the second time because the first does not say what found no place
            told = adapted.load_adapter(self.folder, "default", torch_device=device)
            self._refuse_unmatched(name, told.unexpected_keys, told.missing_keys, tensors)
            merged: nn.Module = tuner.merge_and_unload()
        except LoadError:
            raise
        except Exception as error:
            raise self._misfit_error(name, describe_exception(error)) from error
        for path, parameter in merged.named_parameters():  # peft froze what it did not add
            parameter.requires_grad_(learns.get(path, parameter.is_floating_point()))
        return merged.eval()

    def describe_merge(self, tensors: int) -> str:
        """What was merged, for the report."""
        base = self.settings.get("base_model_name_or_path")
        made_for = f", made for {base!r}" if base else ""
        return f"merged with the adapter {self.folder} ({self._adapter_type}, {tensors} tensors{made_for})"

    def _refuse_unmatched(
        self, name: str, unexpected: list[str], missing: list[str], tensors: int
    ) -> None:
        """peft passes over what finds no place: what runs would be the base, or half of each."""
        if unexpected:
            raise self._misfit_error(
                name,
                f"{len(unexpected)} of its {tensors} tensors have no place there, such as "
                f"{unexpected[0]}",
            )
        if missing:
            raise self._misfit_error(
                name, f"it lacks {len(missing)} tensors that it needs there, such as {missing[0]}"
            )

    def _misfit_error(self, name: str, why: str) -> LoadError:
        base = self.settings.get("base_model_name_or_path")
        return LoadError(
            f"the adapter {self.folder} does not fit {name}: {why}",
            f"give the base that it was made for as the target: {base!r}"
            if base
            else "give the base that it was made for as the target; the adapter does not name it",
        )

    def _unmergeable_error(self) -> LoadError:
        return LoadError(
            f"the adapter {self.folder} is of the kind {self._adapter_type}, which changes no weights and "
            "so cannot be merged",
            "inspect the base without it",
        )

    @property
    def _adapter_type(self) -> str:
        return str(self.settings.get("peft_type"))


@dataclass(frozen=True)
class AdaptedModel:
    """A base and the adapter that is put on it."""

    base: Source
    adapter: Adapter

    def load_contents(self, progress: Progress) -> LoadedTarget:
        """The base with the adapter merged into it."""
        loaded = self.base.load_contents(progress)
        if not isinstance(loaded, LoadedModel):
            return loaded
        from normdiag.loading.library_output import silence_libraries
        from normdiag.loading.stored_tensors import stored_tensors

        progress.start_stage("merging the adapter")
        of_adapter = stored_tensors(self.adapter.weights)
        count = sum(1 for _ in of_adapter({}))  # refuses a bad pickle before peft opens it
        with silence_libraries(progress):
            model = self.adapter.merge_into(loaded.model, count)

        def tensors(_: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
            # always from disk: what is in memory is neither the base's nor the adapter's
            return chain(loaded.tensors({}), of_adapter({}))

        notes = (*loaded.notes, self.adapter.describe_merge(count))
        return replace(loaded, model=model, notes=notes, tensors=tensors)


def open_adapter(folder: Path, options: LoadingOptions) -> Adapter:
    """Check the files, without torch.

    Raises LoadError for what lacks, UsageError where the request has no use for an adapter.
    """
    if options.weights_only or options.structure_only:
        wanted = "weights only were" if options.weights_only else "the structure only was"
        raise UsageError(
            f"the adapter {folder} was given, and {wanted} asked for",
            "an adapter is merged into a model that runs; leave one of the two out",
        )
    if not folder.is_dir():
        raise LoadError(f"the adapter {folder} is no directory", f"give the one that has {CONFIG}")
    if not (folder / CONFIG).is_file():
        raise LoadError(f"{folder} is no adapter: it has no {CONFIG}", "check the path")
    if importlib.util.find_spec("peft") is None:
        raise LoadError(
            f"{folder} is an adapter, and the package peft that reads it is not installed",
            'pip install "normdiag[adapters]"',
        )
    settings = read_json_object(folder / CONFIG)
    if settings.get("megatron_config") and not options.trust_remote_code:
        raise LoadError(
            f"{folder / CONFIG} wants {settings.get('megatron_core')!r} imported",
            "take megatron_config out, or pass --trust-remote-code (trust_remote_code=True)",
        )
    return Adapter(folder, settings, _find_adapter_weights(folder))


def refuse_adapter(folder: Path) -> None:
    """Raise LoadError for an adapter where a model is wanted: its base is elsewhere."""
    path = folder / CONFIG
    if not path.is_file():
        return
    try:
        base = json.loads(path.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (ValueError, AttributeError, RecursionError):
        base = None
    raise LoadError(
        f"{folder} is an adapter ({CONFIG}), not a model; its base is {base!r}",
        f"give the base as the target and put the adapter on it: --adapter {folder}",
    )


def refuse_adapter_for_module(folder: str | Path) -> None:
    """Raise UsageError: merging changes the weights, and a given module is left as it is."""
    raise UsageError(
        f"the adapter {folder} was given with a module that exists already",
        "put it on the module yourself: peft.PeftModel.from_pretrained, then merge_and_unload",
    )


def _find_adapter_weights(folder: Path) -> WeightFiles:
    for name in _WEIGHTS:
        if (folder / name).is_file():
            weights = single_file(folder / name)
            weights.check()
            return weights
    raise LoadError(
        f"{folder} has an {CONFIG} and no weights (no {' and no '.join(_WEIGHTS)})",
        "the download is incomplete: fetch what is missing",
    )
