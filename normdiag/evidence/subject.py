"""The analysed target, how it was loaded, and its inputs."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class InputSummary:
    """A summary of the inputs."""

    kind: str
    """"texts" (built in), "user-texts", "inputs", "random-ids", "random" (no text), "none"."""
    sequences: int
    tokens: int
    """Tokens that are not padding, over all sequences."""
    texts: tuple[str, ...] = ()
    seed: int | None = None
    note: str | None = None
    """Notes on how the inputs were made."""
    digest: str | None = None
    """crc32 of all token ids; null where the inputs are none."""


@record
class Versions:
    """Versions of the libraries that computed the numbers."""

    normdiag: str
    torch: str | None
    transformers: str | None


@record
class OmittedSetting:
    """A setting that config.json omits and that changes the computation.

    The tensors are the same for either value, so the checkpoint does not determine it."""

    setting: str
    value: str
    """The class default, which was used."""
    alternative: str
    """The alternative value that was tried."""
    effect: str
    """The structure with the default, such as the placement of a stack."""
    alternative_effect: str
    """The structure with the alternative."""


@record
class StoredTwice:
    """A tensor that lies in several files of a checkpoint, with different values."""

    tensor: str
    files: tuple[str, ...]


@record
class Loading:
    """Mismatches between checkpoint and model, by parameter name."""

    missing: tuple[str, ...] = ()
    """In the model, not in the checkpoint; newly initialised."""
    unexpected: tuple[str, ...] = ()
    """In the checkpoint, not in the model."""
    mismatched: tuple[str, ...] = ()
    """In both, with shapes that differ."""
    norm_parameters: tuple[str, ...] = ()
    """Those of the above that are parameters of a norm (found in the graph), or one-dimensional."""
    unbuilt_layers: tuple[str, ...] = ()
    """Layers that the checkpoint has beyond those that the configuration builds."""
    cut: tuple[str, ...] = ()
    """Parts of the stored names, each with its dot, that were cut so that they fit the model."""
    renamed: int = 0
    """Stored names that were cut."""
    stored_twice: tuple[StoredTwice, ...] = ()
    """Tensors that several files hold, with different values."""
    defaulted: tuple[OmittedSetting, ...] | None = None
    """Settings absent from config.json that decide the structure; null where not measured."""


@record
class Subject:
    """The subject of a report."""

    target: str
    model_type: str | None
    class_: str | None
    parameters: int | None
    dtype: str | None
    device: str
    probe: InputSummary
    versions: Versions
    weights_digest: str | None = None
    """crc32 of every tensor's bytes, hashed together with names, dtypes and shapes (sha256)."""
    command: str | None = None
    special_tokens: tuple[str, ...] = ()
    """The special tokens that the tokenizer added to the texts."""
    loading: Loading = Loading()
    mode: str = "run"
    """"run", "weights-only", "structure-only" or "random-init"."""
