"""The other kind of norm in trained models, against hooks that replace the norms' outputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

import normdiag

IDS = torch.arange(1000, 1040).view(1, 40)


def swap_output(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor):
    """What the other kind gives, in float64."""
    x = args[0].double()
    weight = module.weight.double()
    if isinstance(module, nn.LayerNorm):
        y = x / (x.square().mean(-1, keepdim=True) + module.eps).sqrt() * weight + module.bias
    else:
        x = x - x.mean(-1, keepdim=True)
        y = x / (x.square().mean(-1, keepdim=True) + module.variance_epsilon).sqrt() * weight
    return y.to(output.dtype)


def last_hidden_states(model: nn.Module, **kwargs) -> tuple[torch.Tensor, torch.Tensor]:
    """As it is and with every norm swapped, by hooks on modules."""
    norms = [m for m in model.modules() if type(m).__name__.endswith("Norm")]
    states = []
    for swapped in (False, True):
        hooks = [m.register_forward_hook(swap_output) for m in norms if swapped]
        with torch.no_grad():
            output = model(input_ids=IDS, output_hidden_states=True, **kwargs)
        states.append(output)
        for hook in hooks:
            hook.remove()
    return states[0], states[1]


def change(before: torch.Tensor, after: torch.Tensor) -> float:
    return float((after - before).double().norm() / before.double().norm())


def test_minilm_without_centring(minilm_directory: Path) -> None:
    model = transformers.AutoModel.from_pretrained(minilm_directory).eval()
    before, after = last_hidden_states(model)
    swap = normdiag.inspect(
        model, inputs={"input_ids": IDS}, measure=("centring-swap",)
    ).measurements.norm_swap
    assert swap is not None and swap.swapped == swap.layer_norms == 13
    expected = change(before.last_hidden_state, after.last_hidden_state)
    assert swap.hidden_change == pytest.approx(expected, rel=1e-3)


def test_minilm_on_the_built_in_texts(minilm_directory: Path) -> None:
    report = normdiag.inspect(str(minilm_directory), measure=("centring-swap",))
    swap = report.measurements.norm_swap
    assert swap is not None
    assert swap.hidden_change == pytest.approx(0.455, rel=0.02)


def test_smollm2_with_centring(smollm2_directory: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        smollm2_directory, dtype=torch.float32
    ).eval()
    outputs = last_hidden_states(model)
    swap = normdiag.inspect(
        model, inputs={"input_ids": IDS}, measure=("centring-swap",)
    ).measurements.norm_swap
    assert swap is not None and swap.swapped == swap.rms_norms == 61 and swap.loss is not None
    before, after = (output.hidden_states[-1] for output in outputs)
    assert swap.hidden_change == pytest.approx(change(before, after), rel=1e-3)
    losses = [
        float(nn.functional.cross_entropy(output.logits[0, :-1], IDS[0, 1:])) for output in outputs
    ]
    assert (swap.loss.before, swap.loss.after) == pytest.approx(losses, rel=1e-4)
