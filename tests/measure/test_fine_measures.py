"""Each fine measure fills its own keys and no other; groups are the unions of theirs."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import transformers

import normdiag
from normdiag.measures import GROUPS, MEASURES, expand_measures

FILLED = {
    "stream-adds": {"stream", "growth", "closure", "head_input", "outputs"},
    "depth": {"layers", "duplicates", "stream.contribution", "growth.initial_contribution"},
    "init-growth": {"growth.init_total", "growth.init_norms"},
    "precision": {"precision.formats"},
    "branch-weights": {"branch_weights"},
    "attention-logits": {"attention_logits", "precision.logit_bounds"},
    "norm-inputs": {"norms"},
    "invariances": {"invariances.kinds"},
    "centring-swap": {"invariances.centring", "norm_swap"},
    "norm-jacobians": {"norms.jacobian"},
    "block-jacobians": {"blocks"},
    "gradients": {"gradients"},
    "norm-speed": {"norm_speed"},
    "defaults": set(),
}
ALWAYS = {"replay", "weights"}


@functools.cache
def model() -> torch.nn.Module:
    """With norms on queries and keys, so that every measure has something to measure."""
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=48,
        vocab_size=64,
        max_position_embeddings=32,
    )
    return transformers.Qwen3ForCausalLM(config).eval()


@functools.cache
def report(*measures: str) -> dict[str, Any]:
    inputs = {"input_ids": torch.arange(3, 15).view(1, 12)}
    return normdiag.inspect(model(), inputs=inputs, measure=measures).to_dict()


def parts(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value or ())


def filled(*measures: str) -> set[str]:
    """The keys of the measurements that hold something, those of other measures apart."""
    measured = report(*measures)["measurements"]
    keys = {key for key, value in measured.items() if value}
    for key, part in (
        ("stream", "contribution"),
        ("growth", "initial_contribution"),
        ("growth", "init_total"),
        ("growth", "init_norms"),
        ("norms", "jacobian"),
    ):
        if any(one[part] not in (None, {}) for one in parts(measured[key])):
            keys.add(f"{key}.{part}")
    for key, names in (
        ("precision", ("formats", "logit_bounds")),
        ("invariances", ("kinds", "centring")),
    ):
        if key in keys:
            keys |= {f"{key}.{name}" for name in names if measured[key][name]}
            keys.discard(key)
    return keys


def test_every_measure_is_here() -> None:
    assert set(FILLED) == {measure.name for measure in MEASURES}


@pytest.mark.parametrize("name", FILLED)
def test_a_measure_fills_its_keys_and_those_of_what_it_requires(name: str) -> None:
    expected = set().union(*(FILLED[each] for each in expand_measures([name])))
    assert filled(name) == expected | ALWAYS


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_is_the_union_of_its_measures(group: str) -> None:
    assert report(group)["measurements"] == report(*GROUPS[group])["measurements"]


@pytest.mark.parametrize("name", FILLED)
def test_numbers_do_not_depend_on_what_else_is_measured(name: str) -> None:
    alone = report(name)["measurements"]
    whole = report("stream", "norms", "jacobians", "gradients")["measurements"]
    for key in ("layers", "duplicates", "branch_weights", "blocks", "gradients", "replay"):
        if alone[key]:
            assert alone[key] == whole[key]
    for site, add in alone["stream"].items():
        assert add["out_norm"] == whole["stream"][site]["out_norm"]


def test_nothing_fills_nothing() -> None:
    assert filled() == {"replay"}


@pytest.mark.parametrize("name", FILLED)
def test_what_was_measured_is_stated(name: str) -> None:
    coverage = report(name)["coverage"]
    assert set(coverage["measures"]) == expand_measures([name]) | {"defaults"}
    assert coverage["skipped"] == []


@pytest.mark.parametrize(
    ("measure", "code", "missing"),
    [
        ("norm-inputs", "ND501", "norm-jacobians"),
        ("norm-jacobians", "ND503", "block-jacobians"),
        ("stream-adds", "ND406", "depth"),
        ("precision", "ND504", "attention-logits"),
        ("attention-logits", "ND701", "precision"),
        ("stream-adds", "ND301", "norm-inputs"),
        ("norm-inputs", "ND402", "stream-adds"),
        ("stream", "ND601", "gradients"),
    ],
)
def test_a_rule_without_its_measure_is_skipped_with_that_reason(measure, code, missing) -> None:
    (skip,) = [s for s in report(measure)["rules"]["skipped"] if s["code"] == code]
    assert f"add {missing!r} to --measure" in skip["why"]
