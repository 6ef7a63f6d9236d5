"""What a model raises, be it no Exception, is the failure of that target alone."""

import json

import pytest
import torch
from torch import nn

import normdiag
from normdiag.errors import LoadError, RunError

MODELS = """
import sys
import torch
from torch import nn

class Raising(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.norm, self.error = nn.LayerNorm(4), error

    def forward(self, x):
        raise self.error

class Panic(BaseException):
    pass

def leave(): return Raising(SystemExit(0)), torch.ones(2, 3, 4)
def close(): return Raising(GeneratorExit()), torch.ones(2, 3, 4)
def panic(): return Raising(Panic("at src/lib.rs")), torch.ones(2, 3, 4)
def good(): return nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), torch.randn(2, 3, 4)
def factory(): raise Panic("in the factory")
"""


@pytest.fixture
def models(folder):
    (folder / "models.py").write_text(MODELS)
    return "models.py"


@pytest.mark.parametrize(
    ("name", "raised"),
    [("leave", "SystemExit"), ("close", "GeneratorExit"), ("panic", "Panic: at src/lib.rs")],
)
def test_a_forward_that_raises_no_exception_is_3(run, models, name, raised):
    result = run("check", f"{models}:{name}")
    assert result.exit_code == 3
    assert f"the model's forward raised {raised}" in result.stderr


def test_a_factory_that_raises_no_exception_is_3(run, models):
    result = run("check", f"{models}:factory")
    assert result.exit_code == 3
    assert "raised Panic: in the factory" in result.stderr


def test_the_other_targets_are_reported(run, models, folder):
    targets = [f"{models}:{name}" for name in ("leave", "good", "panic")]
    result = run("check", *targets, "--json", "s.json")
    assert result.exit_code == 3
    entries = json.loads((folder / "s.json").read_text())["reports"]
    outcome = {e["target"]: (e["failure"] or {}).get("exit_code") for e in entries}
    assert outcome == {targets[0]: 3, targets[1]: None, targets[2]: 3}


class Raising(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.norm, self.error = nn.LayerNorm(4), error

    def forward(self, x):
        raise self.error


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit(), ValueError("no")])
def test_python_gets_a_run_error(error):
    with pytest.raises(RunError, match=f"forward raised {type(error).__name__}") as caught:
        normdiag.inspect(Raising(error), inputs=torch.ones(2, 3, 4))
    assert caught.value.hint


def test_an_interrupt_passes_through():
    with pytest.raises(KeyboardInterrupt):
        normdiag.inspect(Raising(KeyboardInterrupt()), inputs=torch.ones(2, 3, 4))


def test_what_a_hook_outside_forward_raises_is_a_run_error():
    class Leaving(nn.Sequential):
        def state_dict(self, *args, **kwargs):
            raise SystemExit(0)

    model = Leaving(nn.Linear(4, 4), nn.LayerNorm(4))
    with pytest.raises((RunError, LoadError), match="SystemExit"):
        normdiag.inspect(model, inputs=torch.ones(2, 3, 4))
