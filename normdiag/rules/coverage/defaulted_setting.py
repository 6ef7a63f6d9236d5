"""ND004 defaulted-setting."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits


class DefaultedSetting(Rule):
    """config.json omits a setting that changes the computation, so the class default is used.

    ## What it does

    Reports settings that `config.json` omits and whose class default decides the placement of
    norms, an epsilon, or a scale on the stream.

    ## Why it matters

    The tensors are the same for either value, so the checkpoint loads without a warning while the
    output is slightly or completely wrong. A sequential GPT-NeoX model without
    `use_parallel_residual` runs in parallel, a Granite model without its multipliers runs at
    another scale, a missing `rms_norm_eps` becomes 1e-6. The key is missing because an older class
    had another default or because a conversion script dropped it.

    ## How it is measured

    For each boolean and each fraction that the file omits, the model is built with the alternative
    value on the meta device (no weights) and its forward is traced without values. A setting is
    reported where the tensors are the same and the data flow differs.

    ## Thresholds

    ## Example

    A Llama model whose `config.json` lacks `rms_norm_eps`: 1e-6 is used where training used 1e-5.

    ## How to fix

    Look up the value in the original release and write it into `config.json`, even where it equals
    the default: defaults change between versions.

    ## When it is wrong

    The finding is a fact, and usually harmless: in most checkpoints the default is the intended
    value. Settings that are neither booleans nor fractions, and settings of nested configurations,
    are not checked.

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
                f"config.json omits {each.setting}; the class default {each.value} is used: "
                f"{each.effect}; with {each.alternative}: {each.alternative_effect}",
                ids=(),
                severity="info",
                confidence="high",
                advice=f"add {each.setting} to config.json with the value used in training",
            )
