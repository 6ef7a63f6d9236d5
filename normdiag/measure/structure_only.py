"""What can be seen without values: the architecture, on the meta device, or names and shapes."""

from __future__ import annotations

from dataclasses import replace

from normdiag.errors import RunError
from normdiag.evidence.coverage import Coverage, Skipped
from normdiag.evidence.evidence import Evidence
from normdiag.inputs.batch import Batch
from normdiag.loading.interface import Runnable, ShapesOnly
from normdiag.loading.tensor_names import guess
from normdiag.measure.coverage import cover
from normdiag.measure.passes.forward import Pass
from normdiag.measure.passes.meta_forward import described, run_without_values
from normdiag.measure.probing import probe_of
from normdiag.measure.subject import Named, subject_of, subject_of_shapes
from normdiag.options import MEASURES, Options
from normdiag.progress import Progress

_FEW = 5
_GUESS = "no model was built; a guess of low confidence, from names and shapes alone:"


def observe_structure(
    loaded: Runnable, target: str, options: Options, progress: Progress
) -> Evidence:
    """The architecture of a model on the meta device. One forward tells it; no value is computed.

    Raises RunError where the forward decides by values that are not there.
    """
    batches, probe, special = probe_of(loaded, options)
    progress.start("running the model on the meta device")
    done = _run(loaded, batches[0])
    progress.done()
    sites = described(done)
    note = "; ".join(part for part in (probe.note, "shapes alone, no values") if part)
    named = Named(target, None, options.command)
    return Evidence(
        subject=subject_of(loaded, named, replace(probe, note=note), special, done),
        architecture=sites.architecture,
        coverage=cover(loaded.model, done, sites, [*_unmeasured(), *_told(done)]),
    )


def observe_shapes(loaded: ShapesOnly, target: str, options: Options) -> Evidence:
    """What names and shapes let one guess, told as what it is."""
    guesses = [
        Skipped(what=f"architecture, {place}", why=f"{_GUESS} {said}")
        for place, said in guess(loaded.shapes).items()
    ]
    return Evidence(
        subject=subject_of_shapes(loaded, Named(target, None, options.command)),
        coverage=Coverage(skipped=(*guesses, *_unmeasured())),
    )


def _run(loaded: Runnable, batch: Batch) -> Pass:
    try:
        return run_without_values(loaded.model, batch)
    except RunError as error:
        raise RunError(
            error.what,
            "on the meta device there are no values, and a forward that decides by them cannot be "
            "followed: run it with values (--random-init draws them where there are no weights). "
            f"Otherwise: {error.hint}",
        ) from error


def _unmeasured() -> list[Skipped]:
    why = "there are no values: the structure alone was looked at"
    return [Skipped(what=", ".join((*MEASURES, "replay", "weights")), why=why)]


def _told(done: Pass) -> list[Skipped]:
    if not done.asked:
        return []
    lines = ", ".join(done.asked[:_FEW]) + (", .." if len(done.asked) > _FEW else "")
    taken = "a truth value was taken as true, a number as 0, a mask as full"
    return [Skipped(what="decisions by values", why=f"there are no values: {taken} ({lines})")]
