"""ND003 weights-not-loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.subject import Loading
from normdiag.findings import Confidence, Finding, Severity
from normdiag.number_text import format_count
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits


class WeightsNotLoaded(Rule):
    """Checkpoint and model do not match: names, shapes or files of parameters are not the model's.

    ## What it does

    Reports parameters that the model has and the checkpoint lacks (they are newly initialised),
    parameters of the checkpoint that the model does not use, and parameters whose shapes differ. A
    missing norm parameter is an error, another missing parameter a warning. An unexpected vector (a
    norm's gain, a bias) in a layer that ran is a warning, and so are whole layers beyond those that
    the configuration builds; other unexpected parameters are information. A part of the stored
    names that had to be cut, such as `_orig_mod.` of a compiled module, is a warning; one tensor in
    several files with different values is an error.

    ## Why it matters

    Loaders log a line and continue. If the gain of the final norm is missing it is initialised to
    ones, and with a trained gain of 6 all logits are six times too small; a model class without q/k
    norms ignores those of the checkpoint. Only the output shows the error.

    ## How it is measured

    From the loader's lists of mismatches. A parameter belongs to a norm if the module that ran the
    norm in the graph owns it. Tied weights do not count as missing. Names are cut only where every
    missing parameter is then there, once and with its shape; the report is that of the model with
    these weights. Copies of a tensor in several shards are compared bit by bit.

    ## Thresholds

    ## Example

    The tiny Llama of this repository without `model.norm.weight`.

    ## How to fix

    Missing: download the checkpoint again, or correct the key in the conversion script (an extra or
    missing prefix such as `model.` changes every key). Unexpected: load the checkpoint with the
    class that has these parameters, see `architectures` in `config.json`. Names with a part too
    many: save the state dict of the module itself, not of its wrapper, or rename the keys. Stored
    twice: find out which file is right, and write the tensor once.

    ## When it is wrong

    A task head that is still to be trained is missing by design, and pre-training heads (a second
    prediction layer, a pooler) are unexpected by design. Use `--ignore ND003` in that case.

    ## References

    * `output_loading_info` of `PreTrainedModel.from_pretrained`, in the documentation of
      transformers 5 (2026): the lists that this rule reads.
    """

    code = "ND003"
    name = "weights-not-loaded"
    since = "0.1"
    requirements = ("loading",)
    fires_on = "sample_models/incomplete_checkpoint.py:write"
    silent_on = "sample_models/tiny_llama"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per kind of mismatch, norms apart from the rest."""
        loading = evidence.subject.loading
        yield from self._storage_findings(loading)
        norms = _norm_parameters(evidence)
        unmatched = (
            (loading.missing, "not in the checkpoint, so newly initialised"),
            (loading.mismatched, "of another shape in the checkpoint"),
        )
        for names, what in unmatched:
            in_norms, others = _split_norm_parameters(names, norms)
            yield from self._loading_finding(in_norms, f"of a norm {what}", "error", "high")
            yield from self._loading_finding(others, what, "warning", "high")
        unused = "in the checkpoint, not in the model"
        unbuilt, rest = _split_unbuilt_layers(loading)
        if unbuilt:
            layers = format_count(len(loading.unbuilt_layers), "layer")
            yield from self._loading_finding(
                unbuilt, f"of {layers} that the configuration does not build", "warning", "high"
            )
        in_layers, others = _split_norm_parameters(rest, _vectors_in_layers(evidence))
        yield from self._loading_finding(
            in_layers, f"of a layer's norm or bias {unused}", "warning", "medium"
        )
        yield from self._loading_finding(others, unused, "info", "high")

    def _storage_findings(self, loading: Loading) -> Iterator[Finding]:
        """What is wrong with the names and the files, before any parameter is."""
        if loading.cut:
            cut = ", ".join(loading.cut)
            carry = "carries" if loading.renamed == 1 else "carry"
            yield self.finding(
                f"{format_count(loading.renamed, 'stored name')} {carry} {cut} in front or inside, "
                "which was removed to fit the names of the model",
                ids=(),
                severity="warning",
                confidence="high",
                measured=(float(loading.renamed), 0.0),
                advice=f"remove {cut} from the checkpoint's keys: a loader that does not, "
                "initialises these parameters newly",
            )
        if loading.stored_twice:
            places = [f"{each.tensor} ({', '.join(each.files)})" for each in loading.stored_twice]
            more = f" and {len(places) - 3} more" if len(places) > 3 else ""
            yield self.finding(
                f"{format_count(len(places), 'tensor')} stored in several files with different "
                f"values: {', '.join(places[:3])}{more}",
                ids=tuple(each.tensor for each in loading.stored_twice),
                severity="error",
                confidence="high",
                measured=(float(len(places)), 0.0),
                advice="the loader decides which copy is used: find out which file is right, and "
                "store the tensor once",
            )

    def _loading_finding(
        self, names: tuple[str, ...], what: str, severity: Severity, confidence: Confidence
    ) -> Iterator[Finding]:
        if not names:
            return
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield self.finding(
            f"{format_count(len(names), 'parameter')} {what}: {', '.join(names[:3])}{more}",
            ids=names,
            severity=severity,
            confidence=confidence,
            measured=(float(len(names)), 0.0),
            advice="compare the checkpoint's keys with the model's; measurements of these "
            "parameters and of everything downstream do not describe the checkpoint"
            if severity != "info"
            else "expected for a head that this model class does not have",
        )


def _norm_parameters(evidence: Evidence) -> frozenset[str]:
    """Those of `norm_parameters` whose module is one that a norm of the graph ran in.

    The id of a norm is its module's path, "path@k" for a later call, and "module/norm#k" for a
    norm that has no module of its own.
    """
    modules = {
        norm.id.partition("/norm#")[0].partition("@")[0] for norm in evidence.architecture.norms
    }
    return frozenset(
        name
        for name in evidence.subject.loading.norm_parameters
        if name.rpartition(".")[0] in modules
    )


def _vectors_in_layers(evidence: Evidence) -> frozenset[str]:
    """Those of `norm_parameters` that lie in a repeated layer which ran.

    No graph places what the model does not have. Heads of pre-training lie outside the layers,
    extra prediction layers behind the last one.
    """
    layers = tuple(
        f"{stack.id}.{layer}."
        for stack in evidence.architecture.stacks
        for layer in range(stack.layers)
    )
    return frozenset(
        name for name in evidence.subject.loading.norm_parameters if name.startswith(layers)
    )


def _split_unbuilt_layers(loading: Loading) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The unexpected parameters in layers that the configuration does not build, and the others."""
    layers = tuple(f"{layer}." for layer in loading.unbuilt_layers)
    return (
        tuple(name for name in loading.unexpected if layers and name.startswith(layers)),
        tuple(name for name in loading.unexpected if not (layers and name.startswith(layers))),
    )


def _split_norm_parameters(
    names: Iterable[str], norms: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known, listed = frozenset(norms), tuple(names)
    return (
        tuple(name for name in listed if name in known),
        tuple(name for name in listed if name not in known),
    )
