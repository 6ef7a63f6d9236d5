"""ND110 raw-branch-input."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import ResidualAdd
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count
from normdiag.rules.rule import Rule
from normdiag.rules.site import describe_places, list_places, rate_site, site_ids, trace_hint
from normdiag.rules.thresholds import Limits


class RawBranchInput(Rule):
    """A branch reads the stream past its input norm as well as through it.

    ## What it does

    Reports residual adds whose branch has an input norm while some of its weights read the raw
    stream.

    ## Why it matters

    The norm then fixes the size of a part of the branch's input alone. Attention whose queries are
    normalised and whose keys and values are not writes in proportion to the stream, which grows
    with depth, and its logits grow with it. The placement looks like pre-norm. A cause is a wrapper
    that normalises its first argument only, as in `attn(norm(x), x, x)`.

    ## How it is measured

    From the data flow: the products of weights with a value that derives from the stream without
    weights and without an input norm of that branch.

    ## Thresholds

    ## Example

    Attention with queries of ln1(x), and keys and values of x.

    ## How to fix

    Pass the normalised value to every input of the branch that is computed from the stream.

    ## When it is wrong

    Models trained this way. Gates, routers and low-rank adapters that read the raw stream are not
    reported.

    ## References

    * Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020 (arXiv
      2002.04745): pre-norm normalises the input of the whole branch.
    """

    code = "ND110"
    name = "raw-branch-input"
    since = "0.1"
    requirements = ("architecture.stacks",)
    fires_on = "sample_models/broken_wiring.py:build_raw_keys"
    silent_on = "sample_models/broken_wiring.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        for stack in evidence.architecture.stacks:
            adds = [a for a in evidence.architecture.adds_of_stack(stack.id) if a.raw_readers]
            if adds:
                yield self._finding(evidence, adds)

    def _finding(self, evidence: Evidence, adds: list[ResidualAdd]) -> Finding:
        sites = tuple(rate_site(add, float(len(add.raw_readers))) for add in adds)
        first = adds[0]
        verb = "reads" if len(first.raw_readers) == 1 else "read"
        norms = list_places(first.input_norms)
        names = tuple(each or "the model" for each in first.raw_readers)
        more = (
            f"; {format_count(len(adds), 'add')} in all, {describe_places(sites)}"
            if len(adds) > 1
            else ""
        )
        return self.finding(
            f"{list_places(names)} {verb} the raw stream past the norm {norms} of {first.id}{more}",
            ids=site_ids(sites),
            severity="warning",
            confidence="medium",
            measured=(float(len(adds)), 0.0),
            advice="pass the normalised value to every input of the branch; "
            f"{trace_hint(evidence, first.id)}",
        )
