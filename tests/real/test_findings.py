"""What the rules say of sound models: no error, and what they warn of is so and worth knowing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import normdiag
from normdiag.findings import Finding

MEASURED = ("stream", "norms", "jacobians")


def findings(directory: Path) -> dict[str, Finding]:
    """Code -> finding; none is an error."""
    report = normdiag.inspect(str(directory), measure=MEASURED)
    assert [f.message for f in report.findings if f.severity == "error"] == []
    return {finding.code: finding for finding in report.findings}


@pytest.mark.real
def test_minilm_has_three_dead_gains(minilm_directory: Path) -> None:
    found = findings(minilm_directory)
    assert [code for code, f in found.items() if f.severity == "warning"] == []
    name = "encoder.layer.5.output.LayerNorm"
    sizes = np.abs(load_file(minilm_directory / "model.safetensors")[f"{name}.weight"])
    dead = int((sizes <= 1e-6 * np.median(sizes)).sum())
    finding = found["ND201"]
    assert (finding.severity, finding.ids, dead) == ("info", (name,), 3)
    assert finding.value == pytest.approx(dead / sizes.size)


@pytest.mark.real
def test_albert_is_sound(albert_directory: Path) -> None:
    assert {f.severity for f in findings(albert_directory).values()} <= {"info"}


@pytest.mark.real
@pytest.mark.slow
def test_smollm2_has_massive_activations(smollm2_directory: Path) -> None:
    found = findings(smollm2_directory)
    assert not [code for code, f in found.items() if f.severity != "info"]
    assert "at position 0" in found["ND304"].message
    kappa = found["ND501"]
    assert (kappa.severity, kappa.ids[0]) == ("info", "model.layers.0.input_layernorm")
