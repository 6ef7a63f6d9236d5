"""ND005 unused-module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from normdiag.evidence.coverage import UnusedModule, mask_numbers
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Severity
from normdiag.number_text import format_count
from normdiag.rules.rule import Rule
from normdiag.rules.site import list_places
from normdiag.rules.thresholds import Limits


class UnusedModuleRule(Rule):
    """A module with parameters did not run.

    ## What it does

    Reports modules of which neither the forward nor a parameter was used in this run. Inside the
    layers of a stack it is a warning for a norm, for a module that runs in other layers, and for a
    whole layer of the kind of others that run: with parameters of the same names and shapes.
    Elsewhere, where the same part with weights does not run in any layer, and where the input
    chooses among equal modules, it is info.

    ## Why it matters

    Parameters that never run change nothing and get no gradient. A norm that is built and not
    called leaves its branch to another norm, or to none: `n1` is called twice where `n2` was meant.

    ## How it is measured

    One forward: a module that was not called, inside a module that was, and none of whose
    parameters was an operand, under whichever of its names. Items of a list of which other items
    ran count as chosen by the input (experts). A norm is what has the class of a module that ran
    and was found to be a norm.

    ## Thresholds

    ## Example

    Four blocks whose MLP reads ln1(x) again; ln2 never runs.

    ## How to fix

    Call the module where it was meant to run, or remove it.

    ## When it is wrong

    Modules that need an input which this run did not have (cross-attention without an encoder,
    image towers without images), and heads of another task.

    ## References

    * Parameters without a gradient stop distributed training: github.com/pytorch/pytorch, issue
      22049 (2019), `find_unused_parameters`.
    """

    code = "ND005"
    name = "unused-module"
    since = "0.1"
    requirements = ("forward",)
    fires_on = "sample_models/broken_wiring.py:build_second_norm_unused"
    silent_on = "sample_models/broken_wiring.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for the modules in layers, one for all others."""
        unused = evidence.coverage.unused_modules
        parts = {(u.stack, u.layer) for u in unused if not (u.is_norm or u.runs_elsewhere)}
        lost = [each for each in unused if _is_lost(each, parts)]
        others = [each for each in unused if each not in lost]
        if lost:
            yield self._finding(lost, "warning")
        if others:
            yield self._finding(others, "info")

    def _finding(self, unused: Sequence[UnusedModule], severity: Severity) -> Finding:
        parameters = format_count(sum(each.parameters for each in unused), "parameter")
        named = unused[0].module
        if len(unused) > 1:
            patterns = Counter(mask_numbers(each.module) for each in unused)
            counted = tuple(f"{pattern} ({many})" for pattern, many in patterns.items())
            named = f"{format_count(len(unused), 'module')}, {list_places(counted)},"
        advice = (
            "call it where it was meant to run, remove it, or give the input that it needs"
            if severity == "warning"
            else "expected for parts that this input does not need"
        )
        return self.finding(
            f"{named} did not run ({parameters})",
            ids=tuple(each.module for each in unused),
            severity=severity,
            confidence="medium",
            measured=(float(len(unused)), 0.0),
            advice=advice,
        )


def _is_lost(unused: UnusedModule, parts: set[tuple[str | None, int | None]]) -> bool:
    """Whether a layer lacks it, whatever the input; a norm of a larger part of it goes with that.

    `parts`: the layers of which a part with weights does not run, the same one in every layer.
    """
    if unused.stack is None or unused.is_choice:
        return False
    is_alone = (unused.stack, unused.layer) not in parts
    return unused.runs_elsewhere or (unused.is_norm and is_alone)
