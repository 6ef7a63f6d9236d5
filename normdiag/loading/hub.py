"""A repository of the hub, downloaded into the local cache and opened as a directory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from normdiag.errors import LoadError
from normdiag.loading.checkpoint_directory import CheckpointDirectory, open_directory
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.silence_libraries import silence_hub
from normdiag.loading.target_reference import TargetReference
from normdiag.loading.weight_files import INDEX_SUFFIX, STANDARD, read_shard_index
from normdiag.options import LoadingOptions
from normdiag.progress import Progress

_DESCRIPTION = ["*.json", "*.txt", "*.model", "*.spm", "*.tiktoken", "*.jinja"]

DownloadFiles = Callable[[list[str]], Path]


def open_hub(name: str, options: LoadingOptions, progress: Progress) -> CheckpointDirectory:
    """Download into the local cache what loading needs and is not there yet, and open it.

    Raises LoadError where the repository, the revision or the network is missing.
    """
    download_files = partial(_download_snapshot, name, options.revision)
    progress.start_stage(f"looking up {name}")
    code = ["*.py"] if options.trust_remote_code else []
    folder = download_files(_DESCRIPTION + code)
    if not (options.random_init or options.structure_only):
        _download_weights(folder, download_files, progress)
    reference = TargetReference(kind="directory", target=name, path=folder)
    try:
        return open_directory(reference, options)
    except LoadError as error:
        raise LoadError(f"{name}: {error.what}", error.hint) from error


def _download_weights(folder: Path, download: DownloadFiles, progress: Progress) -> None:
    """Download the first weight format that the repository has, in transformers' order."""
    for name in STANDARD:
        index = folder / (name + INDEX_SUFFIX)
        names = list(dict.fromkeys(read_shard_index(index).values())) if index.is_file() else [name]
        progress.start_stage("downloading weights", len(names))
        for shard in names:
            download([shard])
            progress.advance_stage()
        if any((folder / shard).is_file() for shard in names):
            return


def _download_snapshot(name: str, revision: str | None, patterns: list[str]) -> Path:
    from huggingface_hub import errors, snapshot_download

    try:
        with silence_hub():
            return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except errors.GatedRepoError as error:
        raise LoadError(
            f"{name} is gated: its owner grants access",
            "request access on its page, then run `hf auth login`",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise LoadError(
            f"{name} has no revision {revision!r}", f"give a branch, tag or commit of {name}"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise LoadError(
            f"the hub has no model {name!r}, and no local path has this name",
            "check the spelling; for a private repository run `hf auth login`",
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise LoadError(
            f"{name} is neither a path here nor in the local hub cache, and the hub is unreachable",
            "check the network connection, or download the model and pass its directory",
        ) from error
    except Exception as error:  # whatever the hub's transport raises
        raise LoadError(
            f"{name} cannot be downloaded: {describe_exception(error)}", "try again later"
        ) from error
