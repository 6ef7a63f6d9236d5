"""A target observed without values: its architecture, or names and shapes of its tensors."""

from __future__ import annotations

from dataclasses import replace

from normdiag.errors import RunError
from normdiag.evidence.coverage import Coverage, SkippedMeasurement
from normdiag.evidence.evidence import Evidence
from normdiag.inputs.batch import Batch
from normdiag.inputs.model_inputs import build_inputs
from normdiag.loading.interface import LoadedModel, TensorShapes
from normdiag.loading.tensor_names import guess_layers
from normdiag.measure.coverage import summarise_coverage
from normdiag.measure.passes.meta_forward import MetaForward, run_meta_forward
from normdiag.measure.subject import TargetName, describe_model, describe_shapes
from normdiag.measures import DEFAULT_MEASURES
from normdiag.options import Options
from normdiag.progress import Progress

_SHOWN_LINES = 5
_GUESS = "no model was built; a guess of low confidence, from names and shapes alone:"


def observe_structure(
    loaded: LoadedModel, target: str, options: Options, progress: Progress
) -> Evidence:
    """Read the architecture of a model on the meta device from one forward without values.

    Raises RunError where the forward depends on values.
    """
    inputs = build_inputs(loaded, options)
    progress.start_stage("running the model on the meta device")
    forward = _run_on_meta(loaded, inputs.batches[0])
    progress.finish_stage()
    note = "; ".join(part for part in (inputs.summary.note, "shapes alone, no values") if part)
    inputs = inputs._replace(summary=replace(inputs.summary, note=note))
    name = TargetName(target, None, options.command)
    skipped = [*_list_unmeasured(), *_list_value_reads(forward)]
    return Evidence(
        subject=describe_model(loaded, name, inputs, forward),
        architecture=forward.sites.architecture,
        coverage=summarise_coverage(loaded.model, forward, skipped),
    )


def observe_shapes(loaded: TensorShapes, target: str, options: Options) -> Evidence:
    """Guess layers from names and shapes of tensors; the report says that it is a guess."""
    guesses = [
        SkippedMeasurement(what=f"architecture, {place}", why=f"{_GUESS} {layers}")
        for place, layers in guess_layers(loaded.shapes).items()
    ]
    return Evidence(
        subject=describe_shapes(loaded, TargetName(target, None, options.command)),
        coverage=Coverage(skipped=(*guesses, *_list_unmeasured())),
    )


def _run_on_meta(loaded: LoadedModel, batch: Batch) -> MetaForward:
    try:
        return run_meta_forward(loaded.model, batch)
    except RunError as error:
        raise RunError(
            error.what,
            "on the meta device there are no values, and a forward that depends on them cannot be "
            "followed: run it with values (--random-init draws them where there are no weights). "
            f"Otherwise: {error.hint}",
        ) from error


def _list_unmeasured() -> list[SkippedMeasurement]:
    why = "there are no values: the structure alone was looked at"
    return [SkippedMeasurement(what=", ".join((*DEFAULT_MEASURES, "replay", "weights")), why=why)]


def _list_value_reads(forward: MetaForward) -> list[SkippedMeasurement]:
    lines = forward.value_reads
    if not lines:
        return []
    shown = ", ".join(lines[:_SHOWN_LINES]) + (", .." if len(lines) > _SHOWN_LINES else "")
    assumed = "a truth value was taken as true, a number as 0, a mask as full"
    why = f"there are no values: {assumed} ({shown})"
    return [SkippedMeasurement(what="decisions by values", why=why)]
