"""The tokenizer of a checkpoint, where it has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers

from normdiag.loading.describe_exception import describe_exception

# Files that hold or name a vocabulary. Without any, transformers may build a tokenizer from the
# model type, whose ids are unrelated to the checkpoint.
_VOCABULARIES = ("tokenizer*", "vocab*", "*.model", "*.spm", "*.tiktoken", "spiece*")


def load_tokenizer(
    folder: Path, gguf_file: str | None, *, trust: bool
) -> tuple[Any | None, str | None]:
    """Load the tokenizer. None, with a reason, where one exists and is unusable."""
    if gguf_file is None and not any(any(folder.glob(name)) for name in _VOCABULARIES):
        return None, None
    try:
        if gguf_file is not None:
            # AutoTokenizer would parse the whole file once more for its configuration.
            unpacked = transformers.PreTrainedTokenizerFast.from_pretrained(
                folder, gguf_file=gguf_file
            )
            return unpacked, None
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, trust_remote_code=trust, local_files_only=True
        )
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # panics of tokenizers, which is Rust, are no Exception
        return None, f"the tokenizer cannot be loaded ({describe_exception(error)})"
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        return None, f"no vocabulary for {type(tokenizer).__name__} beside the weights"
    return tokenizer, None
