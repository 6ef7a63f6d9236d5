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
from tests.structure.structures import add_noise, architecture

PARTS = ("a_to_l", "m_to_z")
FAMILIES = {name: f for part in PARTS for name, f in families(part).items()}
TRUTHS = {part: truths(part) for part in PARTS}
EVERY = [t for part in PARTS for t in TRUTHS[part]]
FACTS = ("placement", "norm_kind", "adds", "norms", "qk_norm", "final_norm")
GATED = """
    bailing_hybrid beit convnext convnextv2 data2vec-vision deit depth_anything dinov2
    dinov2_with_registers dinov3_convnext dinov3_vit gemma4_text idefics internvl_vision
    kyutai_speech_to_text mllama muse_spark_text poolformer swiftformer tipsv2_vision_model vitdet
"""
"""With gates or LayerScales that start at or near zero."""
MAINSTREAM = """
    albert bart bert dinov2 gemma2 gemma3_text gpt2 gpt_neox gpt_neox@sequential gptj llama mistral
    olmo2 opt opt@post qwen2 qwen3 roberta swin swinv2 t5 vit wav2vec2 whisper
"""
STIRRED = {*GATED.split(), *MAINSTREAM.split()}


def _known_differences() -> dict[tuple[str, str], set[str]]:
    """Per stack, the facts in which what is found differs from the truth today."""
    known: dict[tuple[str, str], set[str]] = defaultdict(set)
    table = Path(__file__).parent / "families" / "differences.csv"
    with table.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            known[row["family"], row["path"]] |= set(row["facts"].split())
    return known


KNOWN = _known_differences()


@cache
def _stacks(family: Family, is_stirred: bool) -> tuple[Stack, ...]:
    model, inputs = family.build()
    return architecture(add_noise(model) if is_stirred else model, inputs).stacks


def _differs(truth: Truth, is_stirred: bool) -> dict[str, object]:
    """The facts of one stack that are not as the truth says, with what was found instead."""
    stack = _nearest(_stacks(FAMILIES[truth.family], is_stirred), truth.path)
    if stack is None:
        return dict.fromkeys(("path", *FACTS))
    found = {
        "path": stack.id.partition("@")[0],
        "placement": stack.placement,
        "norm_kind": stack.norm_kind or "none",
        "adds": stack.residual_adds_per_layer,
        "norms": stack.norms_per_layer,
        "qk_norm": stack.qk_norm,
        "final_norm": stack.final_norm is not None,
    }
    right = {
        "path": {truth.path},
        "placement": truth.placement,
        "norm_kind": {truth.norm_kind},
        "adds": {truth.adds},
        "norms": {truth.norms},
        "qk_norm": {truth.qk_norm},
        "final_norm": {truth.final_norm},
    }
    return {f: found[f] for f in found if None not in right[f] and found[f] not in right[f]}


def _nearest(stacks: tuple[Stack, ...], path: str) -> Stack | None:
    """The stack at this path, else the largest one of those inside it or around it."""
    at = [s for s in stacks if s.id.partition("@")[0] == path]
    near = [s for s in stacks if s.id and (s.id.startswith(path) or path.startswith(s.id))]
    return max(at or near, key=lambda s: s.layers * s.residual_adds_per_layer, default=None)


def _id(truth: Truth) -> str:
    return f"{truth.family}-{truth.path}"


@pytest.mark.parametrize("truth", EVERY, ids=_id)
def test_a_stack_is_what_its_code_does(truth: Truth) -> None:
    differs = _differs(truth, is_stirred=False)
    assert set(differs) == KNOWN.get((truth.family, truth.path), set()), (differs, truth.why)


@pytest.mark.parametrize(
    "truth",
    [t if t.family in STIRRED else pytest.param(t, marks=pytest.mark.slow) for t in EVERY],
    ids=_id,
)
def test_noise_on_the_parameters_changes_nothing(truth: Truth) -> None:
    differs = _differs(truth, is_stirred=True)
    assert set(differs) == KNOWN.get((truth.family, truth.path), set()), (differs, truth.why)


def test_the_mainstream_is_right_in_every_fact() -> None:
    mainstream = set(MAINSTREAM.split())
    assert mainstream <= set(FAMILIES)
    assert not {path for path, facts in KNOWN.items() if path[0] in mainstream and facts}


@pytest.mark.parametrize("part", PARTS)
def test_the_shares_of_right_facts(part: str) -> None:
    right: Counter[str] = Counter()
    for truth in TRUTHS[part]:
        differs = _differs(truth, is_stirred=False)
        right.update(f for f in FACTS if f not in differs)
    total = len(TRUTHS[part])
    assert right["placement"] >= 0.995 * total
    for fact in ("adds", "norm_kind", "qk_norm", "final_norm"):
        assert right[fact] >= 0.99 * total, (fact, right[fact], total)


def test_no_difference_is_known_of_a_stack_that_nobody_reads() -> None:
    assert set(KNOWN) <= {(t.family, t.path) for t in EVERY}
