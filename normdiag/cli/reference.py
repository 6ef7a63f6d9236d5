"""The reference pages about the command line and the settings, generated from the declarations."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from normdiag.cli.app import app
from normdiag.config import KEYS
from normdiag.measures import GROUPS, MEASURES, Measure
from normdiag.option_group import DeclaredOption

COMMAND_LINE = """\
# Command line

`normdiag COMMAND`, or `python -m normdiag COMMAND`. The report goes to stdout; progress, warnings
and, of formats other than text, a summary line go to stderr. An option that is not on the command
line has the value of the [settings file](configuration.md), if it is a key there. Exit codes are on
[their own page](../exit-codes.md).
"""

SETTINGS = """\
# Settings

A project keeps its settings in `normdiag.toml`, or under `[tool.normdiag]` of its `pyproject.toml`.
The search begins in the current directory and goes upward; the first file with settings is used
alone, and `normdiag.toml` is preferred to the `pyproject.toml` beside it. The command line
overrides the file.

```toml
select = ["ND1", "ND3", "geometric-growth"]
fail_on = "warning"
require_complete = true
texts = "probes.jsonl"
dtype = "bfloat16"

[max]
"measurements.growth.total" = 50

[ignore]
ND301 = "epsilon is set on purpose: see the model card"

[thresholds.epsilon-dominates]
eps_share = 0.6
```

In `pyproject.toml` the same tables are `[tool.normdiag]`, `[tool.normdiag.ignore]` and
`[tool.normdiag.thresholds.epsilon-dominates]`.
"""

DETAILS = """\
`texts` is relative to the settings file. `ignore` is a list, or a table of code = "reason": the
report states the reasons. `[thresholds.RULE]` sets thresholds of a [rule](../rules/index.md). A
`PATH` of `max` and `min` is described under [bounds](../guides/ci.md#bounds-on-numbers).

`fail_on`, `require_complete`, `max`, `min` and `margin` apply to `normdiag check` only; `inspect`,
`trace` and `compare` fail only if the command line says so. `--select` and `--ignore` replace those
of the file; `--max` and `--min` replace those of the same path.

Errors with exit code 2 that name the key: an unknown key, a value of the wrong type or out of
range, an unknown rule or threshold. A misspelled key would otherwise be a gate that never fails.
`--trust-remote-code` is not a key, so that no directory can switch it on.
"""

MEASURES_INTRODUCTION = f"""\
`--measure` takes groups ({", ".join(f"`{name}`" for name in GROUPS)}) and single measures, with
commas between them, or `none`. The default is all groups. A measure that another one is computed
from is measured with it.
"""

VALUES: Mapping[Any, str] = {
    str: "string",
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    Path: "path",
    tuple[str, ...]: "list of strings",
    Mapping[str, float]: "table of `PATH` = number",
    Mapping[str, Mapping[str, float]]: "table for each rule",
}
"""Type of a setting -> its value in words."""


def format_command_line_page() -> str:
    """Format the page: each command with its examples, then each group of options once."""
    described = [_format_command(name, command) for name, command in list_commands()]
    groups: dict[str, dict[str, Any]] = {}
    for _, command in list_commands():
        for heading, options in _group_options(command).items():
            groups.setdefault(heading, {}).update({option.name: option for option in options})
    tables = [_format_options(heading, options.values()) for heading, options in groups.items()]
    return "\n".join([COMMAND_LINE, *described, "## Options\n", *tables, _format_measures()])


def format_settings_page() -> str:
    """Format the page about the settings file, with a row for each key."""
    rows = [_format_row(_setting_cells(declared)) for declared in KEYS.values()]
    head = ("| key | value | option | |", "|---|---|---|---|")
    return "\n".join([SETTINGS, *head, *rows, "", DETAILS])


def list_commands() -> Iterator[tuple[str, Any]]:
    """Iterate over name and typer command, in the order of the help."""
    yield from vars(get_command(app))["commands"].items()


def _format_command(name: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    groups = _group_options(command)
    usage = [name, *map(_format_argument, arguments), *(["[OPTIONS]"] if groups else [])]
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
    lines = [f"## `normdiag {' '.join(usage)}`", "", text.strip(), "", "```console"]
    lines += [f"$ {example}" for example in examples.splitlines()]
    lines += ["```", ""]
    lines += dict.fromkeys(f"`{each.metavar}`: {each.help}" for each in arguments)
    lines += [""] if arguments else []
    if groups:
        links = ", ".join(f"[{heading}](#{_anchor(heading)})" for heading in groups)
        lines += [f"Options: {links}.", ""]
    return "\n".join(lines)


def _format_argument(argument: Any) -> str:
    name = f"{argument.metavar}..." if argument.nargs == -1 else str(argument.metavar)
    return name if argument.required else f"[{name}]"


def _group_options(command: Any) -> dict[str, list[Any]]:
    """Group the options of `command` by heading."""
    groups: dict[str, list[Any]] = {}
    for each in command.params:
        if each.param_type_name == "option":
            groups.setdefault(each.rich_help_panel, []).append(each)
    return groups


def _anchor(heading: str) -> str:
    """The link target that Markdown renderers give a heading."""
    return heading.lower().replace(" ", "-")


def _format_options(heading: str, options: Iterable[Any]) -> str:
    rows = [_format_row(_option_cells(option)) for option in options]
    return "\n".join((f"### {heading}", "", "| option | |", "|---|---|", *rows, ""))


def _format_measures() -> str:
    rows = [_format_row((f"`{m.name}`", _group_cell(m), m.meaning)) for m in MEASURES]
    head = ("| measure | group | measures |", "|---|---|---|")
    return "\n".join(("## Measures", "", MEASURES_INTRODUCTION, *head, *rows, ""))


def _group_cell(measure: Measure) -> str:
    return f"`{measure.group}`" if measure.group else "by name only"


def _option_cells(option: Any) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len))
    return f"{names} `{option.metavar}`" if option.metavar else names, option.help


def _setting_cells(declared: DeclaredOption) -> tuple[str, ...]:
    option = declared.option
    value = ", ".join(f'`"{choice}"`' for choice in option.choices) or VALUES[declared.value_type]
    if option.above is not None:
        value += f" above {option.above}"
    if option.at_least is not None:
        value += f", {option.at_least} or more"
    flag = f"`{declared.flag}`" if declared.flag else ""
    return f"`{declared.name}`", value, flag, declared.help_with_default


def _format_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
