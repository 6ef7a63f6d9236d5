"""What is run through the model when nobody says exactly what, and what is said of it."""

from __future__ import annotations

import zlib
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from normdiag.errors import UsageError
from normdiag.evidence.subject import InputSummary
from normdiag.inputs.batch import Batch, ProbeOptions
from normdiag.inputs.example_inputs import authors_inputs, guessed_input
from normdiag.inputs.multimodal_inputs import with_towers
from normdiag.inputs.padding import token_mask
from normdiag.inputs.requirements import (
    forward_parameters,
    main_input,
    needed_inputs,
)
from normdiag.inputs.synthetic_inputs import beside_text, synthetic
from normdiag.inputs.text_inputs import (
    Sequence,
    added_special_tokens,
    batches,
    built_in_texts,
    random_ids,
    user_ids,
    user_texts,
)
from normdiag.inputs.user_inputs import batches_from_inputs, read_inputs_file
from normdiag.loading.interface import LoadedModel, silent
from normdiag.loading.library_output import silence_libraries

__all__ = ["Batch", "ProbeOptions", "build_inputs", "summarise_inputs", "batches_from_inputs", "read_inputs_file"]

Told = tuple[str, int | None, str | None]
"""Kind, seed and note of a probe."""
Built = tuple[tuple[Batch, ...], InputSummary, tuple[str, ...]]


def build_inputs(runnable: LoadedModel, options: ProbeOptions) -> Built:
    """The batches, what they are, and the special tokens that the tokenizer added.

    In this order: the user's ids or texts, what the module's author gives, the built-in texts
    where there is a tokenizer for them, seeded token ids, seeded noise of the shape that the
    configuration or the first weight tells. Raises UsageError for texts or ids that this model
    cannot be given, RunError where no input can be made.
    """
    # Tokenizers warn of texts that are longer than the model; those are cut, and that is said.
    with silence_libraries(silent) if runnable.tokenizer is not None else nullcontext():
        return _build(runnable, options)


def _build(runnable: LoadedModel, options: ProbeOptions) -> Built:
    if options.ids is not None or options.texts is not None:
        return _users(runnable, options)
    if (given := authors_inputs(runnable)) is not None:
        made = batches_from_inputs(given, model=runnable.model)
        return made, summarise_inputs(made, "inputs", note="the factory's own inputs"), ()
    if options.chat:
        raise UsageError("a chat was asked for without a text", "give one: --text")
    name = main_input(runnable.model)
    if name is None:
        value, note = guessed_input(runnable, options.seed)
        made = batches_from_inputs(value, model=runnable.model)
        kind = "random" if value.is_floating_point() else "random-ids"
        return made, summarise_inputs(made, kind, seed=options.seed, note=note), ()
    if name != "input_ids" and "input_ids" not in needed_inputs(runnable.model):
        made = (synthetic(runnable, name, options.seed),)
        return made, summarise_inputs(made, "random", seed=options.seed, note=f"noise as {name}"), ()
    return _without_texts(runnable, options)


def summarise_inputs(
    made: tuple[Batch, ...], kind: str, *, seed: int | None = None, note: str | None = None
) -> InputSummary:
    """What the batches are. Tokens that `attention_mask` leaves out are not counted."""
    texts = {row: text for b in made for row, text in zip(b.rows, b.texts, strict=False)}
    return InputSummary(
        kind=kind,
        sequences=sum(len(batch.rows) for batch in made),
        tokens=sum(_tokens(batch) for batch in made),
        texts=tuple(texts[row] for row in sorted(texts)),
        seed=seed,
        note=note,
        digest=_digest(made),
    )


def _digest(made: tuple[Batch, ...]) -> str | None:
    """Of the token ids of all batches, in order."""
    if not made or any(batch.ids is None for batch in made):
        return None
    return f"{zlib.crc32(repr([batch.ids for batch in made]).encode()):08x}"


def _users(runnable: LoadedModel, options: ProbeOptions) -> Built:
    if main_input(runnable.model) is not None and not _takes_ids(runnable):
        raise UsageError(
            f"{runnable.class_name} takes no token ids", "give what it takes with --inputs FILE"
        )
    note: str | None = None
    if options.ids is not None:
        sequences, kind = user_ids(runnable, options.ids), "inputs"
        note = "token ids as given"
    elif runnable.mode == "structure-only":
        raise UsageError(
            "texts were given, and without values it is all one which are run",
            "leave them out; token ids (--ids) give another length",
        )
    elif runnable.tokenizer is None:
        raise UsageError(
            "texts were given, and the target has no tokenizer", "give token ids: --ids"
        )
    else:
        sequences, note = user_texts(runnable, options)
        kind = "user-texts"
    return _of_sequences(runnable, options, sequences, (kind, None, note))


def _without_texts(runnable: LoadedModel, options: ProbeOptions) -> Built:
    sequences: list[Sequence] = []
    why: str | None = "no tokenizer"
    if runnable.tokenizer is not None:
        sequences, why = built_in_texts(runnable, options)
    if sequences:
        told: Told = ("texts", None, None)
    else:
        sequences = random_ids(runnable, options.seed)
        told = ("random-ids", options.seed, f"{why}: seeded token ids")
    made, probe, special = _of_sequences(runnable, options, sequences, told)
    first, note = with_towers(runnable, options.seed)
    if first is not None:
        later = (replace(b, rows=tuple(row + 1 for row in b.rows)) for b in made)
        made = (first, *later)
    if note is not None:
        note = "; ".join(part for part in (probe.note, note) if part)
        probe = summarise_inputs(made, probe.kind, seed=probe.seed, note=note)
    return made, probe, special


def _of_sequences(
    runnable: LoadedModel,
    options: ProbeOptions,
    sequences: list[Sequence],
    told: Told,
) -> Built:
    kind, seed, note = told
    made = tuple(
        beside_text(runnable, batch, options.seed) for batch in batches(runnable, sequences)
    )
    more = _beside(made[0]) if made else ""
    said = "; ".join(part for part in (note, more) if part) or None
    special = added_special_tokens(runnable, sequences)
    return made, summarise_inputs(made, kind, seed=seed, note=said), special


def _beside(batch: Batch) -> str:
    """What the model is given beside the text, in words."""
    parts = []
    if "decoder_input_ids" in batch.inputs:
        start = int(batch.inputs["decoder_input_ids"][0, 0])
        parts.append(f"the decoder reads the same tokens one place later, behind token {start}")
    if "pixel_values" in batch.inputs:
        parts.append("seeded noise as images")
    return "; ".join(parts)


def _takes_ids(runnable: LoadedModel) -> bool:
    return "input_ids" in forward_parameters(runnable.model)


def _tokens(batch: Batch) -> int:
    mask = token_mask(batch)
    if mask is not None:
        return int(mask.sum())
    if batch.ids is not None:
        return sum(map(len, batch.ids))
    for value in (*batch.args, *batch.inputs.values()):
        if isinstance(value, torch.Tensor) and value.ndim == 3:
            return int(value.shape[0] * value.shape[1])
    return 0
