"""What the page of a rule says about its two pictures, from the captions that they hold."""

from __future__ import annotations

import html
from pathlib import Path

from docs.generators.pictures.captions import SIDES, Caption, path_of, read_caption
from normdiag.charts.registry import CHART_OF_RULE
from normdiag.rules.rule import Rule

ROOT = Path(__file__).parents[3]
_SHOWN_WIDTH = 380
"""Pixels: two of them stand in a column of GitHub."""
_MARK = "\n## How to fix\n"


def add_pictures(page: str, rule: Rule) -> str:
    """Return the page of a rule with its pictures below the example; as it is without a plot.

    Raises FileNotFoundError where a picture has not been drawn yet.
    """
    if rule.code not in CHART_OF_RULE:
        return page
    before, mark, after = page.partition(_MARK)
    if not mark:
        raise ValueError(f"the page of {rule.name} has no section {_MARK.strip()!r}")
    return f"{before}\n{format_pictures(rule)}\n{mark}{after}"


def format_pictures(rule: Rule) -> str:
    """Return the two pictures side by side, and what they show."""
    captions = [
        read_caption((ROOT / path_of(rule, side)).read_text(encoding="utf-8")) for side in SIDES
    ]
    heads = [f"`{model}`" for model in (rule.fires_on, rule.silent_on)]
    pictures = [
        _place_picture(path_of(rule, side).name, caption.alternative)
        for side, caption in zip(SIDES, captions, strict=True)
    ]
    verdicts = [_describe_side(caption, captions) for caption in captions]
    rows = [heads, ["---", "---"], pictures, verdicts]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return f"{table}\n\n{describe_pictures(rule.code, captions)}"


def describe_pictures(code: str, captions: list[Caption]) -> str:
    """Say what is drawn, in which unit, what is healthy, and what lines and rings are."""
    first = captions[0]
    sentences = [f"{first.title} (axis: {first.unit}).", *_list_shared(captions)]
    if first.thresholds:
        sentences.append(f"Dashed: {', '.join(first.thresholds)}.")
    if first.is_ringed:
        sentences.append(f"Ringed: what {code} reports.")
    return " ".join(sentences)


def _list_shared(captions: list[Caption]) -> list[str]:
    return [
        sentence
        for sentence in captions[0].sentences
        if all(sentence in caption.sentences for caption in captions)
    ]


def _describe_side(caption: Caption, captions: list[Caption]) -> str:
    """Say whether the model is reported, and what the chart says of this model alone."""
    shared = _list_shared(captions)
    own = [each for each in caption.sentences if each not in shared]
    return _escape(" ".join([f"{caption.verdict.capitalize()}.", *own]))


def _place_picture(name: str, alternative: str) -> str:
    """Return the element: both pictures of a page are equally wide, whatever stands above them."""
    text = html.escape(alternative).replace("|", "&#124;")
    return f'<img width="{_SHOWN_WIDTH}" src="../pictures/rules/{name}" alt="{text}">'


def _escape(text: str) -> str:
    """Return text that neither ends a cell nor is taken for Markdown."""
    for char in "\\|[]*_<`":
        text = text.replace(char, f"\\{char}")
    return text
