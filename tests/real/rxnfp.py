"""A BERT trained on chemical reactions (rxnfp), as a directory whose configuration is complete."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from tests.real.packages import Package, cache_directory, settle, weights

RXNFP = Package(
    "rxnfp",
    "0.1.0",
    "c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
    "rxnfp/models/transformers/bert_pretrained",
)
_LATER_KEYS = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
"""Keys that transformers asks for and that a configuration of 2019 has not."""


def complete_copy() -> Path:
    """The directory of weights and configuration; made once and kept in the cache.

    Without the vocabulary: it is for the package's own tokenizer of reactions.
    """
    copy = cache_directory() / f"rxnfp-complete-{RXNFP.version}"
    if not copy.exists():
        source = weights(RXNFP)
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
            made = Path(scratch) / "copy"
            made.mkdir()
            shutil.copy(source / "pytorch_model.bin", made)
            (made / "config.json").write_text(json.dumps(config | _LATER_KEYS), encoding="utf-8")
            settle(made, copy)
    return copy
