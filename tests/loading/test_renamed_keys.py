"""Names are cut only where all that is missing then fits, in one way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normdiag.loading.renamed_keys import find_renamings

MODEL = {
    "model.embed.weight": (8, 4),
    "model.layers.0.norm.weight": (4,),
    "model.layers.1.norm.weight": (4,),
    "head.weight": (8, 4),
}
ALL = frozenset(MODEL)
PARTS = st.lists(
    st.sampled_from(("_orig_mod", "module", "model", "state_dict", "net", "layers")),
    min_size=1,
    max_size=3,
)


@given(parts=PARTS)
def test_whatever_stands_in_front_is_cut(parts: list[str]) -> None:
    prefix = ".".join(parts) + "."
    stored = {prefix + name: shape for name, shape in MODEL.items()}
    (way,) = find_renamings(stored, MODEL, ALL)
    assert way.cut == (prefix,)
    assert dict(way.names) == {prefix + name: name for name in MODEL}


def test_parts_inside_are_cut() -> None:
    stored = {
        name.replace("layers.1.", "layers.1._orig_mod.inner."): shape
        for name, shape in MODEL.items()
    }
    missing = frozenset({"model.layers.1.norm.weight"})
    (way,) = find_renamings(stored, MODEL, missing)
    assert way.cut == ("_orig_mod.", "inner.")
    assert set(way.names.values()) == missing


def test_what_lies_beside_the_model_is_left_alone() -> None:
    stored = {f"state_dict.{name}": shape for name, shape in MODEL.items()}
    stored |= {f"optimizer.state.{i}.exp_avg": (4,) for i in range(3)}
    (way,) = find_renamings(stored, MODEL, ALL)
    assert set(way.names.values()) == set(MODEL) and len(way.names) == len(MODEL)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param({f"m.{n}": (2, *s) for n, s in MODEL.items()}, id="other shapes"),
        pytest.param({f"m.{n}": s for n, s in list(MODEL.items())[1:]}, id="one less"),
        pytest.param({f"{n}.inner": s for n, s in MODEL.items() if "1" in n}, id="few"),
    ],
)
def test_nothing_is_cut_where_not_all_fits(stored: dict[str, tuple[int, ...]]) -> None:
    assert find_renamings(stored, MODEL, ALL) == []


def test_no_name_that_fits_is_taken() -> None:
    """`m.` stands before every name, and cut it would replace tensors that the model has."""
    stored = {f"m.{name}": shape for name, shape in MODEL.items()} | MODEL
    del stored["head.weight"]
    assert find_renamings(stored, MODEL, frozenset({"head.weight"})) == []


def test_a_name_that_fits_keeps_the_part_that_is_cut_from_others() -> None:
    """`model.` is a part of the model's own names, and stands before the head's as well."""
    stored = dict(MODEL)
    stored["model.head.weight"] = stored.pop("head.weight")
    (way,) = find_renamings(stored, MODEL, frozenset({"head.weight"}))
    assert dict(way.names) == {"model.head.weight": "head.weight"}


def test_what_the_loader_misses_and_the_model_does_not_name_fits_nothing() -> None:
    stored = {f"m.{name}": shape for name, shape in MODEL.items()} | {"m.packed": (3,)}
    assert find_renamings(stored, MODEL, ALL | {"packed"}) == []
    assert find_renamings(stored, MODEL, frozenset({"packed"})) == []


def test_a_model_that_is_stored_twice_is_no_ones_choice() -> None:
    stored = {f"{p}.{name}": shape for p in ("model", "ema") for name, shape in MODEL.items()}
    ways = find_renamings(stored, MODEL, ALL)
    assert sorted(way.cut[0] for way in ways) == ["ema.", "model."]
