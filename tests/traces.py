"""A fabricated report with tokens, as `trace` makes it."""

from __future__ import annotations

from dataclasses import replace

from normdiag.evidence.tokens import TokenTrace
from normdiag.report.report import Report
from tests.reports import llama


def make_trace(base: Report | None = None) -> Report:
    """A report with the tokens of two sequences; the first token of each is an attention sink."""
    base = base or llama(6)
    texts = (
        ("The capital of France is", ("<s>", "The", "\u0120capital", "\u0120of", "\u0120France")),
        (None, ("<s>", "\u65e5\u672c\u8a9e", " ", "\n", "\x1b[31mred", "[b]x[/b]", "=1+1")),
    )
    return replace(
        base,
        trace=tuple(
            _token_trace(base, sequence, text, tokens)
            for sequence, (text, tokens) in enumerate(texts)
        ),
    )


def _token_trace(
    base: Report, sequence: int, text: str | None, tokens: tuple[str, ...]
) -> TokenTrace:
    count = range(len(tokens))
    adds, norms = base.architecture.residual_adds, base.architecture.norms
    sink = [12.0 if place == 0 else 1.0 + 0.05 * place for place in count]
    sizes = {site.id: base.measurements.stream[site.id].out_norm.median for site in adds}
    channel = {site.id: tuple(412 if place == 0 else 7 + place for place in count) for site in adds}
    return TokenTrace(
        sequence=sequence,
        text=text,
        ids=tuple(100 + place for place in count) if text else None,
        tokens=tokens,
        special=tuple(place == 0 for place in count),
        out_norm={
            site.id: tuple(
                sizes[site.id] * (sink[place] if site.layer > 1 else 1.0) for place in count
            )
            for site in adds
        },
        update_ratio={
            site.id: tuple(0.3 / (1 + place * site.depth / 10) for place in count) for site in adds
        },
        input_var={
            site.id: tuple(1e-3 * 1.5**at * (1 + place) for place in count)
            for at, site in enumerate(norms)
        },
        max_abs={
            site.id: tuple(sizes[site.id] * 0.8 * sink[place] for place in count) for site in adds
        },
        max_channel=channel,
    )
