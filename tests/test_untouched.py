"""The model and the process are left exactly as they were found, also after an error."""

from __future__ import annotations

import random
import warnings
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from transformers import GPT2Config, GPT2LMHeadModel

import normdiag
from normdiag.errors import RunError

EVERYTHING = ("stream", "norms", "jacobians", "gradients")


def process_state() -> dict[str, Any]:
    """What a run could leave behind outside the model."""
    shared = vars(nn.modules.module)
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "fastpath": torch.backends.mha.get_fastpath_enabled(),
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "dispatch modes": list(_get_current_dispatch_mode_stack()),
        "function modes": list(_get_current_function_mode_stack()),
        "torch rng": torch.get_rng_state().tolist(),
        "python rng": random.getstate(),
        "numpy rng": repr(np.random.get_state()),
        "warning filters": list(warnings.filters),
        "global hooks": {
            name: list(hooks.items())
            for name, hooks in shared.items()
            if name.startswith("_global") and isinstance(hooks, OrderedDict)
        },
    }


def model_state(model: nn.Module) -> dict[str, Any]:
    """Every fact of every module, parameter and buffer, their values and identities included."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {
        "modules": [
            (name, type(module), module.training, sorted(vars(module)))
            for name, module in model.named_modules()
        ],
        "hooks": {
            (name, hooks): list(getattr(module, hooks).items())
            for name, module in model.named_modules()
            for hooks in vars(module)
            if hooks.endswith("hooks")
        },
        "tensors": {
            name: (id(t), t.data_ptr(), t._version, t.requires_grad, t.is_leaf, t.dtype, t.device)
            for name, t in tensors
        },
        "tensor hooks": {name: list((t._backward_hooks or {}).items()) for name, t in tensors},
        "values": {name: t.detach().clone().numpy().tobytes() for name, t in tensors},
        "gradients": {
            name: None if p.grad is None else (id(p.grad), p.grad.numpy().tobytes())
            for name, p in model.named_parameters()
        },
    }


def state(model: nn.Module) -> dict[str, Any]:
    """Both."""
    return {**process_state(), **model_state(model)}


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The keys whose values differ."""
    return [key for key in before if before[key] != after[key]]


def gpt2() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    return GPT2LMHeadModel(config), {"input_ids": torch.arange(24).reshape(2, 12)}


def encoder() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """Whose fast path is one fused operation per layer in eval mode."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return model, {"src": torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))}


class BatchNormBlock(nn.Module):
    """Has a buffer that its forward writes in training mode only, as BatchNorm does."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(self.norm(x))


def batch_norm() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    return BatchNormBlock(), {"x": torch.randn(6, 8, generator=torch.Generator().manual_seed(0))}


MODELS = {"gpt2": gpt2, "nn.TransformerEncoder": encoder, "batch norm": batch_norm}


@pytest.fixture(params=MODELS)
def lived_in(request):
    """A model in use: mixed modes, frozen parts, gradients and hooks of its owner's."""
    torch.manual_seed(3)
    model, inputs = MODELS[request.param]()
    model.train()
    leaves = [module for module in model.modules() if not list(module.children())]
    leaves[-1].eval()
    parameters = list(model.parameters())
    parameters[0].requires_grad_(False)
    parameters[1].grad = torch.ones_like(parameters[1])
    parameters[2].register_hook(lambda gradient: gradient)
    leaves[0].register_forward_hook(lambda module, args, result: None)
    leaves[0].register_forward_pre_hook(lambda module, args: None)
    leaves[0].register_full_backward_hook(lambda module, into, out: None)
    return model, inputs


def test_inspect_leaves_everything_as_it_was(lived_in):
    model, inputs = lived_in
    before = state(model)
    normdiag.inspect(model, inputs=inputs, measure=EVERYTHING)
    assert changes(before, state(model)) == []


def test_trace_leaves_everything_as_it_was(lived_in):
    model, inputs = lived_in
    before = state(model)
    normdiag.trace(model, inputs=inputs)
    assert changes(before, state(model)) == []


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_an_error_in_the_middle_of_forward_leaves_everything_as_it_was(lived_in, raised):
    model, inputs = lived_in
    last = [module for module in model.modules() if not list(module.children())][-1]

    def fail(module, args):
        raise raised("in the middle")

    last.register_forward_pre_hook(fail)
    before = state(model)
    expected = raised if raised is KeyboardInterrupt else RunError
    with pytest.raises(expected, match="in the middle"):
        normdiag.inspect(model, inputs=inputs, measure=EVERYTHING)
    assert changes(before, state(model)) == []


def test_inputs_are_left_as_they_were(lived_in):
    model, inputs = lived_in
    before = {name: (tensor.clone(), tensor._version) for name, tensor in inputs.items()}
    normdiag.inspect(model, inputs=inputs, measure=EVERYTHING)
    assert list(inputs) == list(before)
    for name, (values, version) in before.items():
        assert torch.equal(inputs[name], values)
        assert inputs[name]._version == version


def test_settings_of_the_caller_are_kept(lived_in):
    model, inputs = lived_in
    with torch.inference_mode(), torch.autocast("cpu", enabled=False):
        before = process_state()
        normdiag.inspect(model, inputs=inputs, measure=EVERYTHING)
        assert changes(before, process_state()) == []


def test_a_model_in_training_mode_is_seen_in_eval_mode():
    torch.manual_seed(0)
    model, inputs = gpt2()
    training, evaluating = (
        normdiag.inspect(model.train(mode), inputs=inputs, measure=EVERYTHING).to_dict()
        for mode in (True, False)
    )
    assert training["measurements"] == evaluating["measurements"]


def test_the_model_computes_what_it_did():
    torch.manual_seed(0)
    model, inputs = gpt2()
    model.eval()
    with torch.no_grad():
        before = model(**inputs).logits
        normdiag.inspect(model, inputs=inputs, measure=EVERYTHING)
        assert torch.equal(model(**inputs).logits, before)


def leave_a_hook(model):
    next(model.children()).register_forward_hook(lambda module, args, result: None)


def leave_a_global_hook(model):
    nn.modules.module.register_module_forward_hook(lambda module, args, result: None)


def leave_eval_mode(model):
    model.eval()


def leave_a_patched_forward(model):
    model.forward = model.forward


def leave_a_gradient(model):
    list(model.parameters())[-1].grad = torch.zeros_like(list(model.parameters())[-1])


def leave_a_write(model):
    with torch.no_grad():
        list(model.parameters())[-1].add_(0)


def leave_it_frozen(model):
    model.requires_grad_(False)


def leave_the_seed_moved(model):
    torch.rand(())


def leave_the_fast_path_off(model):
    torch.backends.mha.set_fastpath_enabled(False)


@pytest.fixture
def restored():
    """For the tests that do harm on purpose."""
    yield
    nn.modules.module._global_forward_hooks.clear()
    torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.parametrize(
    ("harm", "seen"),
    [
        (leave_a_hook, "hooks"),
        (leave_a_global_hook, "global hooks"),
        (leave_eval_mode, "modules"),
        (leave_a_patched_forward, "modules"),
        (leave_a_gradient, "gradients"),
        (leave_a_write, "tensors"),
        (leave_it_frozen, "tensors"),
        (leave_the_seed_moved, "torch rng"),
        (leave_the_fast_path_off, "fastpath"),
    ],
)
def test_harm_would_be_seen(restored, harm, seen):
    model, _ = gpt2()
    before = state(model)
    harm(model)
    assert changes(before, state(model)) == [seen]
