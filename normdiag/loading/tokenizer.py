"""A checkpoint's tokenizer, where it brings one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers

from normdiag.loading.describe_exception import describe_exception

# Any of these holds or names a vocabulary. Without one, transformers may make a tokenizer up from
# the model type, whose ids have nothing to do with the checkpoint.
_VOCABULARIES = ("tokenizer*", "vocab*", "*.model", "*.spm", "*.tiktoken", "spiece*")


def load_tokenizer(
    folder: Path, gguf_file: str | None, *, trust: bool
) -> tuple[Any | None, str | None]:
    """The tokenizer, or None, and why one that is there will not do. None is no error."""
    if gguf_file is None and not any(any(folder.glob(name)) for name in _VOCABULARIES):
        return None, None
    try:
        if gguf_file is not None:
            # AutoTokenizer would parse the whole file for its configuration once more.
            unpacked = transformers.PreTrainedTokenizerFast.from_pretrained(
                folder, gguf_file=gguf_file
            )
            return unpacked, None
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, trust_remote_code=trust, local_files_only=True
        )
    except Exception as error:
        return None, f"the tokenizer cannot be loaded ({describe_exception(error)})"
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        return None, f"no vocabulary for {type(tokenizer).__name__} beside the weights"
    return tokenizer, None
