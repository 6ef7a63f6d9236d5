"""Norms whose input is small since nothing has been trained yet."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, Olmo2Config, Olmo2Model

from normdiag.evidence.architecture import Norm
from normdiag.evidence.gains import Gain
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.statistics import Range
from normdiag.rules.initial_state import is_initialised, is_small_by_initialisation
from tests.rules.builders import evidence, make_measurement, norms

UNIT = Gain(rms=1.0, min_abs=1.0, max_abs=1.0, zeros=0, nonfinite=0)
MOVED = Gain(rms=1.0, min_abs=0.999, max_abs=1.0, zeros=0, nonfinite=0)


def of(*changed: dict, seen: NormMeasurement | None = None, **given):
    """Four norms of unit gains; the first ones changed, the first with what was seen of it."""
    made = norms(4, **{"gain": UNIT, "role": "branch-output", **given})
    made = tuple(
        replace(norm, **fields)
        for norm, fields in zip(made, (*changed, {}, {}, {}, {}), strict=False)
    )
    inputs = {norm.id: make_measurement(0.9) for norm in made}
    return evidence(norms=made, norm_inputs=inputs | ({made[0].id: seen} if seen else {}))


def is_small(*changed: dict, **given) -> bool:
    built = of(*changed, **given)
    first: Norm = built.architecture.norms[0]
    return is_small_by_initialisation(built, first)


def test_unit_gains_and_no_bias_are_the_initial_state() -> None:
    assert is_initialised(of())
    assert is_initialised(of({"bias_rms": 0.0}, {"gain": None}))


@pytest.mark.parametrize(
    "changed",
    [
        {"gain": MOVED},
        {"gain": replace(UNIT, negatives=1)},
        {"gain": replace(UNIT, nonfinite=1)},
        {"bias_rms": 1e-4},
    ],
)
def test_one_step_of_training_ends_it(changed: dict) -> None:
    assert not is_initialised(of(changed))
    assert not is_small(changed)


def test_a_single_norm_shows_nothing() -> None:
    assert not is_initialised(evidence(norms=norms(1, gain=UNIT)))
    assert not is_initialised(of(gain=None))


@pytest.mark.parametrize("role", ["branch-output", "qk", "inner"])
def test_norms_behind_weights_of_a_branch(role: str) -> None:
    assert is_small(role=role)


@pytest.mark.parametrize("role", ["branch-input", "stream", "embedding", "final", "unattached"])
def test_norms_of_the_stream_are_not_excused(role: str) -> None:
    assert not is_small(role=role)


@pytest.mark.parametrize(
    "changed", [{"eps": 1e-4}, {"eps": 0.0}, {"eps": None}, {"eps_form": "on-root"}]
)
def test_an_epsilon_that_is_the_cause_is_not_excused(changed: dict) -> None:
    assert not is_small(changed)


def test_no_signal_at_all_is_not_excused() -> None:
    """Zeros are a dead branch; one number at all channels is a constant."""
    nothing = replace(make_measurement(0.9), input_var=Range(min=0.0, median=0.0, p95=0.0, max=0.0))
    assert not is_small(seen=nothing)
    flat = replace(make_measurement(0.9), mean_energy=0.99)
    assert not is_small(seen=flat, kind="layernorm")
    assert is_small(seen=flat, kind="rmsnorm")


@pytest.mark.slow
def test_training_makes_the_branch_grow() -> None:
    """What ND301's page says of a Gemma 2 of width 32."""
    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=99,
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
    )
    model = Gemma2ForCausalLM(config)
    norm = model.model.layers[0].post_feedforward_layernorm
    draws = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def share(ids: torch.Tensor) -> float:
        seen: list[torch.Tensor] = []
        hook = norm.register_forward_hook(lambda m, args, out: seen.append(args[0].double()))
        with torch.no_grad():
            model(ids)
        hook.remove()
        return float((1e-6 / (seen[0].square().mean(-1) + 1e-6)).median())

    shares = []
    for _ in range(11):
        ids = torch.randint(10, 40, (8, 8), generator=draws).repeat(1, 2)
        shares.append(share(ids))
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert shares[0] == pytest.approx(0.52, abs=0.03) and shares[10] < 0.2


@pytest.mark.slow
def test_a_first_output_norm_of_real_width_is_dominated_by_epsilon() -> None:
    """What ND301's page says of an OLMo 2 of width 2048."""
    torch.manual_seed(0)
    config = Olmo2Config(
        vocab_size=256,
        num_hidden_layers=1,
        hidden_size=2048,
        intermediate_size=64,
        num_attention_heads=16,
        pad_token_id=1,
        eos_token_id=2,
    )
    model = Olmo2Model(config).eval()
    seen: list[torch.Tensor] = []
    model.layers[0].post_attention_layernorm.register_forward_hook(
        lambda module, args, out: seen.append(args[0].double())
    )
    with torch.no_grad():
        model(torch.randint(10, 250, (1, 512), generator=torch.Generator().manual_seed(0)))
    share = config.rms_norm_eps / (seen[0].square().mean(-1) + config.rms_norm_eps)
    assert float(share.median()) == pytest.approx(0.70, abs=0.03)
