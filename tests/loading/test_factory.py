"""Any nn.Module, from a function that is named."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from normdiag.errors import LoadError, UsageError
from normdiag.loading.factory import wrap_module
from normdiag.loading.interface import CheckpointTensors, LoadedModel
from normdiag.loading.load_target import load_target
from normdiag.options import LoadingOptions

Load = Callable[..., LoadedModel]

CODE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.norm(x))

    @classmethod
    def small(cls):
        return cls(2)

def build():
    return Net()

def with_inputs():
    return Net(), {"x": torch.ones(1, 3, 4)}

made = Net(3)

def of_width(width, depth=1):
    return Net(width)

def broken():
    raise ValueError("no such dataset: /data")

def leaves():
    raise SystemExit(2)

def number():
    return 7

def pair():
    return 1, 2

def on_meta():
    with torch.device("meta"):
        return Net()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize(
    ("factory", "width"), [("build", 4), ("Net", 4), ("Net.small", 2), ("made", 3)]
)
def test_functions_classes_methods_and_modules_will_do(
    file: Path, run: Load, factory: str, width: int
) -> None:
    loaded = run(f"{file}:{factory}")
    assert loaded.class_name == "Net"
    assert loaded.model.norm.weight.shape == (width,)
    assert not loaded.model.training
    assert (loaded.config, loaded.tokenizer, loaded.model_type) == (None, None, None)
    assert [n for n, _ in loaded.tensors({})] == [
        "norm.weight",
        "norm.bias",
        "fc.weight",
        "fc.bias",
    ]


def test_a_factory_may_return_inputs_as_well(file: Path, run: Load) -> None:
    inputs = run(f"{file}:with_inputs").author_inputs
    assert inputs is not None
    assert inputs["x"].shape == (1, 3, 4)


def test_a_module_path_is_imported_from_the_working_directory(
    file: Path, run: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = file.parent / "own_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "nets.py").write_text("from .parts import build\n")
    (package / "parts.py").write_text(CODE)
    monkeypatch.chdir(file.parent)
    before = list(sys.path)
    assert run("own_package.nets:build").class_name == "Net"
    assert sys.path == before


def test_a_file_can_import_what_lies_beside_it(file: Path, run: Load) -> None:
    (file.parent / "other.py").write_text("from models import build\n")
    assert run(f"{file.parent / 'other.py'}:build").class_name == "Net"


def test_a_file_does_not_hide_an_installed_module(file: Path, run: Load) -> None:
    import json

    path = file.rename(file.parent / "json.py")
    run(f"{path}:build")
    assert sys.modules["json"] is json


def test_the_seed_is_set_and_the_global_one_left(file: Path, run: Load) -> None:
    before = torch.get_rng_state()
    one, again, other = (run(f"{file}:build", seed=s).model.fc.weight for s in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_dtype_can_be_set(file: Path, run: Load) -> None:
    assert run(f"{file}:build").model.fc.weight.dtype is torch.float32
    assert run(f"{file}:build", dtype="float16").model.fc.weight.dtype is torch.float16


def test_weights_only_gives_the_state_dict(file: Path) -> None:
    alone = load_target(f"{file}:build", LoadingOptions(weights_only=True))
    assert isinstance(alone, CheckpointTensors)
    assert len(dict(alone.tensors({}))) == 4


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("nothing", "has no attribute 'nothing'"),
        ("Net.nothing", "has no attribute 'nothing'"),
        ("of_width", "requires arguments .width"),
        ("broken", r"raised ValueError: no such dataset: /data \(models\.py, line 30\)"),
        ("leaves", "raised SystemExit: 2"),
        ("number", "returned a int, not an nn.Module"),
        ("pair", "returned a tuple"),
        ("CODE", "has no attribute 'CODE'"),
        ("__name__", "is a str, neither a function"),
        ("on_meta", r"norm\.weight is on the meta device"),
    ],
)
def test_an_invalid_factory_is_an_error(file: Path, factory: str, message: str) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        load_target(f"{file}:{factory}")
    assert caught.value.hint


def test_callables_of_the_file_are_listed(file: Path) -> None:
    with pytest.raises(LoadError) as caught:
        load_target(f"{file}:nothing")
    assert str(caught.value.hint).startswith(
        "callables in it: Net, build, with_inputs, made, of_width"
    )


def test_a_file_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = (\n")
    with pytest.raises(LoadError, match="cannot be imported: SyntaxError"):
        load_target(f"{tmp_path / 'bad.py'}:build")


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(LoadError, match="no_such_package"):
        load_target("no_such_package.models:build")


def test_random_weights_of_a_factory_are_a_usage_error(file: Path) -> None:
    with pytest.raises(UsageError):
        load_target(f"{file}:build", LoadingOptions(random_init=True))


def test_a_live_module_is_left_as_it_is() -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(2, 2)).half()
    loaded = wrap_module(model)
    assert loaded.model is model
    assert model.training
    assert loaded.class_name == "Sequential"
    assert all(not tensor.requires_grad for _, tensor in loaded.tensors({}))
