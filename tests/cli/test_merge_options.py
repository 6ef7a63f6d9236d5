"""The command line overrides the settings file, which overrides the defaults."""

import pytest

from normdiag.cli import merge_options
from normdiag.config import Settings
from normdiag.errors import UsageError
from normdiag.gate_options import CheckOptions, GateOptions
from normdiag.options import Options


def build(settings=None, **typed):
    """Build the pipeline's options of what was typed."""
    return merge_options.build_options(
        typed, Settings(values=settings or {}), command="normdiag inspect x"
    )


def test_the_defaults():
    assert build() == Options(command="normdiag inspect x")


def test_the_settings_file_overrides_the_defaults(tmp_path):
    (tmp_path / "probes.txt").write_text("one\ntwo\n", encoding="utf-8")
    values = {
        "select": ("ND3",),
        "ignore": ("ND301",),
        "thresholds": {"ND302": {"a": 1.0}},
        "measure": ("norms",),
        "clip": 0.25,
        "device": "cuda:0",
        "dtype": "float16",
        "seed": 5,
    }
    options = build({**values, "texts": tmp_path / "probes.txt", "fail_on": "warning"})
    assert options == Options(**values, texts=("one", "two"), command="normdiag inspect x")


def test_the_command_line_overrides_the_settings_file(tmp_path):
    (tmp_path / "typed.jsonl").write_text('{"text": "typed"}\n', encoding="utf-8")
    options = build(
        {
            "measure": ("norms",),
            "clip": 0.25,
            "texts": tmp_path / "is not read.txt",
            "device": "cuda:0",
            "dtype": "float16",
            "seed": 5,
        },
        device="cpu",
        dtype="bfloat16",
        revision="v2",
        random_init=True,
        trust_remote_code=True,
        adapter=tmp_path,
        texts=tmp_path / "typed.jsonl",
        seed=0,
        chat=True,
        no_special_tokens=True,
        measure=["stream,jacobians"],
        all_tokens=True,
        clip=2.0,
    )
    assert options == Options(
        device="cpu",
        dtype="bfloat16",
        revision="v2",
        random_init=True,
        trust_remote_code=True,
        adapter=tmp_path,
        texts=("typed",),
        seed=0,
        chat=True,
        special_tokens=False,
        measure=("stream", "jacobians"),
        clip=2.0,
        all_tokens=True,
        command="normdiag inspect x",
    )


def test_a_default_of_the_command_is_below_the_settings_file():
    def measure(values):
        settings = Settings(values=values)
        return merge_options.build_options({}, settings, command="", measure=("stream",)).measure

    assert measure({}) == ("stream",)
    assert measure({"measure": ("norms",)}) == ("norms",)


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf")])
def test_an_invalid_clipping_norm_is_refused(clip):
    with pytest.raises(UsageError, match="clip"):
        build(clip=clip)


@pytest.mark.parametrize(
    ("typed", "measure"),
    [
        (["stream"], ("stream",)),
        (["stream, norms", "jacobians"], ("stream", "norms", "jacobians")),
        (["stream,"], ("stream",)),
        (["none"], ()),
    ],
)
def test_measure(typed, measure):
    assert build({"measure": ("norms",)}, measure=typed).measure == measure


@pytest.mark.parametrize("typed", [["weather"], ["none,stream"]])
def test_an_unknown_measure_is_refused(typed):
    with pytest.raises(UsageError):
        build(measure=typed)


@pytest.mark.parametrize(
    ("typed", "ids"),
    [
        (["1,2,3"], ((1, 2, 3),)),
        (["1 2\t3", "[4, 5]"], ((1, 2, 3), (4, 5))),
        (["0"], ((0,),)),
    ],
)
def test_ids(typed, ids):
    options = build({"texts": "is not read.txt"}, ids=typed)
    assert options.ids == ids
    assert options.texts is None


def test_structure_only_ignores_the_texts_of_the_settings_file():
    options = build({"texts": "is not read.txt"}, structure_only=True)
    assert options.structure_only
    assert options.texts is None


@pytest.mark.parametrize("typed", ["", "[]", "a", "1,-2", "1.5", "1;2", "１"])
def test_invalid_ids_are_refused(typed):
    with pytest.raises(UsageError, match="not a list of token ids"):
        build(ids=[typed])


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ({"weights_only": True, "random_init": True}, "exclude each other"),
        ({"structure_only": True, "random_init": True}, "--random-init and --structure-only"),
        ({"structure_only": True, "text": ["a"]}, "computes no values"),
        ({"text": ["a"], "ids": ["1"]}, "--text and --ids"),
        ({"texts": "a", "inputs": "b"}, "--texts and --inputs"),
        ({"weights_only": True, "text": ["a"]}, "runs no forward pass"),
        ({"ids": ["1"], "chat": True}, "--chat applies to texts"),
        ({"inputs": "a", "no_special_tokens": True}, "--no-special-tokens applies to texts"),
    ],
)
def test_contradictions_are_refused(typed, why):
    with pytest.raises(UsageError, match=why):
        build(**typed)


def test_the_second_target_differs_in_what_was_typed_for_it(tmp_path):
    options = Options(dtype="float32", device="cuda:0", seed=3)
    assert merge_options.replace_for_second_target(options, {}) == options
    typed = {"b_dtype": "float16", "b_adapter": tmp_path}
    assert merge_options.replace_for_second_target(options, typed) == Options(
        dtype="float16", device="cuda:0", seed=3, adapter=tmp_path
    )


class TestGate:
    """The gate of `check` has settings, that of other commands has none."""

    SETTINGS = Settings(
        values={"fail_on": "info", "max": {"a": 1.0, "b": 2.0}, "require_complete": True}
    )

    def test_of_check(self):
        gate = merge_options.build_group(
            CheckOptions, {"max": ["b=3"]}, self.SETTINGS, fail_on="error"
        )
        assert gate == CheckOptions(fail_on="info", max={"a": 1.0, "b": 3.0}, require_complete=True)

    def test_of_other_commands(self):
        assert merge_options.build_gate_options({}) == GateOptions(fail_on="never")
        assert merge_options.build_gate_options({"fail_on": "error"}).fail_on == "error"


class TestJudging:
    """Which rules judge, checked before anything is loaded."""

    @pytest.fixture
    def file(self, folder):
        def write(text):
            (folder / "normdiag.toml").write_text(text, encoding="utf-8")
            return merge_options.load_settings()

        return write

    def test_the_settings_file(self, file):
        settings = file('select = ["ND3"]\n[ignore]\nND301 = "on purpose"')
        judging = merge_options.build_judging({}, settings, verbose=False)
        assert (judging.select, judging.ignore) == (("ND3",), ("ND301",))
        assert settings.ignore_reasons == {"ND301": "on purpose"}

    def test_the_command_line_replaces_it(self, file):
        settings = file('select = ["ND3"]\nignore = ["ND301"]')
        typed = {"select": ["ND1, nd4", "epsilon-dominates"], "ignore": ["ND102"]}
        judging = merge_options.build_judging(typed, settings, verbose=False)
        assert judging.select == ("ND1", "nd4", "epsilon-dominates")
        assert judging.ignore == ("ND102",)

    @pytest.mark.parametrize("typed", [{"select": ["ND9"]}, {"ignore": ["epsilon"]}], ids=str)
    def test_an_unknown_rule_is_refused(self, typed):
        with pytest.raises(UsageError, match="no rule"):
            merge_options.build_judging(typed, Settings(), verbose=False)
