"""What a target string means."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normdiag.errors import LoadError, NormdiagError, UsageError
from normdiag.loading.target_reference import TargetReference, parse_target


@pytest.mark.parametrize("target", ["gpt2", "org/name", "Qwen/Qwen2.5-0.5B", "a_b/c-d.e"])
def test_a_hub_id_is_one(target: str) -> None:
    assert parse_target(target) == TargetReference(kind="hub", target=target)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("m.safetensors", "safetensors"),
        ("m.gguf", "gguf"),
        ("pytorch_model.bin", "checkpoint"),
        ("net.PTH", "checkpoint"),
    ],
)
def test_a_file_is_known_by_its_suffix(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).touch()
    assert parse_target(str(tmp_path / name)).kind == kind


def test_a_gguf_without_a_suffix_is_known_by_its_start(tmp_path: Path) -> None:
    blob = tmp_path / "sha256-0123"
    blob.write_bytes(b"GGUF" + bytes(20))
    assert parse_target(str(blob)).kind == "gguf"


def test_what_is_on_disk_wins_over_a_hub_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert parse_target("org/name").kind == "directory"


def test_a_factory_is_a_module_or_a_file_and_a_name(tmp_path: Path) -> None:
    file = tmp_path / "models.py"
    file.touch()
    assert parse_target("package.module:build") == TargetReference(
        kind="factory", target="package.module:build", module="package.module", factory="build"
    )
    assert parse_target(f"{file}:Net.tiny") == TargetReference(
        kind="factory", target=f"{file}:Net.tiny", path=file, factory="Net.tiny"
    )


def test_a_pattern_that_a_shell_found_no_match_for_is_known(tmp_path: Path) -> None:
    with pytest.raises(LoadError) as caught:
        parse_target(f"{tmp_path}/ckpt-*/")
    assert caught.value.hint == f"nothing in {tmp_path} matches ckpt-*"


@pytest.mark.parametrize(
    "target", ["./nowhere", "/no/where/at/all", "~/no-such", "a/b/c", "gone.safetensors", "x.gguf"]
)
def test_a_missing_path_is_named(target: str) -> None:
    with pytest.raises(LoadError, match="does not exist") as caught:
        parse_target(target)
    assert target in caught.value.what
    assert caught.value.hint is not None


def test_a_missing_file_of_a_factory_is_named() -> None:
    with pytest.raises(LoadError, match=r"gone\.py does not exist"):
        parse_target("gone.py:build")


def test_code_without_a_function_says_how_to_name_one(tmp_path: Path) -> None:
    file = tmp_path / "models.py"
    file.touch()
    with pytest.raises(LoadError) as caught:
        parse_target(str(file))
    assert caught.value.hint == f"append it: {file}:build"


def test_an_index_says_to_pass_its_directory(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.touch()
    with pytest.raises(LoadError) as caught:
        parse_target(str(index))
    assert caught.value.hint == f"pass {tmp_path}"


def test_an_unknown_file_type_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "weights.h5").write_bytes(b"\x89HDF")
    with pytest.raises(LoadError, match=r"unknown type \(\.h5\)"):
        parse_target(str(tmp_path / "weights.h5"))


def test_an_empty_target_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        parse_target("  ")


@given(st.text())
def test_any_string_is_a_reference_or_a_clear_error(target: str) -> None:
    try:
        reference = parse_target(target)
    except NormdiagError as error:
        assert error.what
    else:
        assert reference.target == target
