"""Texts and token ids as batches of equal length: padding never enters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from normdiag.errors import UsageError
from normdiag.inputs.batch import Batch, ProbeOptions
from normdiag.inputs.built_in_texts import LENGTH, TEXTS
from normdiag.inputs.requirements import (
    by_name,
    dtype_and_device,
    embedding_rows,
    forward_parameters,
    max_positions,
    config_value,
)
from normdiag.loading.interface import LoadedModel

_MOST_UNKNOWN = 0.5
_MOST_TOKENS = 8192  # of one forward


@dataclass(frozen=True)
class Sequence:
    """One text as the tokenizer made it: `input_ids` and what else comes beside them."""

    encoding: dict[str, list[int]]
    text: str | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """Its token ids."""
        return tuple(self.encoding["input_ids"])


def built_in_texts(runnable: LoadedModel, options: ProbeOptions) -> tuple[list[Sequence], str | None]:
    """The built-in texts, all cut by the tokenizer to one length; none, and why, if they do not do.

    The length is `texts.LENGTH`, or less where a text or the model's positions are shorter.
    """
    tokenizer: Any = runnable.tokenizer
    settings = {"add_special_tokens": options.special_tokens}
    full = [tokenizer(text, **settings)["input_ids"] for text in TEXTS]
    rows = embedding_rows(runnable.model)
    largest = max(max(ids, default=0) for ids in full)
    if rows is not None and largest >= rows:
        return [], f"the tokenizer gives ids up to {largest}, the embedding has {rows} rows"
    unknown = sum(ids.count(tokenizer.unk_token_id) for ids in full)
    if unknown > _MOST_UNKNOWN * sum(map(len, full)):
        return (
            [],
            f"the tokenizer knows too little of the built-in texts ({unknown} unknown tokens)",
        )
    length = min(LENGTH, _room(runnable) or LENGTH, *map(len, full))
    cut = {"truncation": True, "max_length": length}
    return [Sequence(dict(tokenizer(text, **settings, **cut)), text) for text in TEXTS], None


def user_texts(runnable: LoadedModel, options: ProbeOptions) -> tuple[list[Sequence], str | None]:
    """The texts that were given, whole where the model has positions for them.

    Raises UsageError for a text without tokens and for a chat without a template.
    """
    room = _room(runnable)
    sequences, cut = [], []
    for number, text in enumerate(options.texts or ()):
        encoding = _encoded(runnable.tokenizer, text, options)
        length = len(encoding["input_ids"])
        if length == 0:
            raise UsageError(f"text {number} ({text!r}) has no tokens", "give a text with words")
        if room is not None and length > room:
            cut.append(f"text {number} ({length} tokens)")
            encoding = {key: value[:room] for key, value in encoding.items()}
        sequences.append(Sequence(encoding, text))
    _check_ids(runnable, (sequence.ids for sequence in sequences))
    note = f"cut to the model's {room} positions: {', '.join(cut)}" if cut else None
    return sequences, note


def user_ids(runnable: LoadedModel, ids: tuple[tuple[int, ...], ...]) -> list[Sequence]:
    """Token ids as they are. Raises UsageError for one that the embedding has no row for."""
    room = _room(runnable)
    for number, sequence in enumerate(ids):
        if not sequence:
            raise UsageError(f"sequence {number} of the token ids is empty", "give at least one id")
        if room is not None and len(sequence) > room:
            raise UsageError(
                f"sequence {number} has {len(sequence)} token ids, the model {room} positions",
                "give fewer",
            )
    _check_ids(runnable, ids)
    return [Sequence({"input_ids": list(sequence)}) for sequence in ids]


def random_ids(runnable: LoadedModel, seed: int) -> list[Sequence]:
    """As many sequences as there are built-in texts, of seeded ids that the embedding has.

    The padding id is left out: it means that a token is not there.
    """
    rows = embedding_rows(runnable.model) or config_value(runnable.config, "vocab_size") or 2
    length = min(LENGTH, _room(runnable) or LENGTH)
    padding = config_value(runnable.config, "pad_token_id")
    allowed = [i for i in range(rows) if i != padding] if rows < 2 * len(TEXTS) else None
    ids = torch.randint(
        rows - 1 if allowed is None else len(allowed),
        (len(TEXTS), length),
        generator=torch.Generator().manual_seed(seed),
    )
    if allowed is not None:
        ids = torch.tensor(allowed)[ids]
    elif isinstance(padding, int) and 0 <= padding < rows:
        ids += ids >= padding
    return [Sequence({"input_ids": row}) for row in ids.tolist()]


def batches(runnable: LoadedModel, sequences: list[Sequence]) -> tuple[Batch, ...]:
    """One batch per length, in the order of first appearance, of what forward takes.

    An encoder-decoder gets the same tokens as decoder input, one place later, behind its start.
    """
    by_length: dict[int, list[int]] = {}
    for row, sequence in enumerate(sequences):
        by_length.setdefault(len(sequence.ids), []).append(row)
    made: list[Batch] = []
    for length, rows in by_length.items():
        step = max(1, _MOST_TOKENS // length)
        parts = (rows[start : start + step] for start in range(0, len(rows), step))
        made.extend(_batch(runnable, sequences, part) for part in parts)
    return tuple(made)


def added_special_tokens(runnable: LoadedModel, sequences: list[Sequence]) -> tuple[str, ...]:
    """The special tokens that stand in the sequences and not in their texts."""
    tokenizer: Any = runnable.tokenizer
    special = set(getattr(tokenizer, "all_special_ids", ()))
    added: dict[int, None] = {}
    for sequence in sequences:
        if sequence.text is not None and special.intersection(sequence.ids):
            plain = tokenizer(sequence.text, add_special_tokens=False)["input_ids"]
            more = Counter(sequence.ids) - Counter(plain)
            added.update(dict.fromkeys(i for i in sequence.ids if i in special and more[i] > 0))
    return tuple(str(tokenizer.convert_ids_to_tokens(i)) for i in added)


def token_texts(tokenizer: Any | None, ids: tuple[int, ...]) -> tuple[str, ...]:
    """What each token reads as, its leading space kept; its position without a tokenizer."""
    if tokenizer is None:
        return tuple(str(position) for position in range(len(ids)))

    @cache
    def text(token: int) -> str:
        raw = tokenizer.convert_ids_to_tokens(token)
        if raw is None:
            return f"<{token}>"
        if raw.startswith("▁"):  # sentencepiece's space, which decoding one token alone drops
            return str(raw).replace("▁", " ")
        return str(tokenizer.decode([token], clean_up_tokenization_spaces=False)) or raw

    return tuple(text(token) for token in ids)


def _encoded(tokenizer: Any, text: str, options: ProbeOptions) -> dict[str, list[int]]:
    if not options.chat:
        return dict(tokenizer(text, add_special_tokens=options.special_tokens))
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(
            "a chat was asked for, and the tokenizer has no chat template", "leave --chat out"
        )
    turn = [{"role": "user", "content": text}]
    return dict(tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=True))


def _check_ids(runnable: LoadedModel, ids: Iterable[tuple[int, ...]]) -> None:
    rows = embedding_rows(runnable.model)
    for number, sequence in enumerate(ids):
        for position, token in enumerate(sequence):
            if token < 0 or (rows is not None and token >= rows):
                raise UsageError(
                    f"token id {token} (sequence {number}, position {position}) has no row in the "
                    f"embedding, which has {rows}",
                    f"ids go from 0 to {rows - 1}" if rows else "ids are not negative",
                )


def _room(runnable: LoadedModel) -> int | None:
    """How long a sequence may be: by the model's positions and the tokenizer's limit."""
    stated = getattr(runnable.tokenizer, "model_max_length", None)
    limits = [max_positions(runnable.model, runnable.config), stated]
    return min((n for n in limits if isinstance(n, int) and 0 < n < 10**9), default=None)


def _batch(runnable: LoadedModel, sequences: list[Sequence], rows: list[int]) -> Batch:
    chosen = [sequences[row] for row in rows]
    taken = forward_parameters(runnable.model)
    device = dtype_and_device(runnable.model)[1]
    inputs: dict[str, Any] = {
        key: torch.tensor([sequence.encoding[key] for sequence in chosen], device=device)
        for key in chosen[0].encoding
        if key in taken
    }
    args: tuple[Any, ...] = ()
    if not inputs:  # a plain module names its argument as it likes
        given = torch.tensor([sequence.ids for sequence in chosen], device=device)
        args, inputs = by_name(runnable.model, (given,), {})
    if "decoder_input_ids" in taken and getattr(runnable.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = shifted(inputs["input_ids"], runnable.config)
    if "use_cache" in taken:
        inputs["use_cache"] = False
    ids = tuple(sequence.ids for sequence in chosen)
    special = set(getattr(runnable.tokenizer, "all_special_ids", ()))
    return Batch(
        inputs=inputs,
        args=args,
        rows=tuple(rows),
        texts=tuple(s.text for s in chosen if s.text is not None),
        ids=ids,
        tokens=tuple(token_texts(runnable.tokenizer, row) for row in ids),
        special=tuple(tuple(token in special for token in row) for row in ids),
    )


def shifted(ids: torch.Tensor, config: Any) -> torch.Tensor:
    """`ids` one place later, behind the token that a decoder starts with. (batch, tokens)."""
    start = config_value(config, "decoder_start_token_id", "bos_token_id", "pad_token_id")
    start = start if isinstance(start, int) else 0
    return torch.cat([torch.full_like(ids[:, :1], start), ids[:, :-1]], dim=1)
