"""The growth of real streams: norms from plain hooks, the law by least squares of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import normdiag
from tests.oracle.growth_opinion import FACTOR, RMS, form_opinion

TEXT = (
    "The lighthouse keeper wrote in his diary every evening, although nothing ever happened there"
    " but the weather and the slow turning of the lamp above the sea. def mean(values): return"
    " sum(values) / len(values)"
)


@pytest.mark.real
def test_no_law_describes_smollm2_and_its_phases_do(smollm2_directory: Path) -> None:
    norms = norms_at_inputs(smollm2_directory, "post_attention_layernorm", "input_layernorm")
    growth = growth_of(smollm2_directory)
    start = 0 if growth["start"] is None else find_start(growth["start"])
    assert growth["total"] == pytest.approx(norms[-1] / norms[0], rel=1e-4)
    assert_no_law(norms[start:], growth)
    rebuilt = rebuild_norms(growth["phases"], len(norms))
    logs = np.log(norms / rebuilt)
    logs -= np.median(logs)
    assert np.abs(logs).max() < np.log(FACTOR)
    assert np.sqrt(np.mean(logs**2)) < RMS
    assert rebuilt[-1] / rebuilt[0] == pytest.approx(growth["total"], rel=0.2)


@pytest.mark.real
def test_no_law_describes_minilm(minilm_directory: Path) -> None:
    norms = norms_at_inputs(minilm_directory, "attention.output.LayerNorm", "output.LayerNorm")
    growth = growth_of(minilm_directory)
    assert growth["total"] == pytest.approx(norms[-1] / norms[0], rel=1e-4)
    assert_no_law(norms, growth)


def growth_of(directory: Path) -> dict[str, Any]:
    report = normdiag.inspect(str(directory), measure=("stream",), texts=[TEXT]).to_dict()
    (growth,) = report["measurements"]["growth"].values()
    return growth


def find_start(add: str) -> int:
    """Two adds per layer: `layers.<i>/add#<j>`."""
    layer, number = re.search(r"layers\.(\d+)/add#(\d)$", add).groups()
    return 2 * int(layer) + int(number)


def norms_at_inputs(directory: Path, *names: str) -> np.ndarray:
    """Mean norm over tokens but the first of each norm's input, in order of the run; the first norm
    of a pre-norm stack reads no sum, and its last sum is read by the final norm."""
    model = AutoModel.from_pretrained(directory).eval()
    norms: list[float] = []

    def note(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        norms.append(inputs[0][0, 1:].double().norm(dim=-1).mean().item())

    final = ("norm",) if "input_layernorm" in names else ()
    for name, module in model.named_modules():
        if name in final or name.endswith(names):
            module.register_forward_pre_hook(note)
    tokens = AutoTokenizer.from_pretrained(directory)(TEXT, return_tensors="pt")
    with torch.no_grad():
        model(**tokens)
    return np.array(norms[1:] if final else norms)


def assert_no_law(norms: np.ndarray, growth: dict[str, Any]) -> None:
    opinion = form_opinion(norms)
    assert (growth["law"], opinion.law) == ("undecided", "undecided")
    assert set(opinion.curves) >= {"geometric", "additive", "power"}
    for rms, factor in opinion.misses(norms).values():
        assert rms > RMS or factor > FACTOR


def rebuild_norms(phases: list[dict[str, Any]], adds: int) -> np.ndarray:
    """Norms over the first one: the products of the phases' factors and steps."""
    norms = np.ones(adds)
    for phase in phases:
        first, last = phase["first"], phase["last"]
        if first:
            norms[first] = norms[first - 1] * phase["step"]
        depth = np.arange(1, last - first + 1)
        norms[first + 1 : last + 1] = norms[first] * phase["factor"] ** depth
    assert phases[-1]["last"] == adds - 1
    return norms
