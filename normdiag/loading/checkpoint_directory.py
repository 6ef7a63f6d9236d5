"""A local checkpoint directory, as `save_pretrained` writes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from normdiag.errors import LoadError
from normdiag.evidence.subject import Loading
from normdiag.loading.adapter import refuse_adapter
from normdiag.loading.config_file import ConfigFile, read_config
from normdiag.loading.interface import CheckpointTensors, LoadedTarget
from normdiag.loading.target_reference import TargetReference
from normdiag.loading.tensor_shapes import read_tensor_shapes
from normdiag.loading.weight_files import WeightFiles, find_weight_files
from normdiag.options import LoadingOptions
from normdiag.progress import Progress

if TYPE_CHECKING:
    from normdiag.loading.interface import TensorReader


@dataclass(frozen=True)
class CheckpointDirectory:
    """A directory whose configuration is readable and whose weight files are complete."""

    folder: Path
    settings: ConfigFile | None
    weights: WeightFiles | None
    options: LoadingOptions

    def load_contents(self, progress: Progress) -> LoadedTarget:
        """Load the model through transformers, or the tensors alone."""
        if self.settings is None and self.options.structure_only and self.weights is not None:
            return read_tensor_shapes(self.weights)
        progress.start_stage("importing torch and transformers")
        from normdiag.loading.stored_tensors import stored_shapes, stored_tensors

        weights = self.weights or WeightFiles("safetensors", ())
        tensors = stored_tensors(weights)
        from normdiag.loading.stored_twice import find_stored_twice

        stored_twice = find_stored_twice(self.weights)
        if self.options.weights_only:
            labelled = label_tensors(self.settings, tensors)
            return replace(labelled, loading=Loading(stored_twice=stored_twice))
        from normdiag.loading.pretrained import load_pretrained
        from normdiag.loading.pretrained_files import PretrainedFiles

        checkpoint = PretrainedFiles(
            folder=self.folder,
            settings=self.settings,
            tensors=tensors,
            shapes=lambda: stored_shapes(weights),
        )
        try:
            loaded = load_pretrained(checkpoint, self.options, progress)
        except LoadError:
            _recheck_pickles(self.weights)
            raise
        return replace(loaded, loading=replace(loaded.loading, stored_twice=stored_twice))


def label_tensors(settings: ConfigFile | None, tensors: TensorReader) -> CheckpointTensors:
    """Label the tensors with model type and class of the configuration, where it is readable."""
    notes = ["no model was built; the stored tensors were read"]
    model_type = class_name = None
    try:
        if settings is not None:
            model_type, class_name = settings.model_type, settings.architecture_class
    except LoadError as error:
        notes.append(error.what)
    return CheckpointTensors(
        tensors=tensors,
        model_type=model_type,
        class_name=class_name,
        loading=Loading(),
        notes=tuple(notes),
    )


def open_directory(reference: TargetReference, options: LoadingOptions) -> CheckpointDirectory:
    """Find configuration and weights in a directory. Raises LoadError for missing files."""
    folder = reference.local_path
    refuse_adapter(folder)
    settings = read_config(folder)
    if settings is not None and not options.weights_only:
        settings.check()
        refuse_hub_kernels(settings, options)
    if settings is not None and (options.random_init or options.structure_only):
        return CheckpointDirectory(folder, settings, None, options)
    if options.random_init:
        raise missing_config_error(f"{folder} has no config.json")
    weights = find_weight_files(folder)
    if weights is None:
        raise _missing_weights_error(folder, settings)
    weights.check()
    if settings is None and not options.weights_only and not can_read_shapes(weights, options):
        raise missing_config_error(f"{folder} has no config.json")
    return CheckpointDirectory(folder, settings, weights, options)


def can_read_shapes(weights: WeightFiles, options: LoadingOptions) -> bool:
    """Whether names and shapes suffice, and can be read from the files' headers."""
    return options.structure_only and weights.format == "safetensors"


def missing_config_error(what: str) -> LoadError:
    """The error for weights without a configuration."""
    return LoadError(
        f"{what}, so the model of the weights is unknown",
        "add the model's config.json; without it, --weights-only checks the tensors, "
        "--structure-only reads names and shapes of .safetensors, "
        "and a factory (file.py:function) can build any module",
    )


def refuse_hub_kernels(settings: ConfigFile, options: LoadingOptions) -> None:
    """Raise LoadError where loading would download kernels from the hub and run them."""
    if (kernels := settings.hub_kernels()) and not options.trust_remote_code:
        raise LoadError(
            f"{settings.path} asks for kernels from the hub, which are code: {', '.join(kernels)}",
            "remove that field, or pass --trust-remote-code",
        )


def _missing_weights_error(folder: Path, settings: ConfigFile | None) -> LoadError:
    names = sorted(path.name for path in folder.iterdir())
    if not names:
        return LoadError(
            f"{folder} is empty", "pass a checkpoint directory, with config.json and weights"
        )
    by_suffix = {s: [n for n in names if n.endswith(s)] for s in (".gguf", ".safetensors", ".bin")}
    if gguf := by_suffix[".gguf"]:
        return LoadError(
            f"{folder} holds GGUF files and no transformers weights: {', '.join(gguf[:3])}",
            f"pass the file: {folder / gguf[0]}",
        )
    if others := by_suffix[".safetensors"] or by_suffix[".bin"]:
        return LoadError(
            f"{folder} holds weights under non-standard names only: {', '.join(others[:3])}",
            f"pass the file: {folder / others[0]}",
        )
    if settings is not None:
        return LoadError(
            f"{folder} has a config.json and no weights (none of {', '.join(_STANDARD_WEIGHTS)})",
            "--random-init draws weights by the configuration; --structure-only needs no weights",
        )
    inner = [str(folder / name) for name in names if (folder / name / "config.json").is_file()]
    return LoadError(
        f"{folder} is no checkpoint: none of its {len(names)} entries is config.json or weights",
        f"it contains checkpoint directories: {', '.join(inner[:5])}"
        if inner
        else "check the path",
    )


_STANDARD_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "an index of shards")


def _recheck_pickles(weights: WeightFiles | None) -> None:
    """Raise LoadError with the name of an unreadable pickle, which torch's message lacks."""
    if weights is not None and weights.format == "pickle":
        from normdiag.loading.torch_pickle import read_torch_pickle

        for path in weights.paths:
            read_torch_pickle(path)
