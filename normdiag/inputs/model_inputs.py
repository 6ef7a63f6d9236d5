"""What is run through a model: the user's inputs, or inputs derived from the model itself."""

from __future__ import annotations

import zlib
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from normdiag.errors import UsageError
from normdiag.evidence.subject import InputSummary
from normdiag.inputs.batch import Batch
from normdiag.inputs.example_inputs import find_author_inputs, guess_input
from normdiag.inputs.input_requirements import InputRequirements, collect_requirements
from normdiag.inputs.multimodal_inputs import build_multimodal_batch
from normdiag.inputs.padding import token_mask
from normdiag.inputs.synthetic_inputs import add_companion_inputs, build_synthetic_batch
from normdiag.inputs.text_inputs import (
    TokenSequence,
    batch_by_length,
    check_user_ids,
    draw_random_ids,
    encode_built_in_texts,
    encode_user_texts,
    find_added_special_tokens,
)
from normdiag.inputs.user_inputs import batches_from_inputs, read_inputs_file
from normdiag.loading.interface import LoadedModel
from normdiag.loading.silence_libraries import silence_libraries
from normdiag.options import InputOptions
from normdiag.progress import NoProgress


class ModelInputs(NamedTuple):
    """The batches, a summary for the report, and the special tokens that the tokenizer added."""

    batches: tuple[Batch, ...]
    summary: InputSummary
    special_tokens: tuple[str, ...] = ()


def build_inputs(loaded: LoadedModel, options: InputOptions) -> ModelInputs:
    """Build the inputs that `options` ask for, or else inputs that the model can be run on.

    In this order: the user's inputs, token ids or texts; the inputs of the module's author; the
    built-in texts where there is a tokenizer for them; seeded token ids; seeded noise of the shape
    that the configuration or the first weight states.

    Raises:
        UsageError: for inputs, texts or ids that this model does not accept.
        RunError: where no input can be derived from the model.
    """
    requirements = collect_requirements(loaded)
    if options.inputs is not None:
        return _convert_user_inputs(requirements, options)
    # Tokenizers warn of texts longer than the model; those are truncated, as the summary notes.
    with silence_libraries(NoProgress()) if loaded.tokenizer is not None else nullcontext():
        if options.ids is not None or options.texts is not None:
            return _encode_user_sequences(requirements, options)
        if (author_inputs := find_author_inputs(loaded)) is not None:
            batches = batches_from_inputs(author_inputs, requirements)
            note = "inputs of the factory or module"
            return ModelInputs(batches, summarise_inputs(batches, "inputs", note=note))
        if options.chat:
            raise UsageError("chat needs a text to wrap in the template", "give one: --text")
        return _derive_inputs(loaded, requirements, options)


def summarise_inputs(
    batches: tuple[Batch, ...], kind: str, *, seed: int | None = None, note: str | None = None
) -> InputSummary:
    """Count sequences and tokens; tokens that `attention_mask` excludes are not counted."""
    texts = {row: text for b in batches for row, text in zip(b.rows, b.texts, strict=False)}
    return InputSummary(
        kind=kind,
        sequences=sum(len(batch.rows) for batch in batches),
        tokens=sum(_count_tokens(batch) for batch in batches),
        texts=tuple(texts[row] for row in sorted(texts)),
        seed=seed,
        note=note,
        digest=_digest_token_ids(batches),
    )


def _convert_user_inputs(requirements: InputRequirements, options: InputOptions) -> ModelInputs:
    inputs = options.inputs
    if isinstance(inputs, Path):
        inputs = read_inputs_file(inputs, requirements.dtype)
    batches = batches_from_inputs(inputs, requirements)
    return ModelInputs(batches, summarise_inputs(batches, "inputs"))


def _encode_user_sequences(requirements: InputRequirements, options: InputOptions) -> ModelInputs:
    if requirements.main_input is not None and "input_ids" not in requirements.parameters:
        raise UsageError(
            f"{requirements.class_name} takes no token ids",
            f"give it {requirements.main_input!r}: --inputs FILE",
        )
    if options.ids is not None:
        sequences = check_user_ids(requirements, options.ids)
        return _batch_sequences(
            requirements, sequences, options.seed, "inputs", "token ids of the user"
        )
    if requirements.is_structure_only:
        raise UsageError(
            "texts were given with structure-only, which loads no tokenizer",
            "leave them out; token ids (--ids) set another sequence length",
        )
    if requirements.tokenizer is None:
        raise UsageError(
            "texts were given, and the target has no tokenizer",
            "give --ids (token ids), in Python tokenizer=AutoTokenizer.from_pretrained(..)",
        )
    sequences, note = encode_user_texts(requirements, options)
    return _batch_sequences(requirements, sequences, options.seed, "user-texts", note)


