"""Errors name arguments of Python where they come from Python, and options on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import normdiag
from normdiag import pipeline
from normdiag.argument_names import translate_options
from normdiag.errors import LoadError, NormdiagError, UsageError
from normdiag.option_group import declared_options
from normdiag.options import Options
from tests.reports import llama


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("or use --structure-only", "or use structure_only=True"),
        ("--weights-only checks the tensors", "weights_only=True checks the tensors"),
        ("leave --no-special-tokens out", "leave special_tokens=False out"),
        ("use --dtype bfloat16 to halve it", "use dtype='bfloat16' to halve it"),
        ("--device cuda:0, or", "device='cuda:0', or"),
        ("--seed 3", "seed=3"),
        ("give one: --text", "give one: texts=.."),
        ("token ids (--ids) set", "token ids (ids=..) set"),
        ('--ids "1,2,3"', 'ids="1,2,3"'),
        ("--inputs FILE (a .json file), in Python inputs={'x': t}", "inputs={'x': t}"),
        ("(--structure-only, in Python structure_only=True)", "(structure_only=True)"),
        ("`normdiag inspect TARGET --json FILE`", "`normdiag inspect TARGET --json FILE`"),
        ("gguf-split --merge", "gguf-split --merge"),
    ],
)
def test_options_become_arguments(text: str, expected: str) -> None:
    assert translate_options(text) == expected


@pytest.mark.parametrize("option", declared_options(Options), ids=lambda each: each.flag or "none")
def test_every_option_becomes_its_argument(option) -> None:
    if option.flag:
        assert translate_options(f"({option.flag})").startswith(f"({option.name}=")


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, first, second):
        return self.fc(first + second)


def save_weights(folder: Path) -> str:
    save_file({"weight": torch.zeros(2)}, folder / "model.safetensors")
    return str(folder)


REJECTED = {
    "texts without tokenizer": (lambda _: nn.Embedding(4, 4), {"texts": "a text"}),
    "several inputs": (lambda _: Several(), {}),
    "inputs that do not fit": (lambda _: nn.Linear(4, 4), {"inputs": torch.zeros(1, 3)}),
    "meta weights": (lambda _: nn.Linear(4, 4, device="meta"), {}),
    "no config": (save_weights, {}),
    "a chat without text": (lambda _: nn.Embedding(4, 4), {"chat": True}),
}


@pytest.mark.parametrize("case", REJECTED)
def test_an_error_names_arguments_to_python_alone(case: str, tmp_path: Path) -> None:
    build, options = REJECTED[case]
    target = build(tmp_path)
    for call in (normdiag.inspect, normdiag.trace):
        with pytest.raises(NormdiagError) as caught:
            call(target, **options)
        assert not re.search(r"--[a-z]", str(caught.value)), caught.value
        assert str(caught.value) == f"{caught.value.what}\n  hint: {caught.value.hint}"
    with pytest.raises(NormdiagError) as plain:
        pipeline.inspect(target, options=Options(**options))
    assert re.search(r"--[a-z]", str(plain.value)), "the case shows nothing"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (None, "a NoneType, not a model"),
        ([], "a list, not a model"),
        (dict, "the class dict, not a model.*\n.*instance"),
    ],
)
def test_what_is_no_target_is_refused(target: object, message: str) -> None:
    for call in (normdiag.inspect, normdiag.trace, lambda each: normdiag.compare(each, each)):
        with pytest.raises(UsageError, match=message):
            call(target)


def test_a_path_is_a_target(tmp_path) -> None:
    with pytest.raises(LoadError, match="empty"):
        normdiag.inspect(tmp_path / "empty")


def test_a_chart_without_numbers_names_arguments() -> None:
    with pytest.raises(UsageError, match=r"measure=.gradients."):
        llama(2).plot.gradient_stream()


def test_a_name_that_the_package_lacks_says_which_there_are() -> None:
    with pytest.raises(AttributeError, match=r"it has .*inspect"):
        _ = normdiag.check
