"""Fixtures for checkpoints with real weights: paths, or a skip that says why there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.reports import jacobian_case, jacobian_report, report
from tests.real import packages, smollm2

__all__ = ["jacobian_case", "jacobian_report", "report"]


def _weights(package: packages.Package) -> Path:
    try:
        return packages.weights(package)
    except packages.UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct, Q4_1: the .gguf file."""
    return _weights(packages.SMOLLM2)


@pytest.fixture(scope="session")
def smollm2_directory(smollm2_gguf: Path) -> Path:
    """The same as a transformers directory in float32."""
    return smollm2.safetensors_copy()


@pytest.fixture(scope="session")
def minilm_directory() -> Path:
    """all-MiniLM-L6-v2: a transformers directory with safetensors."""
    return _weights(packages.MINILM)


@pytest.fixture(scope="session")
def albert_directory() -> Path:
    """RXNMapper's ALBERT: a transformers directory with a .bin, one layer that runs 12 times."""
    return _weights(packages.RXNMAPPER)
