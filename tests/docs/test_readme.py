"""What the README shows besides its console examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_two_commands_are_on_the_first_screen() -> None:
    first_screen = README.splitlines()[:25]
    commands = [line.strip() for line in first_screen if line.startswith("    python3 -m venv")]
    assert len(commands) == 2
    assert commands[0].endswith("normdiag inspect sample_models/tiny_llama")
    assert commands[1].endswith("-m pytest")


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForCausalLM

    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    target = ROOT / "sample_models" / "tiny_llama"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_models").symlink_to(target.parent)
    model = AutoModelForCausalLM.from_pretrained(target)
    scope = {"model": model, "ids": model.dummy_inputs["input_ids"]}
    exec(compile(code, "README.md", "exec"), scope)
    assert (tmp_path / "report.json").exists()
    assert scope["report"].architecture.stacks[0].placement == "pre"
