"""From the command line, the settings file and the defaults to the options of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import typer

from normdiag import config
from normdiag.cli.command_classes import command_line
from normdiag.cli.input_texts import expand_stdin, read_text_file
from normdiag.cli.messages import write_message
from normdiag.cli.option_groups import OptionValues, parse_values
from normdiag.cli.options import SECOND_TARGET
from normdiag.config import Settings
from normdiag.errors import UsageError
from normdiag.gate_options import GateOptions
from normdiag.option_group import OptionGroup, declared_options
from normdiag.options import JudgingOptions, Options
from normdiag.rules import registry
from normdiag.rules.thresholds import resolve_thresholds

Group = TypeVar("Group", bound=OptionGroup)


def load_settings() -> Settings:
    """Find the settings file from the current directory upward. Raises UsageError, see `config`."""
    try:
        directory = Path.cwd()
    except OSError as error:
        raise UsageError(
            f"the current directory cannot be read: {error.strerror}",
            "change to a directory that exists",
        ) from error
    return config.find_settings(directory)


def merge_options(
    context: typer.Context, typed: OptionValues, *, verbose: bool, **defaults: Any
) -> Options:
    """Load the settings and build the options of a command that runs models."""
    settings = load_settings()
    build_judging(typed, settings, verbose=verbose)
    return build_options(typed, settings, command=command_line(context), **defaults)


def build_group(
    group: type[Group], typed: OptionValues, settings: Settings, **defaults: Any
) -> Group:
    """Build `group` of what was typed, over `settings`, over `defaults`, over its own defaults."""
    return group(**_merge_fields(group, typed, settings, defaults))


def build_judging(typed: OptionValues, settings: Settings, *, verbose: bool) -> JudgingOptions:
    """Build the options for judging; with `verbose`, write settings file and ignored rules.

    Raises UsageError for a rule or a threshold that does not exist: before a model is loaded.
    """
    judging = build_group(JudgingOptions, typed, settings)
    registry.select_rules(judging.select, judging.ignore)
    for selector, limits in judging.thresholds.items():
        rule = registry.find_rule(selector)
        resolve_thresholds(rule.name, rule.thresholds, limits)
    if verbose:
        write_message(f"settings: {settings.path or 'none'}")
        for code in judging.ignore:
            reason = settings.ignore_reasons.get(code)
            write_message(f"ignored: {code}{f' ({reason})' if reason else ''}")
    return judging


def build_options(
    typed: OptionValues, settings: Settings, *, command: str, **defaults: Any
) -> Options:
    """Build the pipeline's options, with the texts read from their file.

    `command` is the command line, for the report. Raises UsageError for options that contradict
    each other and for files that cannot be read, before torch is imported.
    """
    _refuse_contradictions(typed)
    merged = _merge_fields(Options, typed, settings, defaults)
    if "text" in typed:
        merged["texts"] = expand_stdin(typed["text"])
    elif {"ids", "inputs", "structure_only"} & typed.keys():
        merged.pop("texts", None)  # of the settings file
    elif "texts" in merged:
        merged["texts"] = read_text_file(merged["texts"])
    if "inputs" in typed and not typed["inputs"].is_file():
        # Its content is read once the model's dtype is known.
        raise UsageError(
            f"invalid option: --inputs {str(typed['inputs'])!r} is not a file",
            "give a .safetensors or .json file",
        )
    return Options(**merged, command=command)


def build_gate_options(typed: OptionValues) -> GateOptions:
    """Build the gate of a command other than `check`, whose gate the settings file does not set."""
    return build_group(GateOptions, typed, Settings())


def replace_for_second_target(options: Options, typed: OptionValues) -> Options:
    """Return `options` with what was typed for B of a comparison."""
    return replace(options, **parse_values(SECOND_TARGET.options, typed))


def _merge_fields(
    group: type[OptionGroup], typed: OptionValues, settings: Settings, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    names = {item.name for item in fields(group)}  # type: ignore[arg-type]
    stored = {name: value for name, value in settings.values.items() if name in names}
    parsed = parse_values(declared_options(group), typed)
    for name, value in parsed.items():
        if isinstance(value, Mapping):  # --max goes over the same path of the file only
            parsed[name] = {**stored.get(name, {}), **value}
    return {**defaults, **stored, **parsed}


def _refuse_contradictions(typed: OptionValues) -> None:
    modes = _typed_flags(typed, "random_init", "structure_only", "weights_only")
    if len(modes) > 1:
        raise UsageError(
            f"{' and '.join(modes)} exclude each other: each says which weights are loaded",
            "give one of them",
        )
    inputs = _typed_flags(typed, "text", "texts", "ids", "inputs")
    if len(inputs) > 1:
        raise UsageError(
            f"{' and '.join(inputs)} exclude each other: each gives the inputs", "give one of them"
        )
    if inputs and modes == ["--weights-only"]:
        raise UsageError(
            f"--weights-only runs no forward pass, so {inputs[0]} has no effect",
            f"drop --weights-only or {inputs[0]}",
        )
    if modes == ["--structure-only"] and inputs in (["--text"], ["--texts"]):
        raise UsageError(
            f"--structure-only computes no values, so {inputs[0]} has no effect",
            f"drop {inputs[0]}; --ids or --inputs give a shape",
        )
    for flag in _typed_flags(typed, "chat", "no_special_tokens"):
        if inputs in (["--ids"], ["--inputs"]):
            raise UsageError(
                f"{flag} applies to texts; {inputs[0]} is run as it is", f"drop {flag}"
            )


def _typed_flags(typed: OptionValues, *names: str) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in names if name in typed]
