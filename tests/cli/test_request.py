"""What was typed goes over the settings, these over the defaults; contradictions are refused."""

import pytest

from normdiag import config
from normdiag.cli import request
from normdiag.cli.options import Dtype, FailOn, Judging, Loading, Measuring, Observing, Probe
from normdiag.config import Settings
from normdiag.errors import UsageError
from normdiag.pipeline import Options


def asked(under=None, *, loading=None, probe=None, measuring=None):
    """The pipeline's options for these typed options."""
    observing = Observing(
        loading=Loading(**(loading or {})),
        probe=Probe(**(probe or {})),
        measuring=Measuring(**(measuring or {})),
    )
    return request.options(observing, under or Settings(), "normdiag inspect x")


def test_nothing_typed_and_nothing_set_is_the_default():
    assert asked() == Options(command="normdiag inspect x")


def test_settings_go_over_the_defaults(tmp_path):
    (tmp_path / "probes.txt").write_text("one\ntwo\n", encoding="utf-8")
    under = Settings(
        select=("ND3",),
        ignore={"ND301": "on purpose"},
        thresholds={"ND302": {"a": 1.0}},
        measure=("norms",),
        clip=0.25,
        texts=tmp_path / "probes.txt",
        device="cuda:0",
        dtype="float16",
        seed=5,
    )
    assert asked(under) == Options(
        select=("ND3",),
        ignore=("ND301",),
        thresholds={"ND302": {"a": 1.0}},
        measure=("norms",),
        clip=0.25,
        texts=("one", "two"),
        device="cuda:0",
        dtype="float16",
        seed=5,
        command="normdiag inspect x",
    )


def test_what_is_typed_goes_over_the_settings(tmp_path):
    (tmp_path / "typed.jsonl").write_text('{"text": "typed"}\n', encoding="utf-8")
    under = Settings(
        measure=("norms",),
        clip=0.25,
        texts=tmp_path / "is not read.txt",
        device="cuda:0",
        dtype="float16",
        seed=5,
    )
    options = asked(
        under,
        loading={
            "device": "cpu",
            "dtype": Dtype.BFLOAT16,
            "revision": "v2",
            "random_init": True,
            "trust_remote_code": True,
            "adapter": tmp_path,
        },
        probe={
            "texts": tmp_path / "typed.jsonl",
            "seed": 0,
            "chat": True,
            "no_special_tokens": True,
        },
        measuring={"measure": ["stream,jacobians"], "all_tokens": True, "clip": 2.0},
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


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clipping_norm_that_clips_nothing_is_refused(clip):
    with pytest.raises(UsageError, match="clip"):
        asked(measuring={"clip": clip})


@pytest.mark.parametrize(
    ("typed", "measure"),
    [
        (["stream"], ("stream",)),
        (["stream, norms", "jacobians"], ("stream", "norms", "jacobians")),
        (["none"], ()),
    ],
)
def test_measure(typed, measure):
    under = Settings(measure=("norms",))
    assert asked(under, measuring={"measure": typed}).measure == measure


@pytest.mark.parametrize("typed", [["weights"], ["stream,"], ["none,stream"]])
def test_what_cannot_be_measured_is_refused(typed):
    if typed == ["stream,"]:
        assert asked(measuring={"measure": typed}).measure == ("stream",)
        return
    with pytest.raises(UsageError):
        asked(measuring={"measure": typed})


@pytest.mark.parametrize(
    ("typed", "ids"),
    [
        (["1,2,3"], ((1, 2, 3),)),
        (["1 2\t3", "[4, 5]"], ((1, 2, 3), (4, 5))),
        (["0"], ((0,),)),
    ],
)
def test_ids(typed, ids):
    options = asked(Settings(texts="is not read.txt"), probe={"ids": typed})
    assert options.ids == ids
    assert options.texts is None


def test_without_values_the_texts_of_the_settings_are_of_no_use():
    options = asked(Settings(texts="is not read.txt"), loading={"structure_only": True})
    assert options.structure_only
    assert options.texts is None


@pytest.mark.parametrize("typed", ["", "[]", "a", "1,-2", "1.5", "1;2", "１"])
def test_what_is_no_id_is_refused(typed):
    with pytest.raises(UsageError, match="no list of token ids"):
        asked(probe={"ids": [typed]})


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ({"loading": {"weights_only": True, "random_init": True}}, "one of them"),
        ({"loading": {"structure_only": True, "random_init": True}}, "--structure-only each say"),
        ({"loading": {"structure_only": True}, "probe": {"text": ["a"]}}, "has no values"),
        ({"probe": {"text": ["a"], "ids": ["1"]}}, "--text and --ids"),
        ({"probe": {"texts": "a", "inputs": "b"}}, "--texts and --inputs"),
        ({"loading": {"weights_only": True}, "probe": {"text": ["a"]}}, "runs nothing"),
        ({"probe": {"ids": ["1"], "chat": True}}, "--chat is about texts"),
        ({"probe": {"inputs": "a", "no_special_tokens": True}}, "--no-special-tokens is about"),
    ],
)
def test_contradictions_are_refused(typed, why):
    with pytest.raises(UsageError, match=why):
        asked(**typed)


class TestSettings:
    """`request.settings`: the file's settings under the typed ones about rules."""

    @pytest.fixture
    def file(self, folder):
        def write(text):
            (folder / "normdiag.toml").write_text(text, encoding="utf-8")
            return config.find(folder)

        return write

    def test_without_typed_ones_it_is_the_file(self, file):
        read = file('select = ["ND3"]\nfail_on = "info"\n[ignore]\nND301 = "on purpose"')
        assert request.settings(Judging()) == read

    def test_typed_ones_replace(self, file):
        file('select = ["ND3"]\nignore = ["ND301"]\nfail_on = "info"')
        judging = Judging(
            select=["ND1, nd4", "epsilon-dominates"],
            ignore=["ND102"],
            fail_on=FailOn.NEVER,
            require_complete=True,
        )
        merged = request.settings(judging)
        assert merged.select == ("ND1", "nd4", "epsilon-dominates")
        assert merged.ignore == {"ND102": ""}
        assert merged.fail_on == "never"
        assert merged.require_complete is True

    @pytest.mark.parametrize(
        "judging", [Judging(select=["ND9"]), Judging(ignore=["epsilon"])], ids=["select", "ignore"]
    )
    def test_a_rule_that_does_not_exist_is_refused_before_anything_is_loaded(self, folder, judging):
        with pytest.raises(UsageError, match="no rule is called"):
            request.settings(judging)
