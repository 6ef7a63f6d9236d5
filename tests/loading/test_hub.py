"""The hub, from a local cache and without a network."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import constants, errors

from normdiag.errors import LoadError
from normdiag.loading import hub
from normdiag.loading.interface import LoadedModel
from normdiag.loading.load_target import load_target, open_source
from normdiag.options import LoadingOptions
from normdiag.progress import NoProgress
from tests.loading.recorded_progress import RecordedProgress

Load = Callable[..., LoadedModel]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no hub to reach."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def cached_llama(cache: Path, llama_dir: Path) -> Path:
    """org/llama as the hub client leaves it after a download."""
    repository = cache / "models--org--llama"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    return Path(shutil.copytree(llama_dir, repository / "snapshots" / COMMIT))


@pytest.mark.usefixtures("cached_llama")
def test_what_the_cache_has_is_loaded(run: Load) -> None:
    loaded = run("org/llama")
    assert loaded.class_name == "LlamaForCausalLM"
    assert loaded.tokenizer is not None
    assert len(dict(loaded.tensors({}))) > 10


@pytest.mark.usefixtures("cached_llama")
def test_a_revision_is_honoured(run: Load) -> None:
    assert run("org/llama", revision=COMMIT).class_name == "LlamaForCausalLM"
    with pytest.raises(LoadError, match="org/llama is neither a path here nor in"):
        load_target("org/llama", LoadingOptions(revision="f" * 40))


@pytest.mark.usefixtures("cache")
def test_no_network_is_reported_at_once() -> None:
    with pytest.raises(LoadError, match="the hub is unreachable") as caught:
        load_target("org/name")
    assert "pass its directory" in str(caught.value.hint)


def test_errors_of_the_checkpoint_name_the_repository(cached_llama: Path) -> None:
    (cached_llama / "model.safetensors").unlink()
    with pytest.raises(LoadError, match=r"^org/llama: .* a config\.json and no weights"):
        load_target("org/llama")


class Remote:
    """Stands in for the hub: a fetch copies what matches, and is written down."""

    def __init__(self, files: Path, local: Path) -> None:
        self.files, self.local = files, local
        self.asked: list[list[str]] = []
        local.mkdir()

    def __call__(self, name: str, revision: str | None, allow_patterns: list[str]) -> str:
        self.asked.append(allow_patterns)
        for path in self.files.iterdir():
            if any(path.match(pattern) for pattern in allow_patterns):
                shutil.copy(path, self.local)
        return str(self.local)


@pytest.fixture
def remote(copy_of_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remote:
    fake = Remote(copy_of_llama, tmp_path / "snapshot")
    monkeypatch.setattr("huggingface_hub.snapshot_download", fake)
    monkeypatch.chdir(tmp_path)
    return fake


def test_only_the_first_kind_of_weights_is_fetched(remote: Remote) -> None:
    (remote.files / "pytorch_model.bin").touch()
    (remote.files / "flax_model.msgpack").touch()
    (remote.files / "modeling.py").touch()
    open_source("org/llama")
    fetched = {path.name for path in remote.local.iterdir()}
    assert "model.safetensors" in fetched
    assert not fetched & {"pytorch_model.bin", "flax_model.msgpack", "modeling.py"}


def test_pickles_are_fetched_where_there_is_nothing_else(remote: Remote) -> None:
    (remote.files / "model.safetensors").rename(remote.files / "pytorch_model.bin")
    with pytest.raises(LoadError):  # it holds no pickle, but it is found
        list(load_target("org/llama", LoadingOptions(weights_only=True)).tensors({}))
    assert (remote.local / "pytorch_model.bin").exists()


def test_shards_are_downloaded_one_by_one_with_progress(remote: Remote, run: Load) -> None:
    run(remote.files).model.save_pretrained(remote.files, max_shard_size="30KB")
    progress = RecordedProgress()
    open_source("org/llama", progress=progress)
    shards = sorted(path.name for path in remote.local.glob("*.safetensors"))
    assert len(shards) > 2
    assert progress.events[-len(shards) - 1 :] == [("downloading weights", len(shards))] + [
        1
    ] * len(shards)
    assert all([shard] in remote.asked for shard in shards)


@pytest.mark.parametrize("way", ["random_init", "structure_only"])
def test_no_weights_are_fetched_where_none_are_wanted(remote: Remote, way: str) -> None:
    open_source("org/llama", LoadingOptions(**{way: True}))
    assert not (remote.local / "model.safetensors").exists()


def test_code_is_fetched_only_when_it_may_run(remote: Remote) -> None:
    (remote.files / "modeling.py").touch()
    open_source("org/llama", LoadingOptions(trust_remote_code=True))
    assert (remote.local / "modeling.py").exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.RepositoryNotFoundError, "the hub has no model 'org/llama'"),
        (errors.GatedRepoError, "org/llama is gated"),
        (errors.RevisionNotFoundError, "org/llama has no revision 'v9'"),
        (errors.LocalEntryNotFoundError, "the hub is unreachable"),
        (errors.HfHubHTTPError, "org/llama cannot be downloaded"),
    ],
)
def test_errors_of_the_hub_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], message: str
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raised = error.__new__(error)
        raised.args = ("404",)
        raise raised

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(LoadError, match=message) as caught:
        hub.open_hub("org/llama", LoadingOptions(revision="v9"), NoProgress())
    assert caught.value.hint
