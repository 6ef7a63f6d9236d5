"""What rich draws, without blanks at line ends, and in ASCII where nothing else can be written."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_ASCII_SUBSTITUTES = str.maketrans(
    dict(zip("·░▒▓█", ".:+%#", strict=True))
    | dict(zip("▁▂▃▄▅▆▇", "_.-=+*%", strict=True))
    | dict.fromkeys("▏▎▍▌", "-")
    | dict.fromkeys("▋▊▉", "=")
    | {"─": "-", "×": "x", "…": "~", "␣": "_", "Ġ": "_", "±": "+-", "Σ": "sum", "√": "sqrt "}
)


class PlainOutput:
    """A renderable that can be written, copied and compared anywhere."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in Segment.split_lines(console.render(self._renderable, options)):
            for text, style, control in _trim_line(line):
                yield Segment(encode_text(text, options), style, control)
            yield Segment.line()


def _trim_line(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].text.strip(" "):
        line = line[:-1]
    if not line:
        return line
    text, style, control = line[-1]
    return [*line[:-1], Segment(text.rstrip(" "), style, control)]


def encode_text(text: str, options: ConsoleOptions) -> str:
    """Return `text`, spelled in ASCII where the console's encoding is not a Unicode one."""
    if not options.ascii_only:
        return text
    return text.translate(_ASCII_SUBSTITUTES).encode("ascii", "backslashreplace").decode("ascii")
