"""Runs in two threads wait for each other; what other threads run is not recorded."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest
import torch
import transformers
from torch import nn

import normdiag

INPUTS = {"input_ids": torch.arange(24).reshape(2, 12)}
MEASURES = "stream,norms,jacobians,gradients"


def tiny_llama(seed: int, layers: int) -> nn.Module:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=24,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    return transformers.LlamaForCausalLM(config).eval()


def report_of(model: nn.Module) -> str:
    return repr(normdiag.inspect(model, inputs=INPUTS, measure=MEASURES))


def run_in_threads(*work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


@pytest.fixture
def models() -> tuple[nn.Module, nn.Module]:
    return tiny_llama(0, 2), tiny_llama(1, 3)


def test_two_runs_at_once_give_what_they_give_alone(models: tuple[nn.Module, nn.Module]) -> None:
    alone = [report_of(model) for model in models]
    settings = (sys.stdout, torch.backends.mha.get_fastpath_enabled(), torch.get_rng_state())
    together: list[list[str]] = [[], []]

    def inspect_twice(i: int) -> None:
        together[i].extend(report_of(models[i]) for _ in range(2))

    run_in_threads(lambda: inspect_twice(0), lambda: inspect_twice(1))
    assert together == [[each, each] for each in alone]
    assert sys.stdout is settings[0]
    assert torch.backends.mha.get_fastpath_enabled() == settings[1]
    assert torch.equal(torch.get_rng_state(), settings[2])


def test_the_forward_of_another_thread_is_not_recorded(
    models: tuple[nn.Module, nn.Module],
) -> None:
    inspected, other = models
    alone = report_of(inspected)
    done, calls = threading.Event(), []

    def run_other() -> None:
        with torch.no_grad():
            while not done.is_set():
                other(**INPUTS)
                calls.append(1)

    def inspect_beside() -> None:
        try:
            beside.extend(report_of(inspected) for _ in range(3))
        finally:
            done.set()

    beside: list[str] = []
    run_in_threads(run_other, inspect_beside)
    assert beside == [alone] * 3
    assert len(calls) > 1
