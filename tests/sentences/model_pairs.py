"""Pairs of models that differ in one thing each, and how they are compared."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import normdiag
from normdiag.measures import ONE_PASS_MEASURES
from sample_models import theory
from tests import test_compare_sameness as sameness
from tests.oracle.lively import enliven
from tests.sample_models.test_every import FACTORIES, FOLDER
from tests.sentences.comparison_check import ComparedReports, compare_with_reports
from tests.test_compare import CHANGES

IDS = ((7, 3, 12, 40, 9, 22, 5, 31), (4, 8, 15, 16, 23, 42, 1, 0))
Change = Callable[[Any], None]


def make_gpt2(**settings: Any) -> Any:
    """A seeded GPT-2 of three layers; `settings` replace its own."""
    own = {"n_positions": 20, "n_embd": 32, "n_layer": 3, "n_head": 4}
    config = GPT2Config(vocab_size=50, bos_token_id=0, eos_token_id=1, **(own | settings))
    return enliven(GPT2LMHeadModel(config), seed=5)


def make_blocks() -> Any:
    """A pre-norm stack with learned scales, buffers and a head, and its inputs."""
    return sameness.Model().eval()


def compare_values(a: Any, b: Any, **options: Any) -> ComparedReports:
    """Run both on the same inputs."""
    return compare_with_reports(a, b, **({"measure": ONE_PASS_MEASURES} | options))


def compare_saved(a: Any, b: Any, **options: Any) -> ComparedReports:
    """Compare the reports of two runs."""
    options = {"measure": ONE_PASS_MEASURES} | options
    return compare_with_reports(*(normdiag.inspect(each, **options) for each in (a, b)))


def change_copy(model: Any, change: Change) -> Any:
    """Return a copy of `model` that `change` was applied to."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        change(other)
    return other


def keep_model(model: Any) -> None:
    """Change nothing."""


def lose_bias(model: Any) -> None:
    model.transformer.h[1].ln_1.bias = None


def other_features(model: Any) -> None:
    """Normalise two halves of the last norm's input, each for itself."""
    model.transformer.ln_f = nn.Sequential(
        nn.Unflatten(-1, (2, 16)), nn.LayerNorm(16), nn.Flatten(-2)
    )


def outlier_of_one_token(model: Any) -> None:
    """One token's embedding, which one sampled row of many holds."""
    model.transformer.wte.weight[3] *= 1.5


def transpose_weight(model: Any) -> None:
    weight = model.transformer.h[1].attn.c_proj.weight
    weight.copy_(weight.T.clone())


GPT2_CHANGES = {
    change.__name__: change
    for change in (
        *(change for change, *_ in CHANGES),
        keep_model,
        outlier_of_one_token,
        transpose_weight,
    )
}
BLOCK_CHANGES = {
    change.__name__: change
    for change in (
        sameness.halve_buffer,
        sameness.reset_scales,
        sameness.permute_rows,
        sameness.exchange_matrices,
        sameness.quarter_outputs,
        sameness.swap_halves,
    )
} | {f"form_{form}": sameness.set_forms(form) for form in ("outside", "spread", "fused")}
HEALTHY = [
    (target, f"{target.split(':')[0]}:build_healthy")
    for target in FACTORIES
    if target.endswith(":build") and f"{target.split(':')[0]}:build_healthy" in FACTORIES
]
"""Sample models with a defect, and their healthy relatives."""


def sample_target(target: str) -> str:
    """Return what names a sample model on the command line."""
    file, factory = target.split(":")
    return f"{FOLDER / file}.py:{factory}"


def _compare_samples(a: str, b: str, **options: Any) -> ComparedReports:
    return compare_values(sample_target(a), sample_target(b), **options)


def _compare_stacks(a: dict[str, Any], b: dict[str, Any]) -> ComparedReports:
    (mine, x), (theirs, y) = theory.build(**a), theory.build(**b)
    reports = [
        normdiag.inspect(model, inputs=inputs, measure=ONE_PASS_MEASURES)
        for model, inputs in ((mine, x), (theirs, y))
    ]
    return compare_with_reports(*reports)


OTHER_PAIRS: dict[str, Callable[[], ComparedReports]] = {
    "cast-float16": lambda: _compare_samples(
        "pre_norm:build", "pre_norm:build", second={"dtype": "float16"}
    ),
    "cast-bfloat16": lambda: _compare_samples(
        "rms_pre_norm:build", "rms_pre_norm:build", second={"dtype": "bfloat16"}
    ),
    "same-saved": lambda: compare_saved(make_gpt2(), make_gpt2(), ids=IDS),
    "other-placement": lambda: _compare_samples("pre_norm:build", "post_norm:build"),
    "no-final-norm": lambda: _compare_samples(
        "pre_norm:build", "pre_norm:build_without_final_norm"
    ),
    "one-norm-less": lambda: _compare_samples("pre_norm:build", "no_norm:build"),
    "other-kind": lambda: _compare_samples("rms_pre_norm:build", "sandwich:build"),
    "other-epsilon": lambda: _compare_samples("odd_norms:build", "odd_norms:build_epsilon"),
    "other-dead-gains": lambda: _compare_samples("gains:build", "gains:build_dead"),
    "other-outlier-gain": lambda: _compare_samples("gains:build", "gains:build_outlier"),
    "other-axis": lambda: _compare_samples("other_axes:build", "other_axes:build_narrow"),
    "parallel": lambda: _compare_samples("pre_norm:build", "parallel:build"),
    "deeper": lambda: compare_values(make_gpt2(), make_gpt2(n_layer=5), ids=IDS),
    "wider": lambda: compare_values(make_gpt2(), make_gpt2(n_embd=48), ids=IDS),
    "no-bias": lambda: compare_values(make_gpt2(), change_copy(make_gpt2(), lose_bias), ids=IDS),
    "other-features": lambda: compare_values(
        make_gpt2(), change_copy(make_gpt2(), other_features), ids=IDS
    ),
    "other-inputs": lambda: compare_with_reports(
        *(
            normdiag.inspect(make_gpt2(), measure=ONE_PASS_MEASURES, ids=ids)
            for ids in (IDS, ((1, 2),))
        )
    ),
    "other-seeds": lambda: compare_with_reports(
        *(normdiag.inspect(make_gpt2(), measure=ONE_PASS_MEASURES, seed=seed) for seed in (1, 2))
    ),
    "structure": lambda: _compare_samples("pre_norm:build", "parallel:build", structure_only=True),
    "theory-depth": lambda: _compare_stacks({"layers": 12}, {"layers": 9}),
    "theory-placement": lambda: _compare_stacks({"placement": "pre"}, {"placement": "post"}),
    "theory-width": lambda: _compare_stacks({"width": 64}, {"width": 32}),
}
