"""Nothing that other libraries say reaches stdout, and what was set before is set again."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from huggingface_hub.utils.tqdm import are_progress_bars_disabled
from safetensors.torch import load_file, save_file
from transformers.utils import logging

from normdiag.loading.load_target import load_target
from normdiag.loading.silence_libraries import ProgressAdapter, silence_libraries
from tests.loading.recorded_progress import RecordedProgress


def test_loading_prints_nothing(copy_of_llama: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stored = load_file(copy_of_llama / "model.safetensors")
    del stored["model.norm.weight"]  # transformers logs a table of what is missing
    save_file(stored, copy_of_llama / "model.safetensors")
    load_target(str(copy_of_llama))
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


def test_what_a_factory_prints_goes_to_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import torch\ndef build():\n    print('building')\n    return torch.nn.Linear(2, 2)\n"
    (tmp_path / "loud.py").write_text(code)
    load_target(f"{tmp_path / 'loud.py'}:build")
    assert capfd.readouterr() == ("", "building\n")


def state() -> tuple[object, ...]:
    return (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
        are_progress_bars_disabled(),
        list(warnings.filters),
    )


@pytest.mark.parametrize("fails", [False, True])
def test_previous_settings_are_restored(fails: bool) -> None:
    logging.enable_progress_bar()
    logging.set_verbosity_info()
    before = state()
    try:
        with silence_libraries(lambda what, done, total: None):
            assert state() != before
            if fails:
                raise ValueError
    except ValueError:
        assert fails
    assert state() == before
    logging.set_verbosity_warning()


@pytest.mark.skipif(not hasattr(logging, "set_tqdm_hook"), reason="transformers has no hook yet")
def test_bars_become_progress(llama_dir: Path) -> None:
    progress = RecordedProgress()
    load_target(str(llama_dir), progress=progress)
    assert progress.events[0] == ("importing torch and transformers", None)
    tensors = len(load_file(llama_dir / "model.safetensors"))
    start = progress.events.index(("loading weights", tensors))
    assert sum(n for n in progress.events[start + 1 :] if isinstance(n, int)) == tensors


class TestProgressAdapter:
    """It stands in for tqdm's bar."""

    def test_it_iterates(self) -> None:
        progress = RecordedProgress()
        assert list(ProgressAdapter(progress, ["a", "b"], desc="Reading: ")) == ["a", "b"]
        assert progress.events == [("reading", 2), 1, 1]

    def test_it_is_updated_by_hand(self) -> None:
        progress = RecordedProgress()
        with ProgressAdapter(progress, total=5) as bar:
            bar.set_postfix(loss=1)
            bar.update(3)
            bar.close()
        assert progress.events == [("reading", 5), 3]

    def test_an_unknown_length_is_none(self) -> None:
        progress = RecordedProgress()
        assert list(ProgressAdapter(progress, (n for n in range(2)))) == [0, 1]
        assert progress.events == [("reading", None), 1, 1]
