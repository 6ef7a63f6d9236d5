"""Mainstream families at initialisation pass `--fail-on warning`, however small they are built."""

from __future__ import annotations

import pytest

import normdiag
from tests.sentences.page_check import check_inspection
from tests.structure.families.family import Family, families

MAINSTREAM = """
    albert bart bert bloom deberta-v2 deit dinov2 distilbert electra falcon gemma gemma2 gemma3_text
    gpt2 gpt_neox gptj llama mistral mpnet olmo2 opt phi phi3 qwen2 qwen3 roberta stablelm t5 vit
    whisper
"""
FAMILIES: dict[str, Family] = {
    name: family for part in ("a_to_l", "m_to_z") for name, family in families(part).items()
}


def test_there_are_thirty() -> None:
    assert len(set(MAINSTREAM.split())) == 30 and set(MAINSTREAM.split()) <= set(FAMILIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAINSTREAM.split())
def test_a_family_at_initialisation_gets_no_warning(name: str) -> None:
    model, inputs = FAMILIES[name].build()
    report = normdiag.inspect(model, inputs=inputs)
    assert [(f.code, f.message) for f in report.findings if f.severity != "info"] == []


@pytest.mark.parametrize(
    ("name", "infos"), [("olmo2", {"ND301", "ND302"}), ("gemma2", {"ND301"}), ("deit", {"ND302"})]
)
def test_what_is_so_of_a_small_model_is_said_as_info(name: str, infos: set[str]) -> None:
    """Branches of the size of sqrt(epsilon); a class and a distillation token that start as 0."""
    model, inputs = FAMILIES[name].build()
    report = normdiag.inspect(model, inputs=inputs, measure=("stream", "norms"))
    assert {f.code for f in report.findings} == infos
    check_inspection(report)
