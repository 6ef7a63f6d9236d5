"""Nothing that other libraries say reaches stdout, and what was set before is set again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub.utils.tqdm import are_progress_bars_disabled
from safetensors.torch import load_file, save_file
from transformers.utils import logging

from normdiag.loading.interface import Request
from normdiag.loading.library_output import ProgressAdapter, silence_libraries
from normdiag.loading.load_target import load_target


def test_loading_prints_nothing(copy_of_llama: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stored = load_file(copy_of_llama / "model.safetensors")
    del stored["model.norm.weight"]  # transformers logs a table of what is missing
    save_file(stored, copy_of_llama / "model.safetensors")
    load_target(Request(target=str(copy_of_llama)))
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


def test_what_a_factory_prints_goes_to_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import torch\ndef build():\n    print('building')\n    return torch.nn.Linear(2, 2)\n"
    (tmp_path / "loud.py").write_text(code)
    load_target(Request(target=f"{tmp_path / 'loud.py'}:build"))
    assert capfd.readouterr() == ("", "building\n")


def state() -> tuple[object, ...]:
    return (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
        are_progress_bars_disabled(),
        list(warnings.filters),
    )


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_put_back(fails: bool) -> None:
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
    told: list[tuple[str, int, int | None]] = []
    load_target(Request(target=str(llama_dir)), lambda *step: told.append(step))
    assert told[0] == ("importing torch and transformers", 0, None)
    tensors = len(load_file(llama_dir / "model.safetensors"))
    assert ("loading weights", 0, tensors) in told
    assert told[-1] == ("loading weights", tensors, tensors)


class TestBar:
    """It stands in for tqdm's."""

    @pytest.fixture
    def told(self) -> list[tuple[str, int, int | None]]:
        return []

    @pytest.fixture
    def tell(self, told: list[tuple[str, int, int | None]]) -> Callable[..., None]:
        return lambda *step: told.append(step)

    def test_it_goes_over_what_it_is_given(self, told: list, tell: Callable[..., None]) -> None:
        assert list(ProgressAdapter(tell, ["a", "b"], desc="Reading: ")) == ["a", "b"]
        assert told == [("reading", 0, 2), ("reading", 1, 2), ("reading", 2, 2)]

    def test_it_is_updated_by_hand(self, told: list, tell: Callable[..., None]) -> None:
        with ProgressAdapter(tell, total=5) as bar:
            bar.set_postfix(loss=1)
            bar.update(3)
            bar.close()
        assert told == [("reading", 0, 5), ("reading", 3, 5)]

    def test_an_unknown_length_is_none(self, told: list, tell: Callable[..., None]) -> None:
        assert list(ProgressAdapter(tell, (n for n in range(2)))) == [0, 1]
        assert told[-1] == ("reading", 2, None)
