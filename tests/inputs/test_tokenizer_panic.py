"""A tokenizer that panics in Rust is an error of the target, with texts and without."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import normdiag
from normdiag.errors import RunError

PATTERN = {"Regex": r"(a+)+$|(.*)*x"}  # backtracks until the regex engine gives up


@pytest.fixture
def panicking(llama_dir: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "panicking"
    shutil.copytree(llama_dir, folder)
    path = folder / "tokenizer.json"
    split = {"type": "Split", "pattern": PATTERN, "behavior": "Isolated", "invert": False}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pre_tokenizer": split}))
    return folder


@pytest.mark.parametrize("texts", [("a" * 40 + "!",), None])
def test_a_panic_is_a_run_error(panicking: Path, texts: tuple[str, ...] | None) -> None:
    with pytest.raises(RunError, match="the tokenizer raised PanicException") as caught:
        normdiag.inspect(str(panicking), texts=texts, measure="stream")
    assert caught.value.exit_code == 3
    assert "ids=.." in str(caught.value.hint)


def test_token_ids_need_no_tokenizer(panicking: Path) -> None:
    report = normdiag.inspect(str(panicking), ids=((1, 2, 3),), measure="stream")
    assert report.subject.probe.tokens == 3
