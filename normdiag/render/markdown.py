"""Markdown for a pull request or a job summary: the verdict first, the rest to unfold.

What is not plain words becomes code, so that no name is read as markup, as a link, or as a mention
that calls somebody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console

from normdiag.findings import Finding
from normdiag.render.course import NUMBERS, rows
from normdiag.render.escape import spelled, visible
from normdiag.render.few import named
from normdiag.render.interface import Options
from normdiag.render.several import figures
from normdiag.render.severity import tally
from normdiag.render.units import whole
from normdiag.render.verdict import beside_baseline, entry_headline, standing_of
from normdiag.report.check import Check, Standing
from normdiag.report.report import Report
from normdiag.report.series import Entry, Series

_PLACES = 4
_PLAIN = re.compile(r"[\w.,:;()\[\]%+='\"×-]*")


def render(report: Report, console: Console, options: Options) -> None:
    """Write one target, its numbers last."""
    entry = Entry(target=report.subject.target, report=report)
    lines = [*_entry(entry, "## normdiag:", options), *_course((entry,))]
    console.file.writelines(f"{line}\n" for line in lines)


def render_series(series: Series, console: Console, options: Options) -> None:
    """Write the table of targets, then each."""
    lines = [f"## normdiag: {len(series.reports)} targets", "", *_course(series.reports), ""]
    for entry in series.reports:
        lines += _entry(entry, "###", options)
    console.file.writelines(f"{line}\n" for line in lines)


def code(text: str) -> str:
    """Return `text` as a code span, whatever it holds."""
    shown = visible(text).replace("|", "\\|") or " "
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    gap = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{gap}{shown}{gap}{fence}"


def words(text: str) -> str:
    """Return `text` with every word that is not plain as code, its punctuation left outside."""
    return " ".join(map(_word, spelled(text).split(" ")))


def _word(word: str) -> str:
    if _PLAIN.fullmatch(word) and "_" not in word and "www." not in word.lower():
        return word.replace("[", "\\[").replace("]", "\\]")
    head = re.match(r"\(*", word)
    start = head.end() if head else 0
    end = len(word.rstrip(".,:;)"))
    while word.count("(", start, end) > word.count(")", start, end) and word[end:].startswith(")"):
        end += 1
    if end <= start:
        return code(word)
    return word[:start] + code(word[start:end]) + word[end:]


def _entry(entry: Entry, heading: str, options: Options) -> Iterator[str]:
    yield f"{heading} {code(entry.target)}"
    yield ""
    found = tally(entry.report.findings) if entry.report else ""
    yield f"**{words(entry_headline(entry) or found or 'no findings')}**"
    yield ""
    if entry.failure is not None and entry.failure.hint is not None:
        yield words(entry.failure.hint)
        yield ""
    if entry.report is not None:
        yield from _findings(entry.report, options)
        yield from _check(entry.report)
        yield from _unjudged(entry.report)


def _findings(report: Report, options: Options) -> Iterator[str]:
    pairs = standing_of(report)
    if not pairs:
        return
    yield "| | finding | value | threshold | where | state |"
    yield "|---|---|--:|--:|---|---|"
    for finding, standing in pairs:
        yield _row(finding, standing, options)
    yield ""
    yield "<details><summary>What was found, and what to do</summary>"
    yield ""
    for finding, _ in pairs:
        said = f"{words(finding.message)}. Do: {_advice(finding.advice)}"
        yield f"* **{code(finding.code)} {words(finding.name)}**: {said}"
    yield ""
    yield "</details>"
    yield ""


def _advice(text: str) -> str:
    """`text`, with the command that it ends in as one piece of code, to be copied."""
    said, see, command = text.rpartition("see: ")
    return words(said + see) + code(command) if command.startswith("normdiag ") else words(text)


def _row(finding: Finding, standing: Standing | None, options: Options) -> str:
    state = ""
    if standing is not None:
        state = f"{standing.state}: {words(standing.why)}" if standing.why else ""
        state = f"**{state or 'fails'}**" if standing.fails else state
    cells = (
        finding.severity,
        f"{code(finding.code)} {words(finding.name)}",
        *("" if each is None else whole(each) for each in (finding.value, finding.threshold)),
        named(map(code, finding.ids), None if options.all_rows else _PLACES),
        state,
    )
    return "| " + " | ".join(cells) + " |"


def _check(report: Report) -> Iterator[str]:
    check = report.check
    if check is None:
        return
    lines = list(_baseline(check))
    lines += [f"* bound: {words(each.why)}: **{each.state}**" for each in check.bounds]
    lines += [
        f"* ignored: {code(each.selector)}: {words(each.reason) or 'no reason given'}"
        for each in check.ignored
    ]
    yield from lines
    if lines:
        yield ""


def _baseline(check: Check) -> Iterator[str]:
    if check.baseline is None:
        return
    yield f"* baseline: {code(check.baseline.path)}: {beside_baseline(check)}"
    for finding in check.baseline.gone:
        yield f"* gone: {code(finding.code)} {words(finding.name)}"
    if check.baseline.note is not None:
        yield f"* **{words(check.baseline.note)}**"


def _unjudged(report: Report) -> Iterator[str]:
    lacking = [f"{skip.code} {skip.name}: {skip.why}" for skip in report.rules.skipped]
    lacking += [f"{skipped.what}: {skipped.why}" for skipped in report.coverage.skipped]
    if not lacking:
        return
    yield f"<details><summary>Not judged or not measured: {len(lacking)}</summary>"
    yield ""
    yield from (f"* {words(each)}" for each in lacking)
    yield ""
    yield "</details>"
    yield ""


def _course(entries: tuple[Entry, ...]) -> Iterator[str]:
    yield f"| target | {' | '.join(NUMBERS)} | findings | moved | verdict |"
    yield f"|---|{'--:|' * len(NUMBERS)}---|---|---|"
    for row in rows(entries):
        cells = [code(row.target), *figures(row.numbers), row.findings, row.moved, row.verdict]
        yield "| " + " | ".join(cells) + " |"
