"""Errors in the words of a Python caller: arguments of `inspect`, where they name options.

Messages are written for the command line. `--structure-only` becomes `structure_only=True`,
`--dtype bfloat16` becomes `dtype='bfloat16'`, `--inputs FILE` becomes `inputs=FILE`; where a
message has both spellings ("--ids, in Python ids=(1, 2)"), the second stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from normdiag.errors import NormdiagError
from normdiag.option_group import DeclaredOption, declared_options
from normdiag.options import Options

_BOTH = re.compile(r"--[a-z-]+(?: [A-Z]+)?(?: \([^()]*\))?, in Python (?=\w+=)")
_OPTION = re.compile(r'(?P<flag>--[a-z][a-z-]*[a-z])(?: (?P<value>"[^"]*"|[\w./:-]*\w))?')


@contextmanager
def name_arguments() -> Iterator[None]:
    """Have errors that pass name arguments of Python in place of options."""
    try:
        yield
    except NormdiagError as error:
        error.rewrite_text(translate_options)
        raise


def translate_options(text: str) -> str:
    """Return `text` with each option of `Options` as the argument; other flags stay."""
    flags = {each.flag: each for each in declared_options(Options) if each.flag}

    def translate_match(match: re.Match[str]) -> str:
        declared = flags.get(match["flag"])
        return match[0] if declared is None else _format_argument(declared, match["value"])

    return _OPTION.sub(translate_match, _BOTH.sub("", text))


def _format_argument(declared: DeclaredOption, value: str | None) -> str:
    if isinstance(declared.default, bool):
        return f"{declared.name}={not declared.default}{'' if value is None else f' {value}'}"
    if value is None:
        return f"{declared.name}=.."
    is_verbatim = value == declared.option.metavar or value[0] == '"' or _is_number(value)
    return f"{declared.name}={value if is_verbatim else repr(value)}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) is not None
