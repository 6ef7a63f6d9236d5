"""The measures that can be asked for: what each one measures, and the groups of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from normdiag.errors import UsageError


@dataclass(frozen=True, slots=True)
class Measure:
    """One part of what is measured, with a cost of its own."""

    name: str
    group: str | None
    """Null: asked for by its own name only."""
    meaning: str
    requires: tuple[str, ...] = ()
    """Measures that it is computed from or filed beside: they are measured with it."""


MEASURES: tuple[Measure, ...] = (
    Measure(
        "stream-adds",
        "stream",
        "per residual add: norms of x, u and y, update ratio, cosine, largest values; growth law, "
        "closure, head input",
    ),
    Measure(
        "depth",
        "stream",
        "contributions to the last stream value, influence and rank of layers, duplicate layers "
        "(one short forward more)",
        ("stream-adds",),
    ),
    Measure(
        "init-growth",
        "stream",
        "growth of the same architecture at random initialisation (a second model, one short "
        "forward)",
        ("stream-adds",),
    ),
    Measure(
        "precision",
        "stream",
        "headroom, squares, absorbed updates and lost epsilons in float16, bfloat16 and float8",
        ("stream-adds",),
    ),
    Measure("branch-weights", "stream", "size of the weights on each residual add's branches"),
    Measure(
        "attention-logits",
        "stream",
        "largest attention logit of pairs that the mask leaves (one forward more), and the bound "
        "that q/k norms put on it",
    ),
    Measure(
        "norm-inputs",
        "norms",
        "per norm: variance, eps share, amplification, mean energy and channels of its input",
    ),
    Measure(
        "invariances",
        "norms",
        "what a norm's output does not depend on: scale, shift, batch, padding; scale-free weights",
        ("norm-inputs",),
    ),
    Measure(
        "centring-swap",
        "norms",
        "effect of LayerNorm instead of RMSNorm, or the reverse: each norm alone, all at once (two "
        "forwards), and the mean energy of their inputs",
        ("norm-inputs",),
    ),
    Measure(
        "norm-jacobians",
        "jacobians",
        "singular values of each norm's Jacobian in closed form: extremes over all tokens, medians "
        "over sampled ones",
        ("norm-inputs",),
    ),
    Measure(
        "block-jacobians",
        "jacobians",
        "singular values of the Jacobians of adds, layers and stacks (one short forward with "
        "autograd)",
    ),
    Measure(
        "gradients",
        "gradients",
        "gradient of a stated loss at every add and parameter group (one short forward and "
        "backward)",
    ),
    Measure(
        "norm-speed",
        None,
        "time of LayerNorm and RMSNorm at the model's shapes, dtype and device; differs from "
        "run to run, so it is never compared",
    ),
    Measure(
        "defaults",
        None,
        "settings absent from config.json whose default decides the structure (forwards on the "
        "meta device); measured unasked where it costs less than a forward",
    ),
)

GROUPS: Mapping[str, tuple[str, ...]] = {
    group: tuple(m.name for m in MEASURES if m.group == group)
    for group in dict.fromkeys(m.group for m in MEASURES if m.group is not None)
}
"""Group -> its measures. A group that is a measure itself has that one."""

NONE = "none"
DEFAULT_MEASURES: tuple[str, ...] = tuple(GROUPS)
ONE_PASS_MEASURES: tuple[str, ...] = ("stream", "norms")
"""Groups without derivatives: the default of `trace` and `compare`."""


def parse_measures(names: str | Iterable[str]) -> tuple[str, ...]:
    """Names of groups and measures from "stream,norm-jacobians" or a sequence of such strings.

    "none" and an empty sequence give (). Raises UsageError for an unknown name, with those that
    exist, for an empty string, and for "none" beside another name.
    """
    parts = [names] if isinstance(names, str) else list(names)
    parsed = dict.fromkeys(
        word.strip() for part in parts for word in str(part).split(",") if word.strip()
    )
    if parts and not parsed:
        raise UsageError("measure is empty", describe_names())
    if NONE in parsed:
        if len(parsed) > 1:
            raise UsageError(
                f"measure {','.join(parsed)} asks for none and for some", f"drop {NONE!r}"
            )
        return ()
    known = {*GROUPS, *(m.name for m in MEASURES)}
    unknown = [name for name in parsed if name not in known]
    if unknown:
        raise UsageError(
            f"no measure or group is called {', '.join(map(repr, unknown))}", describe_names()
        )
    return tuple(parsed)


def expand_measures(names: Iterable[str]) -> frozenset[str]:
    """The measures of `names`, groups resolved, with all that they require.

    >>> sorted(expand_measures(["norm-jacobians"]))
    ['norm-inputs', 'norm-jacobians']
    """
    by_name = {m.name: m for m in MEASURES}
    pending = [measure for name in parse_measures(names) for measure in GROUPS.get(name, (name,))]
    expanded: set[str] = set()
    while pending:
        name = pending.pop()
        expanded.add(name)
        pending.extend(set(by_name[name].requires) - expanded)
    return frozenset(expanded)


def sort_measures(names: Iterable[str]) -> tuple[str, ...]:
    """Put names of measures into the order of the table."""
    asked = set(names)
    return tuple(m.name for m in MEASURES if m.name in asked)


def describe_names() -> str:
    """All names, as an error or a help text lists them."""
    single = [m.name for m in MEASURES if m.name not in GROUPS]
    return f"groups: {', '.join(GROUPS)}, {NONE}; measures: {', '.join(single)}"
