"""ND105 batch-coupled-norm."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, trace_hint
from normdiag.rules.thresholds import Limits


class BatchCoupledNorm(Rule):
    """A norm computes its statistics over the batch, so sequences depend on each other.

    ## What it does

    Reports norms that reduce the first axis of their input. It is a warning where the forward uses
    statistics of the batch, and info where it uses stored running statistics, as BatchNorm does in
    eval mode, since training still couples the sequences.

    ## Why it matters

    The output for one input then depends on the other inputs, on the batch size and on padding. At
    batch size 1 in training, or with zero padding, the statistics are not those of the data and do
    not match the running statistics used in evaluation. In a causal model, statistics over tokens
    leak the future.

    ## How it is measured

    From the reduced axes in the graph, and whether the norm divides by stored statistics.

    ## Thresholds

    ## Example

    BatchNorm without running statistics in place of LayerNorm.

    ## How to fix

    In transformers use LayerNorm or RMSNorm. Where BatchNorm is intended: `model.eval()` with
    `track_running_stats=True`, and no padding in its input.

    ## When it is wrong

    Convolutional models are built on BatchNorm, and in eval mode it is a fixed scale and shift. In
    a model with time on the first axis the norm reduces time, not the batch.

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
        """One finding for norms that couple in this run, one for those that couple in training."""
        over = [norm for norm in evidence.architecture.norms if _reduces_batch(norm)]
        coupled = _rate_norms(norm for norm in over if not norm.is_running)
        if coupled:
            yield self.finding(
                f"statistics are computed over the batch at {format_count(len(coupled), 'norm')}, "
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
                f"running statistics are used at {format_count(len(running), 'norm')}, "
                f"{describe_places(running)}: a fixed scale and shift in this run, coupled over "
                f"the batch "
                "in training",
                ids=site_ids(running),
                severity="info",
                confidence="high",
                measured=(float(len(running)), 0.0),
                advice="train with large batches, and freeze the statistics when fine-tuning at "
                "batch "
                f"size 1; {trace_hint(evidence, running[0].id)}",
            )


def _reduces_batch(norm: Norm) -> bool:
    rank = len(norm.shape)
    return rank > 1 and -rank in norm.axes


def _rate_norms(norms: Iterator[Norm]) -> tuple[RatedSite, ...]:
    return tuple(rate_site(norm, 1.0) for norm in norms)
