"""What can be told without torch is told without importing it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from normdiag.errors import NormdiagError
from normdiag.loading.load_target import load_target, open_source
try:
    (open_source if {opened} else load_target)({target!r})
except NormdiagError as error:
    print("refused:", error)
heavy = [name for name in ("torch", "transformers") if name in sys.modules]
print("heavy:", heavy)
"""


def outcome(target: object, *, opened: bool = False) -> str:
    program = PROGRAM.format(target=str(target), opened=opened)
    environment = {"HF_HUB_OFFLINE": "1", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    "target", ["./nowhere", "org/not-in-the-cache", "gone.py:build", "x.gguf", "model.h5/"]
)
def test_a_missing_target_is_refused_without_torch(target: str) -> None:
    message = outcome(target)
    assert "refused:" in message
    assert "heavy: []" in message


def test_a_truncated_file_is_refused_without_torch(copy_of_llama: Path) -> None:
    path = copy_of_llama / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    message = outcome(copy_of_llama)
    assert "is truncated" in message
    assert "heavy: []" in message


def test_opening_a_directory_needs_no_torch(llama_dir: Path) -> None:
    assert outcome(llama_dir, opened=True) == "heavy: []\n"


def test_the_check_can_fail(llama_dir: Path) -> None:
    assert outcome(llama_dir) == "heavy: ['torch', 'transformers']\n"
