"""A transformers model from a folder, through `from_pretrained`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
import transformers

from normdiag.errors import LoadError, translate_foreign_errors
from normdiag.evidence.subject import Loading
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.device_and_dtype import (
    META_DEVICE,
    prepare_model,
    resolve_device,
    resolve_dtype,
)
from normdiag.loading.device_map import (
    Placement,
    describe_placement,
    offload_to_main_memory,
    plan_placement,
)
from normdiag.loading.interface import LoadedModel
from normdiag.loading.loading_remedies import remedy_loading
from normdiag.loading.loading_summary import (
    describe_quantisation,
    refuse_no_match,
    summarise_loading,
)
from normdiag.loading.model_class import (
    choose_language_model,
    choose_model_class,
    load_config,
    needs_checkpoint_code,
    refuse_checkpoint_code,
    select_sub_config,
)
from normdiag.loading.offloaded_weights import complete_tied_entries
from normdiag.loading.pretrained_files import LoadedWeights, ModelChoice, PretrainedFiles
from normdiag.loading.silence_libraries import silence_libraries
from normdiag.loading.tokenizer import load_tokenizer
from normdiag.options import LoadingOptions
from normdiag.progress import Progress

if TYPE_CHECKING:
    from normdiag.loading.interface import TensorReader


@dataclass(frozen=True)
class BuiltModel:
    """A model, how it was loaded, and the reader of the tensors that it was loaded from."""

    model: Any
    loading: Loading
    notes: tuple[str, ...]
    tensors: TensorReader
    release: Callable[[], None] = lambda: None
    """Removes what was written for the model."""


def load_pretrained(
    checkpoint: PretrainedFiles, options: LoadingOptions, progress: Progress
) -> LoadedModel:
    """Build the model that the checkpoint's configuration describes and load its weights.

    Raises LoadError for a configuration that describes no model, for remote code without
    permission, for weights none of which fit, and for errors of transformers itself.
    """
    device = META_DEVICE if options.structure_only else resolve_device(options.device)
    is_from_config = options.random_init or options.structure_only
    with silence_libraries(progress), torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)  # for parameters missing in the checkpoint
        choice = _choose_model(checkpoint, options)
        build = _build_from_config if is_from_config else _build_from_weights
        with translate_foreign_errors(
            lambda error: _explain_error(error, checkpoint, choice, options)
        ):
            built = build(checkpoint, options, choice)
        tokenizer, unusable = _find_tokenizer(checkpoint, options)
        model = prepare_model(built.model, None if options.device_map else device)
        complete_tied_entries(model)
        if options.device_map == "cpu":
            model = offload_to_main_memory(model, device)
    return LoadedModel(
        model=model,
        config=model.config,
        tokenizer=tokenizer,
        notes=tuple(
            note
            for note in (choice.note, *built.notes, unusable, describe_placement(model))
            if note
        ),
        loading=built.loading,
        tensors=built.tensors,
        model_type=choice.config.model_type,
        class_name=type(model).__name__,
        mode=_loading_mode(options),
        config_fields=checkpoint.settings.fields if checkpoint.settings else None,
        restore=built.release,
    )


def _loading_mode(options: LoadingOptions) -> Literal["run", "random-init", "structure-only"]:
    if options.structure_only:
        return "structure-only"
    return "random-init" if options.random_init else "run"


def _find_tokenizer(
    checkpoint: PretrainedFiles, options: LoadingOptions
) -> tuple[Any | None, str | None]:
    if options.structure_only:  # without values, which tokens are run makes no difference
        return None, None
    return load_tokenizer(checkpoint.folder, checkpoint.gguf_file, trust=options.trust_remote_code)


def _choose_model(checkpoint: PretrainedFiles, options: LoadingOptions) -> ModelChoice:
    settings, dtype = checkpoint.settings, resolve_dtype(options.dtype)
    extra: dict[str, Any] = {}
    own_code = settings is not None and needs_checkpoint_code(settings)
    if settings is not None and own_code and not options.trust_remote_code:
        refuse_checkpoint_code(settings)
    if checkpoint.gguf_file is not None:
        extra["gguf_file"] = checkpoint.gguf_file
    where = settings.path if settings else checkpoint.folder / (checkpoint.gguf_file or "")
    with translate_foreign_errors(
        lambda error: LoadError(
            f"{where} describes no model: {describe_exception(error)}",
            "correct that field, or check the tensors without it: --weights-only",
        )
    ):
        config = load_config(checkpoint.folder, settings, trust_remote_code=own_code, **extra)
        if checkpoint.is_language_model:
            chosen, note = choose_language_model(config)
        else:
            chosen, note = choose_model_class(config, settings, own_code=own_code)
    return ModelChoice(chosen, select_sub_config(config, chosen), dtype, note)


def _build_from_config(
    checkpoint: PretrainedFiles, options: LoadingOptions, choice: ModelChoice
) -> BuiltModel:
    with META_DEVICE if options.structure_only else nullcontext():
        model, stated = choice.model_class(choice.config), choice.config.dtype
    dtype = choice.dtype or (stated if isinstance(stated, torch.dtype) else torch.float32)
    notes = [f"weights are random (seed {options.seed}), drawn by the configuration"]
    if options.structure_only:
        notes = ["built from the configuration; no weights were read"]
    settings = checkpoint.settings
    if settings is not None and settings.quantisation_method is not None:
        notes.append(
            f"the stored weights are quantised ({settings.quantisation_method}); these are not"
        )
    model = model.to(dtype)
    return BuiltModel(model, Loading(), tuple(notes), _iterate_state_dict(model))


def _build_from_weights(
    checkpoint: PretrainedFiles, options: LoadingOptions, choice: ModelChoice
) -> BuiltModel:
    def build_empty() -> torch.nn.Module:
        with META_DEVICE:
            model: torch.nn.Module = choice.model_class(choice.config)
            return model

    placement = plan_placement(options, resolve_device(options.device), build_empty)

    def load_again(files: PretrainedFiles, chosen: ModelChoice) -> LoadedWeights:
        return _load_weights(files, options, chosen, placement)

    with ExitStack() as undo:
        undo.callback(placement.release)
        loaded = remedy_loading(load_again(checkpoint, choice), load_again)
        refuse_no_match(loaded.model, loaded.info)
        loading, notes = summarise_loading(loaded.model, loaded.info)
        loading = replace(loading, cut=loaded.cut, renamed=loaded.renamed)
        notes = (*loaded.notes, *notes)
        settings = checkpoint.settings
        if settings is not None and settings.quantisation_method is not None:
            notes += (describe_quantisation(loaded.model, settings.quantisation_method),)
        return BuiltModel(
            loaded.model, loading, notes, loaded.files.tensors, release=undo.pop_all().close
        )


def _load_weights(
    checkpoint: PretrainedFiles, options: LoadingOptions, choice: ModelChoice, placement: Placement
) -> LoadedWeights:
    extra = dict(placement.arguments)
    if checkpoint.gguf_file is not None:
        extra["gguf_file"] = checkpoint.gguf_file
        if hasattr(
            transformers, "GgufConfig"
        ):  # otherwise weights stay quantised where a kernel runs them
            extra["quantization_config"] = transformers.GgufConfig(dequantize=True)
    state_dict = checkpoint.state_dict() if checkpoint.state_dict is not None else None
    model, info = choice.model_class.from_pretrained(
        checkpoint.folder if state_dict is None else None,
        config=choice.config,
        state_dict=state_dict,
        dtype=choice.dtype or "auto",
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # reported with all other parameters that were not loaded
        trust_remote_code=options.trust_remote_code,
        local_files_only=True,
        **extra,
    )
    return LoadedWeights(model, info, checkpoint, choice)


def _explain_error(
    error: BaseException, checkpoint: PretrainedFiles, choice: ModelChoice, options: LoadingOptions
) -> LoadError:
    """Turn an exception of transformers into a LoadError with a remedy."""
    settings, name = checkpoint.settings, choice.model_class.__name__
    if settings is not None and settings.quantisation_method is not None:
        return LoadError(
            f"the weights are quantised ({settings.quantisation_method}) and cannot be run here: "
            f"{describe_exception(error)}",
            "install the backend it names, or check the stored tensors without it: --weights-only",
        )
    if isinstance(error, ImportError):
        return LoadError(f"{name} needs a package: {describe_exception(error)}", "install it")
    if options.device_map is not None:
        return LoadError(
            f"{name} cannot be loaded with device_map {options.device_map!r}: "
            f"{describe_exception(error)}",
            "max_memory must name devices of this machine, with room for the largest layer; what "
            "cannot be read as it is stored is written to offload_folder, which needs free space",
        )
    what = checkpoint.gguf_file or "config.json and the weights"
    return LoadError(
        f"{name} cannot be built from {what}: {describe_exception(error, with_location=True)}",
        "a field of the configuration is wrong or belongs to another class; --weights-only checks "
        "the tensors alone",
    )


def _iterate_state_dict(model: torch.nn.Module) -> TensorReader:
    return lambda _: iter(model.state_dict().items())
