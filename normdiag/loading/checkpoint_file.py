"""One file of weights, and the configuration in the same directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from normdiag.errors import LoadError
from normdiag.loading.checkpoint_directory import (
    can_read_shapes,
    label_tensors,
    missing_config_error,
    refuse_hub_kernels,
)
from normdiag.loading.config_file import ConfigFile, read_config
from normdiag.loading.interface import LoadedTarget
from normdiag.loading.target_reference import TargetReference
from normdiag.loading.tensor_shapes import read_tensor_shapes
from normdiag.loading.weight_files import (
    INDEX_SUFFIX,
    STANDARD,
    WeightFiles,
    list_shards,
    single_file,
)
from normdiag.options import LoadingOptions
from normdiag.progress import Progress


@dataclass(frozen=True)
class CheckpointFile:
    """A complete file of weights; `settings` is None only where tensors or shapes suffice."""

    settings: ConfigFile | None
    weights: WeightFiles
    options: LoadingOptions

    def load_contents(self, progress: Progress) -> LoadedTarget:
        """Load the model that the configuration beside the file describes, or the tensors alone."""
        if self.settings is None and self.options.structure_only:
            return read_tensor_shapes(self.weights)
        progress.start_stage("importing torch and transformers")
        from normdiag.loading.stored_tensors import stored_shapes, stored_tensors

        tensors = stored_tensors(self.weights)
        if self.options.weights_only:
            return label_tensors(self.settings, tensors)
        from normdiag.loading.pretrained import load_pretrained
        from normdiag.loading.pretrained_files import PretrainedFiles

        checkpoint = PretrainedFiles(
            folder=self.weights.paths[0].parent,
            settings=self.settings,
            tensors=tensors,
            shapes=lambda: stored_shapes(self.weights),
            state_dict=lambda: dict(tensors({})),
        )
        return load_pretrained(checkpoint, self.options, progress)


def open_checkpoint(reference: TargetReference, options: LoadingOptions) -> CheckpointFile:
    """Check the file and read the configuration beside it.

    Raises LoadError where the file is damaged or the configuration is missing.
    """
    path = reference.local_path
    weights = single_file(path)
    weights.check()
    settings = read_config(path.parent)
    if options.weights_only:
        return CheckpointFile(settings, weights, options)
    if settings is None and can_read_shapes(weights, options):
        return CheckpointFile(None, weights, options)
    if settings is None:
        raise missing_config_error(f"{path} has no config.json beside it")
    settings.check()
    refuse_hub_kernels(settings, options)
    _refuse_shard(path)
    return CheckpointFile(settings, weights, options)


def _refuse_shard(path: Path) -> None:
    for name in STANDARD:
        index = path.parent / (name + INDEX_SUFFIX)
        if index.is_file() and path in list_shards(index):
            raise LoadError(
                f"{path} is one of several shards ({index.name})", f"pass {path.parent}"
            )
