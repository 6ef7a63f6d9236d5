"""Every model type of transformers that was read: what is found is what its code does.

The truth was written from the modeling code, never from what normdiag says. Where the two differ
today, `differences.csv` says in which facts and why; a difference that goes away fails too, so
that the table stays true.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from normdiag.evidence.architecture import Stack
from tests.structure.families.family import Family, Truth, families, truths
from tests.structure.structures import architecture, stirred

PARTS = ("a_to_l", "m_to_z")
FAMILIES = {name: f for part in PARTS for name, f in families(part).items()}
TRUTHS = {part: truths(part) for part in PARTS}
EVERY = [t for part in PARTS for t in TRUTHS[part]]
FACTS = ("placement", "norm_kind", "adds", "norms", "qk_norm", "final_norm")
GATED = frozenset(
    "beit bailing_hybrid convnext data2vec-vision deit dinov2 dinov2_with_registers dinov3_vit "
    "depth_anything focalnet idefics internvl_vision kyutai_speech_to_text mllama poolformer "
    "muse_spark_text tipsv2_vision_model vitdet dinov3_convnext convnextv2 gemma4_text".split()
)
"""With gates or LayerScales that start at or near zero."""
MAINSTREAM = frozenset(
    "gpt2 llama mistral qwen2 qwen3 gemma2 gemma3_text olmo2 gpt_neox gpt_neox@sequential gptj opt "
    "opt@post bert roberta albert t5 bart whisper vit dinov2 swin swinv2 wav2vec2".split()
)


def _known() -> dict[tuple[str, str], set[str]]:
    """Per stack, the facts in which what is found differs from the truth today."""
    known: dict[tuple[str, str], set[str]] = defaultdict(set)
    table = Path(__file__).parent / "families" / "differences.csv"
    with table.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            known[row["family"], row["path"]] |= set(row["facts"].split())
    return known


KNOWN = _known()


@cache
def _stacks(family: Family, is_stirred: bool) -> tuple[Stack, ...]:
    model, inputs = family.build()
    return architecture(stirred(model) if is_stirred else model, inputs).stacks


def _differs(truth: Truth, is_stirred: bool) -> dict[str, object]:
    """The facts of one stack that are not as the truth says, with what was found instead."""
    stacks = _stacks(FAMILIES[truth.family], is_stirred)
    stack = next((s for s in stacks if s.id == truth.path), None)
    if stack is None:
        return {"path": [s.id for s in stacks]}
    found = {
        "placement": stack.placement,
        "norm_kind": stack.norm_kind or "none",
        "adds": stack.residual_adds_per_layer,
        "norms": stack.norms_per_layer,
        "qk_norm": stack.qk_norm,
        "final_norm": stack.final_norm is not None,
    }
    right = {
        "placement": truth.placement,
        "norm_kind": {truth.norm_kind},
        "adds": {truth.adds},
        "norms": {truth.norms},
        "qk_norm": {truth.qk_norm},
        "final_norm": {truth.final_norm},
    }
    return {f: found[f] for f in FACTS if None not in right[f] and found[f] not in right[f]}


def _ids(truth: Truth) -> str:
    return f"{truth.family}-{truth.path}"


@pytest.mark.parametrize("truth", EVERY, ids=_ids)
def test_a_stack_is_what_its_code_does(truth: Truth) -> None:
    differs = _differs(truth, is_stirred=False)
    assert set(differs) == KNOWN[truth.family, truth.path], (differs, truth.why)


@pytest.mark.parametrize(
    "truth",
    [
        t if t.family in GATED | MAINSTREAM else pytest.param(t, marks=pytest.mark.slow)
        for t in EVERY
    ],
    ids=_ids,
)
def test_noise_on_the_parameters_changes_nothing(truth: Truth) -> None:
    differs = _differs(truth, is_stirred=True)
    assert set(differs) == KNOWN[truth.family, truth.path], (differs, truth.why)


def test_the_mainstream_is_right_in_every_fact() -> None:
    wrong = {key: facts for key, facts in KNOWN.items() if key[0] in MAINSTREAM and facts}
    assert not wrong and MAINSTREAM <= {t.family for t in EVERY}


@pytest.mark.parametrize("part", PARTS)
def test_the_shares_of_right_facts(part: str) -> None:
    right: Counter[str] = Counter()
    for truth in TRUTHS[part]:
        differs = _differs(truth, is_stirred=False)
        right.update(f for f in FACTS if f not in differs and "path" not in differs)
    total = len(TRUTHS[part])
    assert total - right["placement"] <= 0.005 * total
    for fact in ("adds", "norm_kind", "qk_norm", "final_norm"):
        assert right[fact] >= 0.99 * total, (fact, right[fact], total)


def test_no_difference_is_known_of_a_stack_that_nobody_reads() -> None:
    assert set(KNOWN) <= {(t.family, t.path) for t in EVERY}
