"""An AddMeasurement against numpy: padding, several passes, small angles, where the largest is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import normdiag
from normdiag.evidence.stream import AddMeasurement


class Write(nn.Module):
    """y = x + W x."""

    def __init__(self, width: int, size: float = 1.0) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width, bias=False)
        with torch.no_grad():
            self.fc.weight.mul_(size)

    def forward(self, x):
        return x + self.fc(x)


class Model(nn.Module):
    def __init__(self, width: int = 8, size: float = 1.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Write(width, size), Write(width, size)])

    def forward(self, inputs_embeds, attention_mask=None):
        for layer in self.layers:
            inputs_embeds = layer(inputs_embeds)
        return inputs_embeds


def first_add(model: nn.Module, inputs: object) -> AddMeasurement:
    return normdiag.inspect(model, inputs=inputs, measure=("stream",)).measurements.stream[
        "layers.0/add#0"
    ]


def mean_median_max(values: np.ndarray) -> tuple[float, float, float]:
    return (values.mean(), np.median(values), values.max())


def check_add(measurement: AddMeasurement, x: np.ndarray, u: np.ndarray) -> None:
    """x, u: (tokens, features)."""
    y, norm = x + u, np.linalg.norm
    cosine = (x * u).sum(-1) / (norm(x, axis=-1) * norm(u, axis=-1))
    half_chord = norm(
        x / norm(x, axis=-1, keepdims=True) - y / norm(y, axis=-1, keepdims=True), axis=-1
    )
    angle = np.degrees(2 * np.arcsin(half_chord / 2))
    expected = {
        "skip_norm": norm(x, axis=-1),
        "branch_norm": norm(u, axis=-1),
        "out_norm": norm(y, axis=-1),
        "update_ratio": norm(u, axis=-1) / norm(x, axis=-1),
        "cosine": cosine,
        "angle_deg": angle,
    }
    assert measurement.tokens == len(x)
    for name, values in expected.items():
        seen = getattr(measurement, name)
        numbers = (seen.mean, seen.median, seen.max)
        np.testing.assert_allclose(numbers, mean_median_max(values), rtol=1e-8, err_msg=name)
    np.testing.assert_allclose(measurement.max_abs, np.abs(y).max(), rtol=1e-12)
    np.testing.assert_allclose(
        measurement.median_abs, np.median(np.median(np.abs(y), -1)), rtol=1e-12
    )


@settings(deadline=None, max_examples=15)
@given(bits=st.lists(st.booleans(), min_size=12, max_size=12).filter(any), seed=st.integers(0, 99))
def test_padding_anywhere(bits: list[bool], seed: int) -> None:
    torch.manual_seed(seed)
    model, x = Model().double(), torch.randn(3, 4, 8, dtype=torch.float64)
    mask = torch.tensor(bits).view(3, 4)
    measurement = first_add(model, {"inputs_embeds": x, "attention_mask": mask.long()})
    u = (x @ model.layers[0].fc.weight.T).detach()
    check_add(measurement, x[mask].numpy(), u[mask].numpy())


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_however_the_tokens_are_split_into_passes(lengths: list[int]) -> None:
    torch.manual_seed(0)
    model = Model().double()
    parts = [torch.randn(1, n, 8, dtype=torch.float64) for n in lengths]
    measurement = first_add(model, [{"inputs_embeds": x} for x in parts])
    x = torch.cat([p[0] for p in parts])
    check_add(measurement, x.numpy(), (x @ model.layers[0].fc.weight.T).detach().numpy())


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
def test_small_angles_keep_their_digits(size: float) -> None:
    torch.manual_seed(0)
    model, x = Model(size=size).double(), torch.randn(1, 6, 8, dtype=torch.float64)
    measurement = first_add(model, {"inputs_embeds": x})
    u = (x @ model.layers[0].fc.weight.T).detach()
    across = u - (u * x).sum(-1, keepdim=True) / (x * x).sum(-1, keepdim=True) * x
    along = (x * (x + u)).sum(-1) / x.norm(dim=-1)
    expected = np.degrees(np.arctan2(across.norm(dim=-1).numpy(), along.numpy()))
    # y itself is rounded: an angle of 1e-9 has seven digits at best
    np.testing.assert_allclose(measurement.angle_deg.max, expected.max(), rtol=1e-15 / size + 1e-10)


def test_a_cancelling_branch_turns_by_half_a_circle() -> None:
    model = Model().double()
    with torch.no_grad():
        model.layers[0].fc.weight.copy_(-1.5 * torch.eye(8))
    measurement = first_add(model, {"inputs_embeds": torch.randn(1, 6, 8, dtype=torch.float64)})
    np.testing.assert_allclose(measurement.angle_deg.median, 180)
    np.testing.assert_allclose(measurement.cosine.median, -1)


class TestWhereTheLargestIs:
    def model_and_inputs(self, where: tuple[int, int, int]) -> tuple[nn.Module, torch.Tensor]:
        torch.manual_seed(0)
        model, x = Model(size=1e-3), torch.randn(3, 4, 8)
        x[where] = 100.0
        return model, x

    @pytest.mark.parametrize("where", [(0, 0, 0), (2, 3, 7), (1, 2, 5)])
    def test_in_one_pass(self, where: tuple[int, int, int]) -> None:
        model, x = self.model_and_inputs(where)
        measurement = first_add(model, {"inputs_embeds": x})
        at = (
            measurement.max_token.sequence,
            measurement.max_token.position,
            measurement.max_channel,
        )
        assert at == where

    def test_in_a_later_pass(self) -> None:
        model, x = self.model_and_inputs((2, 3, 7))
        measurement = first_add(model, [{"inputs_embeds": part[None]} for part in x])
        assert (measurement.max_token.sequence, measurement.max_token.position) == (2, 3)

    def test_positions_count_padding_on_the_left(self) -> None:
        """A position is a place in the row that the model was given."""
        model, x = self.model_and_inputs((1, 2, 5))
        mask = torch.tensor([[0, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]])
        measurement = first_add(model, {"inputs_embeds": x, "attention_mask": mask})
        assert (measurement.max_token.sequence, measurement.max_token.position) == (1, 2)

    def test_padding_is_not_looked_at(self) -> None:
        model, x = self.model_and_inputs((1, 0, 5))
        mask = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]])
        measurement = first_add(model, {"inputs_embeds": x, "attention_mask": mask})
        assert measurement.max_abs < 50


class TestWhatIsNotDefined:
    def test_of_a_token_of_zeros_angles_are_zero_and_the_ratio_infinite(self) -> None:
        class Shift(Model):
            def forward(self, inputs_embeds, attention_mask=None):
                x = inputs_embeds
                for layer in self.layers:
                    x = x + layer.fc(x + 1)
                return x

        x = torch.randn(1, 4, 8)
        x[0, 2] = 0
        torch.manual_seed(0)
        streams = normdiag.inspect(Shift(), inputs=x, measure=("stream",)).measurements.stream
        measurement = next(iter(streams.values()))
        assert measurement.update_ratio.max == float("inf")
        assert np.isfinite(
            [measurement.cosine.mean, measurement.angle_deg.mean, measurement.skip_norm.mean]
        ).all()

    def test_of_a_token_that_is_not_finite_everything_is_nan(self) -> None:
        x = torch.randn(1, 4, 8)
        x[0, 2, 3] = float("nan")
        measurement = first_add(Model(), {"inputs_embeds": x})
        summaries = (
            measurement.skip_norm,
            measurement.out_norm,
            measurement.cosine,
            measurement.angle_deg,
        )
        assert np.isnan([s.mean for s in summaries]).all()
        assert np.isnan(measurement.max_abs)
        assert measurement.max_token.position == 2


def test_root_mean_squares_know_no_width() -> None:
    torch.manual_seed(0)
    model, x = Model(width=6, size=0.7), torch.randn(3, 5, 6)
    stream = normdiag.inspect(model, inputs=x).measurements.stream
    for name, layer in model.named_modules():
        if isinstance(layer, Write):
            with torch.no_grad():
                u = layer.fc(x)
            measurement = stream[f"{name}/add#0"].rms
            for side, exact in (("skip", x), ("branch", u), ("out", x + u)):
                size = np.sqrt(np.mean(exact.double().numpy() ** 2))
                assert getattr(measurement, side) == pytest.approx(size, rel=1e-6)
            x = x + u
