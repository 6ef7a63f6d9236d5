"""ND105 batch-coupled-norm."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, trace_hint
from normdiag.rules.thresholds import Limits


class BatchCoupledNorm(Rule):
    """A norm takes its statistics over the batch: sequences depend on what else is in it.

    ## What it does

    Names norms that reduce the first axis of what they are given. Where the batch's own statistics
    are used in the forward as run, that is a warning; where stored running statistics are, as
    BatchNorm does in eval mode, it is mentioned, since training couples the sequences.

    ## Why it matters

    The answer to one input then depends on the others, on the batch size and on padding. At batch
    size 1 in training, or with zeros as padding, statistics are not those of the data, and what was
    learned with them does not fit the running ones that evaluation uses. In a causal model,
    statistics over tokens leak the future.

    ## How it is measured

    From the axes that the graph shows to be reduced, and whether stored statistics are divided by.

    ## Thresholds

    ## Example

    BatchNorm without running statistics in the place of LayerNorm.

    ## How to fix

    In transformers use LayerNorm or RMSNorm. Where BatchNorm is meant: `model.eval()` with
    `track_running_stats=True`, and no padding in what it sees.

    ## When it is wrong

    Convolutional models are built on BatchNorm, and in eval mode it is a fixed scale and shift. A
    model that keeps time on the first axis is normalised over time, not over the batch.

    ## References

    * Ioffe and Szegedy, Batch Normalization, ICML 2015 (arXiv 1502.03167).
    * Shen et al., PowerNorm: Rethinking Batch Normalization in Transformers, ICML 2020
      (arXiv 2003.07845).
    """

    code = "ND105"
    name = "batch-coupled-norm"
    since = "0.1"
    requirements = ("architecture.norms",)
    fires_on = "sample_models/other_axes.py:build_batch"
    silent_on = "sample_models/other_axes.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding of norms that couple as run, one of those that do in training."""
        over = [norm for norm in evidence.architecture.norms if _reduces_batch(norm)]
        coupled = _rate_norms(norm for norm in over if not norm.is_running)
        if coupled:
            yield self.finding(
                f"statistics are taken over the batch at {count(len(coupled), 'norm')}, "
                f"{describe_places(coupled)}: each sequence depends on the others",
                ids=site_ids(coupled),
                severity="warning",
                confidence="high",
                measured=(float(len(coupled)), 0.0),
                advice="normalise over features instead, or keep running statistics; "
                f"{trace_hint(evidence, coupled[0].id)}",
            )
        running = _rate_norms(norm for norm in over if norm.is_running)
        if running:
            yield self.finding(
                f"stored running statistics are used at {count(len(running), 'norm')}, "
                f"{describe_places(running)}: a fixed scale and shift here, coupled over the batch in "
                "training",
                ids=site_ids(running),
                severity="info",
                confidence="high",
                measured=(float(len(running)), 0.0),
                advice="train with batches large enough, and freeze them when fine-tuning at batch "
                f"size 1; {trace_hint(evidence, running[0].id)}",
            )


def _reduces_batch(norm: Norm) -> bool:
    rank = len(norm.shape)
    return rank > 1 and -rank in norm.axes


def _rate_norms(norms: Iterator[Norm]) -> tuple[RatedSite, ...]:
    return tuple(rate_site(norm, 1.0) for norm in norms)
