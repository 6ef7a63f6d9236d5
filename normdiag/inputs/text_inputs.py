"""Texts and token ids as batches of equal length, without padding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from normdiag.errors import RunError, UsageError, translate_foreign_errors
from normdiag.inputs.batch import Batch
from normdiag.inputs.built_in_texts import LENGTH, TEXTS
from normdiag.inputs.input_requirements import InputRequirements
from normdiag.loading.describe_exception import describe_exception
from normdiag.options import InputOptions

_MAX_UNKNOWN_SHARE = 0.5
_MAX_TOKENS_PER_FORWARD = 8192


@dataclass(frozen=True)
class TokenSequence:
    """One text as the tokenizer encodes it: `input_ids` and what else it returns."""

    encoding: dict[str, list[int]]
    text: str | None = None

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Its token ids."""
        return tuple(self.encoding["input_ids"])


def encode_built_in_texts(
    requirements: InputRequirements, options: InputOptions
) -> tuple[list[TokenSequence], str | None]:
    """The built-in texts, all truncated by the tokenizer to one length.

    The length is `built_in_texts.LENGTH`, or less where a text or the model's positions are
    shorter. Where the tokenizer does not suit model or texts: no sequence, and the reason.
    """
    tokenizer: Any = requirements.tokenizer
    settings: dict[str, Any] = {"add_special_tokens": options.special_tokens}
    encoded = [encode_text(tokenizer, text, **settings)["input_ids"] for text in TEXTS]
    rows = requirements.embedding_rows
    largest = max(max(ids, default=0) for ids in encoded)
    if rows is not None and largest >= rows:
        return [], f"the tokenizer gives ids up to {largest}, the embedding has {rows} rows"
    unknown = sum(ids.count(tokenizer.unk_token_id) for ids in encoded)
    total = sum(map(len, encoded))
    if unknown > _MAX_UNKNOWN_SHARE * total:
        return [], f"{unknown} of {total} tokens of the built-in texts are unknown to the tokenizer"
    length = min(LENGTH, requirements.max_length or LENGTH, *map(len, encoded))
    settings |= {"truncation": True, "max_length": length}
    return [TokenSequence(encode_text(tokenizer, text, **settings), text) for text in TEXTS], None


def encode_user_texts(
    requirements: InputRequirements, options: InputOptions
) -> tuple[list[TokenSequence], str | None]:
    """The user's texts, truncated to the model's positions, and a note on those truncated.

    Raises UsageError for a text without tokens and for a chat without a template.
    """
    limit = requirements.max_length
    sequences, truncated = [], []
    for number, text in enumerate(options.texts or ()):
        encoding = _encode_user_text(requirements.tokenizer, text, options)
        length = len(encoding["input_ids"])
        if length == 0:
            raise UsageError(f"text {number} ({text!r}) has no tokens", "give a text with words")
        if limit is not None and length > limit:
            truncated.append(f"text {number} ({length} tokens)")
            encoding = {key: value[:limit] for key, value in encoding.items()}
        sequences.append(TokenSequence(encoding, text))
    _check_token_ids(requirements, (sequence.token_ids for sequence in sequences))
    note = f"truncated to the model's {limit} positions: {', '.join(truncated)}"
    return sequences, note if truncated else None


def check_user_ids(
    requirements: InputRequirements, ids: tuple[tuple[int, ...], ...]
) -> list[TokenSequence]:
    """The user's token ids, unchanged.

    Raises UsageError for an id outside the embedding and for a sequence that is empty or longer
    than the model's positions.
    """
    limit = requirements.max_length
    for number, sequence in enumerate(ids):
        if not sequence:
            raise UsageError(f"sequence {number} of the token ids is empty", "give at least one id")
        if limit is not None and len(sequence) > limit:
            raise UsageError(
                f"sequence {number} has {len(sequence)} token ids; the model has {limit} positions",
                "give fewer token ids",
            )
    _check_token_ids(requirements, ids)
    return [TokenSequence({"input_ids": list(sequence)}) for sequence in ids]


def draw_random_ids(requirements: InputRequirements, seed: int) -> list[TokenSequence]:
    """As many sequences as there are built-in texts, of uniformly drawn token ids.

    The padding id is not drawn, since it marks positions that hold no token.
    """
    rows = requirements.embedding_rows or requirements.config_value("vocab_size") or 2
    length = min(LENGTH, requirements.max_length or LENGTH)
    padding = requirements.config_value("pad_token_id")
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
    return [TokenSequence({"input_ids": row}) for row in ids.tolist()]


