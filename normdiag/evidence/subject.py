"""What was analysed: the target, how it was loaded, and what was run through it."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class InputSummary:
    """The inputs that were run."""

    kind: str
    """"texts" (built in), "user-texts", "inputs", "random-ids", "random" (no text), "none"."""
    sequences: int
    tokens: int
    """Tokens that are not padding, over all sequences."""
    texts: tuple[str, ...] = ()
    seed: int | None = None
    note: str | None = None
    """Why the probe is what it is, where that is worth saying."""
    digest: str | None = None
    """crc32 of all token ids; null where the inputs are none."""


@record
class Versions:
    """What computed the numbers."""

    normdiag: str
    torch: str | None
    transformers: str | None


@record
class OmittedSetting:
    """A setting that config.json leaves out and that decides what is computed.

    The tensors are the same with another value, so that nothing in the checkpoint tells which one
    is meant."""

    setting: str
    value: str
    """The default of the class, which was taken."""
    alternative: str
    """What was tried in its place."""
    effect: str
    """What is so by the default, such as the placement of a stack."""
    alternative_effect: str
    """What would be so with the other value."""


@record
class Loading:
    """What the loader could not match between checkpoint and model. Names are parameter names."""

    missing: tuple[str, ...] = ()
    """In the model, not in the checkpoint: newly initialised, so their numbers say nothing."""
    unexpected: tuple[str, ...] = ()
    """In the checkpoint, not in the model."""
    mismatched: tuple[str, ...] = ()
    """In both, with shapes that differ."""
    norm_parameters: tuple[str, ...] = ()
    """Those of the above that are parameters of a norm (found in the graph), or one-dimensional."""
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
