"""ND004 defaulted-setting."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits


class DefaultedSetting(Rule):
    """The configuration leaves out a setting that decides the structure, so a default was taken.

    ## What it does

    Names settings that `config.json` does not hold, for which the class's default was taken, and
    that change where the norms stand, an epsilon, or a scale on the stream.

    ## Why it matters

    The tensors are the same either way: nothing in the checkpoint tells which was meant, every
    loader is content, and the output is wrong by some per cent or altogether. Sequential GPT-NeoX
    models whose `use_parallel_residual` got lost are run in parallel, a Granite without its
    multipliers runs at another scale, an `rms_norm_eps` falls back to 1e-6. An older class had
    another default, or a conversion did not know the key.

    ## How it is measured

    Each boolean and each fraction that the file leaves out is turned: the model is built with the
    other value on the meta device, without weights, and run without values. Where its tensors are
    the same and its data flow is another, the setting is named with both.

    ## Thresholds

    ## Example

    A Llama whose `config.json` has lost `rms_norm_eps`: 1e-6 is taken, 1e-5 was meant.

    ## How to fix

    Look the value up where the weights come from, and write it into `config.json`, also where it
    is the default: defaults change.

    ## When it is wrong

    Never wrong, and mostly harmless: the default is mostly what was meant. Settings that are
    neither booleans nor fractions, and those of nested configurations, are not looked at.

    ## References

    * A parallel residual by default: github.com/huggingface/transformers, issue 18695 (2022).
    """

    code = "ND004"
    name = "defaulted-setting"
    since = "0.1"
    requirements = ("loading", "measurements.defaults")
    fires_on = "sample_models/lost_setting.py:write"
    silent_on = "sample_models/tiny_llama"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per setting."""
        for each in evidence.subject.loading.defaulted or ():
            yield self.finding(
                f"{each.setting} is not in config.json, so its default {each.value} was taken: "
                f"{each.effect}; with {each.alternative}: {each.alternative_effect}",
                ids=(),
                severity="info",
                confidence="high",
                advice=f"write {each.setting} into config.json, with the value that the weights "
                "were trained with",
            )