def batch_by_length(
    requirements: InputRequirements, sequences: list[TokenSequence]
) -> tuple[Batch, ...]:
    """One batch per length, in the order of first appearance, of the arguments of forward.

    An encoder-decoder gets the same tokens shifted right as decoder input.
    """
    by_length: dict[int, list[int]] = {}
    for row, sequence in enumerate(sequences):
        by_length.setdefault(len(sequence.token_ids), []).append(row)
    batches: list[Batch] = []
    for length, rows in by_length.items():
        step = max(1, _MAX_TOKENS_PER_FORWARD // length)
        parts = (rows[start : start + step] for start in range(0, len(rows), step))
        batches.extend(_make_batch(requirements, sequences, part) for part in parts)
    return tuple(batches)


def find_added_special_tokens(
    requirements: InputRequirements, sequences: list[TokenSequence]
) -> tuple[str, ...]:
    """The special tokens that the tokenizer added to the texts."""
    tokenizer: Any = requirements.tokenizer
    added: dict[int, None] = {}
    for sequence in sequences:
        ids = sequence.token_ids
        if sequence.text is not None and requirements.special_ids.intersection(ids):
            plain = encode_text(tokenizer, sequence.text, add_special_tokens=False)["input_ids"]
            more = Counter(ids) - Counter(plain)
            added |= dict.fromkeys(i for i in ids if i in requirements.special_ids and more[i] > 0)
    return tuple(str(tokenizer.convert_ids_to_tokens(i)) for i in added)


def token_texts(tokenizer: Any | None, ids: tuple[int, ...]) -> tuple[str, ...]:
    """The text of each token, with its leading space; its position where there is no tokenizer."""
    if tokenizer is None:
        return tuple(str(position) for position in range(len(ids)))

    @cache
    def decode_token(token: int) -> str:
        raw = tokenizer.convert_ids_to_tokens(token)
        if raw is None:
            return f"<{token}>"
        if raw.startswith("▁"):  # sentencepiece's space, which decoding one token alone drops
            return str(raw).replace("▁", " ")
        return str(tokenizer.decode([token], clean_up_tokenization_spaces=False)) or raw

    with translate_foreign_errors(_tokenizer_error):
        return tuple(decode_token(token) for token in ids)


def shift_right(ids: torch.Tensor, requirements: InputRequirements) -> torch.Tensor:
    """Decoder inputs: `ids` (batch, tokens) one place later, behind the decoder's start token."""
    start = requirements.config_value("decoder_start_token_id", "bos_token_id", "pad_token_id")
    start = start if isinstance(start, int) else 0
    return torch.cat([torch.full_like(ids[:, :1], start), ids[:, :-1]], dim=1)


def encode_text(tokenizer: Any, text: str, **settings: Any) -> dict[str, list[int]]:
    """What the tokenizer returns for `text`. Raises RunError for whatever it raises."""
    with translate_foreign_errors(_tokenizer_error):
        return dict(tokenizer(text, **settings))


def _tokenizer_error(error: BaseException) -> RunError:
    return RunError(
        f"the tokenizer raised {describe_exception(error)}",
        "its files (tokenizer.json) are damaged or do not suit these texts; token ids need no "
        "tokenizer: move these files away and give --ids",
    )


def _template_error(error: BaseException) -> RunError:
    return RunError(
        f"the chat template raised {describe_exception(error)}",
        "correct chat_template.jinja, or leave --chat out",
    )


def _encode_user_text(tokenizer: Any, text: str, options: InputOptions) -> dict[str, list[int]]:
    if not options.chat:
        return encode_text(tokenizer, text, add_special_tokens=options.special_tokens)
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(
            "chat needs a chat template, and the tokenizer has none", "leave --chat out"
        )
    turn = [{"role": "user", "content": text}]
    with translate_foreign_errors(_template_error):
        return dict(
            tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=True)
        )


def _check_token_ids(requirements: InputRequirements, ids: Iterable[tuple[int, ...]]) -> None:
    rows = requirements.embedding_rows
    for number, sequence in enumerate(ids):
        for position, token in enumerate(sequence):
            if token < 0 or (rows is not None and token >= rows):
                raise UsageError(
                    f"token id {token} (sequence {number}, position {position}) is outside the "
                    f"embedding of {rows} rows",
                    f"ids go from 0 to {rows - 1}" if rows else "ids are not negative",
                )


def _make_batch(
    requirements: InputRequirements, sequences: list[TokenSequence], rows: list[int]
) -> Batch:
    chosen = [sequences[row] for row in rows]
    inputs: dict[str, Any] = {
        key: torch.tensor(
            [sequence.encoding[key] for sequence in chosen], device=requirements.device
        )
        for key in chosen[0].encoding
        if key in requirements.parameters
    }
    args: tuple[Any, ...] = ()
    ids = tuple(sequence.token_ids for sequence in chosen)
    if not inputs:  # a plain module, whose argument has a name of its own
        tensor = torch.tensor(ids, device=requirements.device)
        args, inputs = requirements.name_arguments((tensor,), {})
    if requirements.takes_decoder_ids:
        inputs["decoder_input_ids"] = shift_right(inputs["input_ids"], requirements)
    if "use_cache" in requirements.parameters:
        inputs["use_cache"] = False
    return Batch(
        inputs=inputs,
        args=args,
        rows=tuple(rows),
        texts=tuple(sequence.text for sequence in chosen if sequence.text is not None),
        ids=ids,
        tokens=tuple(token_texts(requirements.tokenizer, row) for row in ids),
        special=tuple(tuple(token in requirements.special_ids for token in row) for row in ids),
    )
