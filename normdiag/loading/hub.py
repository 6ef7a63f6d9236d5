"""A repository of the hub: fetched into the local cache, then a directory like any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from normdiag.errors import LoadError
from normdiag.loading.checkpoint_directory import CheckpointDirectory, open_directory
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.interface import Progress, Request
from normdiag.loading.library_output import silence_hub
from normdiag.loading.target_reference import TargetReference
from normdiag.loading.weight_files import INDEX_SUFFIX, STANDARD, read_shard_index

_DESCRIPTION = ["*.json", "*.txt", "*.model", "*.spm", "*.tiktoken", "*.jinja"]

FetchFiles = Callable[[list[str]], Path]


def open_hub(request: Request, progress: Progress) -> CheckpointDirectory:
    """Fetch what loading needs (what the cache has is not fetched again) and open it.

    Raises LoadError where the repository, the revision or the network is not there.
    """

    def fetch(patterns: list[str]) -> Path:
        return _download_snapshot(request, patterns)

    progress(f"looking up {request.target}", 0, None)
    code = ["*.py"] if request.trust_remote_code else []
    folder = fetch(_DESCRIPTION + code)
    if not (request.random_init or request.structure_only):
        _fetch_weights(folder, fetch, progress)
    reference = TargetReference(kind="directory", target=request.target, path=folder)
    try:
        return open_directory(reference, request)
    except LoadError as error:
        raise LoadError(f"{request.target}: {error.what}", error.hint) from error


def _fetch_weights(folder: Path, fetch: FetchFiles, progress: Progress) -> None:
    """The first kind of weights that the repository has, in transformers' order."""
    for name in STANDARD:
        index = folder / (name + INDEX_SUFFIX)
        names = list(dict.fromkeys(read_shard_index(index).values())) if index.is_file() else [name]
        for done, shard in enumerate(names):
            progress("fetching weights", done, len(names))
            fetch([shard])
        if any((folder / shard).is_file() for shard in names):
            progress("fetching weights", len(names), len(names))
            return


def _download_snapshot(request: Request, patterns: list[str]) -> Path:
    from huggingface_hub import errors, snapshot_download

    name, revision = request.target, request.revision
    try:
        with silence_hub():
            return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except errors.GatedRepoError as error:
        raise LoadError(
            f"{name} is gated: its owner decides who may download it",
            "ask for access on its page, then `hf auth login`",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise LoadError(
            f"{name} has no revision {revision!r}", "give a branch, a tag or a commit of it"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise LoadError(
            f"the hub has no model {name!r}, and there is no such path here",
            "check the spelling; a private repository needs `hf auth login`",
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise LoadError(
            f"{name} is neither a path here nor in the hub's local cache, and the hub cannot be "
            f"reached",
            "connect, or download the model elsewhere and pass its directory",
        ) from error
    except Exception as error:  # whatever its transport raises when a download breaks off
        raise LoadError(f"{name} cannot be fetched: {describe_exception(error)}", "try again later") from error
