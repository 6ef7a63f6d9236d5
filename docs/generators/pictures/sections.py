"""What the page of a rule says about its two pictures, from the captions that they hold."""

from __future__ import annotations

from pathlib import Path

from docs.generators.pictures.captions import SIDES, Caption, path_of, read_caption
from normdiag.charts.registry import CHART_OF_RULE
from normdiag.rules.rule import Rule

ROOT = Path(__file__).parents[3]
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
    models = (rule.fires_on, rule.silent_on)
    heads = [
        f"`{model}`: {caption.verdict}" for model, caption in zip(models, captions, strict=True)
    ]
    pictures = [
        f"![{_escape(caption.alternative)}](../pictures/rules/{path_of(rule, side).name})"
        for side, caption in zip(SIDES, captions, strict=True)
    ]
    rows = [heads, ["---", "---"], pictures]
    own = [_list_own(caption, captions) for caption in captions]
    if any(own):
        rows.append(own)
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


def _list_own(caption: Caption, captions: list[Caption]) -> str:
    shared = _list_shared(captions)
    return _escape(" ".join(each for each in caption.sentences if each not in shared))


def _escape(text: str) -> str:
    """Return text that neither ends a cell nor a picture's description."""
    for char in "\\|[]*_<`":
        text = text.replace(char, f"\\{char}")
    return text
