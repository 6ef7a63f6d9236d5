"""Each rule on a real model: it fires on its sample model and is silent on the healthy twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generators.pictures.captions import SIDES, path_of
from docs.generators.pictures.gallery import draw_side
from docs.generators.pictures.sameness import is_same_picture
from normdiag.charts.registry import CHART_OF_RULE
from normdiag.rules.registry import RULES
from normdiag.rules.rule import Rule
from tests.rules.sample_reports import ROOT, inspect_target, target

EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)

HEALTHY = (
    "batch_norm.py:build",
    "branch_output.py:build",
    "broken_wiring.py:build",
    "gains.py:build",
    "odd_norms.py:build",
    "other_axes.py:build",
    "parallel.py:build",
    "pre_norm.py:build",
    "rms_pre_norm.py:build",
    "sandwich.py:build",
    "scaled_branch.py:build",
    "cancelling_add.py:build_healthy",
    "common_offset.py:build_healthy",
    "dead_branch.py:build_healthy",
    "dead_relu.py:build_healthy",
    "duplicate_layers.py:build_healthy",
    "half_epsilon.py:build_healthy",
    "hidden_write.py:build_healthy",
    "large_qk_gain.py:build_healthy",
    "massive_activation.py:build_healthy",
    "nan_gain.py:build_healthy",
    "outlier_channel.py:build_healthy",
    "overwriting_branch.py:build_healthy",
    "absorbed_update.py:build_healthy",
    "tiny_embedding.py:build_healthy",
    "unexplained_add.py:build_healthy",
    "tiny_llama",
)
"""Sample models that must reach no gate, whatever rule looks at them."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@EACH
def test_it_fires_on_its_sample_model(rule: Rule, written: Path) -> None:
    report = inspect_target(target(rule.fires_on, written), rule.family)
    own = [finding for finding in report.findings if finding.code == rule.code]
    assert own, [finding.message for finding in report.findings]
    assert rule.code not in report.rules.passed


@EACH
def test_it_is_silent_on_the_healthy_twin(rule: Rule, written: Path) -> None:
    report = inspect_target(target(rule.silent_on, written), rule.family)
    own = [finding for finding in report.findings if finding.code == rule.code]
    assert [finding.message for finding in own] == []
    assert rule.code in report.rules.passed, report.rules.skipped


@pytest.mark.parametrize("model", HEALTHY)
def test_a_healthy_model_passes_every_gate(model: str, written: Path) -> None:
    report = inspect_target(target(f"sample_models/{model}", written))
    assert [f.message for f in report.findings if f.severity != "info"] == []


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.code in CHART_OF_RULE], ids=lambda rule: rule.name
)
def test_its_picture_in_the_documentation_is_current(rule: Rule, side: str) -> None:
    """Here, where the reports are: `python -m docs.generators.pictures rules` draws it anew."""
    pytest.importorskip("vl_convert", reason="pip install 'normdiag[html]'")
    shown = (ROOT / path_of(rule, side)).read_text(encoding="utf-8")
    assert is_same_picture(shown, draw_side(rule, side))


@EACH
def test_a_finding_names_sites_that_are_there(rule: Rule, written: Path) -> None:
    """Every id of a finding is a norm, an add, a stack, a module or a parameter of the report."""
    report = inspect_target(target(rule.fires_on, written), rule.family)
    built = report.architecture
    known = {each.id for each in (*built.norms, *built.residual_adds, *built.stacks)}
    if report.measurements.weights:
        known |= {tensor.name for tensor in report.measurements.weights.flagged}
    known |= {*report.subject.loading.missing, *report.subject.loading.unexpected}
    known |= {add.module for add in report.coverage.unexplained_adds}
    known |= {each.module for each in report.coverage.unused_modules}
    known |= {each.last_module for each in built.breaks}
    if report.measurements.gradients:
        known |= report.measurements.gradients.groups.keys()
    if report.measurements.precision:
        known |= set(report.measurements.precision.max_abs)
    for finding in report.findings:
        if finding.code == rule.code:
            assert set(finding.ids) <= known
