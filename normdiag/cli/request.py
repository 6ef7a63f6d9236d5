"""From what was typed, laid over the settings file, to the options of the pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normdiag import config
from normdiag.cli import texts
from normdiag.cli.messages import say
from normdiag.cli.options import Judging, Observing, Probe, Second
from normdiag.config import Settings
from normdiag.errors import UsageError
from normdiag.rules import registry
from normdiag.rules.thresholds import resolve

if TYPE_CHECKING:
    from normdiag.options import Options


def settings(judging: Judging, verbose: bool = False) -> Settings:
    """The settings file from here upward, under what was typed about the rules.

    To the verbose it is said which file that is and what is ignored, with the reasons. Raises
    UsageError for a rule or a threshold that does not exist: it is known before a model is
    loaded, so it is said before.
    """
    read = config.find(_here())
    ignore = _names(judging.ignore)
    merged = replace(
        read,
        select=_names(judging.select) or read.select,
        ignore=read.ignore if ignore is None else dict.fromkeys(ignore, ""),
        fail_on=judging.fail_on.value if judging.fail_on else read.fail_on,
        require_complete=judging.require_complete or read.require_complete,
    )
    registry.select(merged.select or (), merged.ignore)
    for selector, limits in merged.thresholds.items():
        rule = registry.find(selector)
        resolve(rule.name, rule.thresholds, limits)
    if verbose:
        say(f"settings: {read.path or 'none'}")
        for code, reason in merged.ignore.items():
            say(f"ignored: {code}{reason and f' ({reason})'}")
    return merged


def measuring_quickly(under: Settings, observing: Observing) -> Settings:
    """`under`, with what one pass gives as the measure where none is stated."""
    if observing.measuring.measure is not None or under.measure is not None:
        return under
    from normdiag.options import FROM_ONE_PASS

    return replace(under, measure=FROM_ONE_PASS)


def options(observing: Observing, under: Settings, command: str) -> Options:
    """The pipeline's options: what was typed, over the settings `under` it, over the defaults.

    `command` is the command line, for the report. Raises UsageError for options that contradict
    each other and for files that cannot be read, before torch is imported.
    """
    loading, probe = observing.loading, observing.probe
    _refuse_contradictions(observing)
    given: dict[str, Any] = {
        "texts": None if loading.structure_only else _texts(probe, under),
        "ids": _ids(probe.ids),
        "dtype": loading.dtype.value if loading.dtype else under.dtype,
        "device": loading.device or under.device,
        "seed": under.seed if probe.seed is None else probe.seed,
        "measure": _measure(observing.measuring.measure, under.measure),
        "clip": under.clip if observing.measuring.clip is None else observing.measuring.clip,
        "inputs": _inputs(probe),
    }

    from normdiag.options import Options

    return Options(
        **{name: value for name, value in given.items() if value is not None},
        revision=loading.revision,
        trust_remote_code=loading.trust_remote_code,
        random_init=loading.random_init,
        structure_only=loading.structure_only,
        weights_only=loading.weights_only,
        adapter=loading.adapter,
        chat=probe.chat,
        special_tokens=not probe.no_special_tokens,
        all_tokens=observing.measuring.all_tokens,
        select=under.select or (),
        ignore=tuple(under.ignore),
        thresholds={rule: dict(limits) for rule, limits in under.thresholds.items()},
        command=command,
    )


def second(first: Options, other: Second) -> Options:
    """The options of a comparison's second target: those of the first, but for what `other` has."""
    return replace(
        first,
        dtype=other.b_dtype.value if other.b_dtype else first.dtype,
        device=other.b_device or first.device,
        revision=other.b_revision or first.revision,
        adapter=other.b_adapter or first.adapter,
    )


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            f"there is no current directory: {error.strerror}", "change to one that exists"
        ) from error


def _refuse_contradictions(observing: Observing) -> None:
    loading, probe = observing.loading, observing.probe
    ways = {
        "--random-init": loading.random_init,
        "--structure-only": loading.structure_only,
        "--weights-only": loading.weights_only,
    }
    chosen = [option for option, wanted in ways.items() if wanted]
    if len(chosen) > 1:
        raise UsageError(
            f"{' and '.join(chosen)} each say what is done about weights", "give one of them"
        )
    run = {
        "--text": probe.text,
        "--texts": probe.texts,
        "--ids": probe.ids,
        "--inputs": probe.inputs,
    }
    given = [option for option, value in run.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} each say what is run", "give one of them")
    if given and loading.weights_only:
        raise UsageError(
            f"--weights-only runs nothing, and {given[0]} says what to run", "drop one of the two"
        )
    if loading.structure_only and (probe.text or probe.texts):
        raise UsageError(
            f"--structure-only has no values, and {given[0]} says which to run",
            f"drop {given[0]}; --ids or --inputs give a shape",
        )
    about_texts = {"--chat": probe.chat, "--no-special-tokens": probe.no_special_tokens}
    for option, wanted in about_texts.items():
        if wanted and given and given[0] in ("--ids", "--inputs"):
            raise UsageError(
                f"{option} is about texts, and {given[0]} is run as it is", f"drop {option}"
            )


def _texts(probe: Probe, under: Settings) -> tuple[str, ...] | None:
    if probe.text:
        return texts.typed(probe.text)
    if probe.ids or probe.inputs:
        return None
    path = probe.texts or under.texts
    return None if path is None else texts.read(path)


def _ids(given: Iterable[str] | None) -> tuple[tuple[int, ...], ...] | None:
    if not given:
        return None
    sequences = []
    for sequence in given:
        words = [word for word in re.split(r"[\s,]+", sequence.strip(" [],")) if word]
        if not words or not all(word.isascii() and word.isdecimal() for word in words):
            raise UsageError(
                f"--ids {sequence!r} is no list of token ids",
                'give whole numbers from 0 on, by commas: --ids "1,2,3"',
            )
        sequences.append(tuple(int(word) for word in words))
    return tuple(sequences)


def _measure(given: Iterable[str] | None, under: tuple[str, ...] | None) -> tuple[str, ...] | None:
    names = _names(given)
    if names is not None and "none" in names:
        if len(names) > 1:
            raise UsageError(f"--measure {','.join(names)} asks for none and for some", "drop one")
        return ()
    names = under if names is None else names

    from normdiag.options import MEASURES

    for name in names or ():
        if name not in MEASURES:
            raise UsageError(
                f"--measure {name} is nothing that can be measured",
                f"there are {', '.join(MEASURES)}; and none",
            )
    return names


def _inputs(probe: Probe) -> Path | None:
    """The file itself: what is in it can only be read when the model's dtype is known."""
    if probe.inputs is not None and not probe.inputs.is_file():
        raise UsageError(
            f"--inputs {str(probe.inputs)!r} is no file", "give a .safetensors or .json file"
        )
    return probe.inputs


def _names(given: Iterable[str] | None) -> tuple[str, ...] | None:
    """The comma-separated names of an option that may be repeated; None where it was not given."""
    names = tuple(word.strip() for part in given or () for word in part.split(",") if word.strip())
    return names or None