def _derive_inputs(
    loaded: LoadedModel, requirements: InputRequirements, options: InputOptions
) -> ModelInputs:
    name, seed = requirements.main_input, options.seed
    if name is None:
        value, note = guess_input(requirements, seed)
        batches = batches_from_inputs(value, requirements)
        kind = "random" if value.is_floating_point() else "random-ids"
    elif name != "input_ids" and "input_ids" not in requirements.required_inputs:
        batches = (build_synthetic_batch(requirements, name, seed),)
        kind, note = "random", f"seeded noise as {name}"
    else:
        return _add_modalities(loaded, _derive_sequences(requirements, options), requirements, seed)
    return ModelInputs(batches, summarise_inputs(batches, kind, seed=seed, note=note))


def _derive_sequences(requirements: InputRequirements, options: InputOptions) -> ModelInputs:
    """The built-in texts, or seeded token ids where no tokenizer suits."""
    sequences: list[TokenSequence] = []
    reason: str | None = "no tokenizer"
    if requirements.tokenizer is not None:
        sequences, reason = encode_built_in_texts(requirements, options)
    if sequences:
        return _batch_sequences(requirements, sequences, options.seed, "texts")
    sequences, note = draw_random_ids(requirements, options.seed), f"{reason}: seeded token ids"
    inputs = _batch_sequences(requirements, sequences, options.seed, "random-ids", note)
    return inputs._replace(summary=replace(inputs.summary, seed=options.seed))


def _add_modalities(
    loaded: LoadedModel, inputs: ModelInputs, requirements: InputRequirements, seed: int
) -> ModelInputs:
    """Put a sequence with images, audio and video before the others, where the model reads them."""
    batches, summary, _ = inputs
    first, note = build_multimodal_batch(loaded.model, requirements, seed)
    if first is not None:
        later = (replace(b, rows=tuple(row + 1 for row in b.rows)) for b in batches)
        batches = (first, *later)
    if note is not None:
        note = "; ".join(part for part in (summary.note, note) if part)
        summary = summarise_inputs(batches, summary.kind, seed=summary.seed, note=note)
    return inputs._replace(batches=batches, summary=summary)


def _batch_sequences(
    requirements: InputRequirements,
    sequences: list[TokenSequence],
    seed: int,
    kind: str,
    note: str | None = None,
) -> ModelInputs:
    batches = tuple(
        add_companion_inputs(requirements, batch, seed)
        for batch in batch_by_length(requirements, sequences)
    )
    notes = [note, *(_describe_companions(batches[0]) if batches else ())]
    text = "; ".join(each for each in notes if each) or None
    special_tokens = find_added_special_tokens(requirements, sequences)
    return ModelInputs(batches, summarise_inputs(batches, kind, note=text), special_tokens)


def _describe_companions(batch: Batch) -> list[str]:
    """Describe the inputs other than the text."""
    notes = []
    if "decoder_input_ids" in batch.inputs:
        start = int(batch.inputs["decoder_input_ids"][0, 0])
        notes.append(f"decoder_input_ids: the same tokens shifted right, after token {start}")
    if "pixel_values" in batch.inputs:
        notes.append("seeded noise as images")
    return notes


def _digest_token_ids(batches: tuple[Batch, ...]) -> str | None:
    """crc32 of the token ids of all batches, in order."""
    if not batches or any(batch.ids is None for batch in batches):
        return None
    return f"{zlib.crc32(repr([batch.ids for batch in batches]).encode()):08x}"


def _count_tokens(batch: Batch) -> int:
    mask = token_mask(batch)
    if mask is not None:
        return int(mask.sum())
    if batch.ids is not None:
        return sum(map(len, batch.ids))
    for value in (*batch.args, *batch.inputs.values()):
        if isinstance(value, torch.Tensor) and value.ndim == 3:
            return int(value.shape[0] * value.shape[1])
    return 0
