"""What thresholds on whole stacks and on number formats are compared with, read from the JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from tests.docs.survey_readings import SITE_READINGS, Json, Reading, adds, norms


def typical_totals(report: Json) -> Iterator[tuple[Json, Json, list[float], float]]:
    """Per stack with a growth: it, the growth, the sizes and the total apart from leaps."""
    for stack, measured in zip(report["architecture"]["stacks"], adds(report), strict=True):
        growth = report["measurements"]["growth"].get(stack["id"])
        if growth is None or len(measured) < 2:
            continue
        sizes = [of["out_norm"]["median"] for _, of in measured]
        leaps = math.prod(leap["factor"] for leap in growth["leaps"])
        yield stack, growth, sizes, min(growth["total"], sizes[-1] / sizes[0]) / max(1, leaps)


def growths(report: Json) -> Iterator[tuple[float, float]]:
    """Per stack the total growth and the rate that is sure, leaps apart."""
    for _, growth, sizes, total in typical_totals(report):
        if growth["law"] == "geometric":
            yield total, growth["rate"] - 2 * (growth["rate_error"] or 0)
        elif growth["law"] == "undecided":
            steps = [abs(math.log(b / a)) for a, b in pairwise(sizes)]
            is_even = total > 1 and max(steps) <= math.log(total) / 2
            yield total, total ** (1 / (len(sizes) - 1)) if is_even else 0
        else:
            yield total, 0


def growth_rates(report: Json) -> Iterator[float]:
    yield from (rate for total, rate in growths(report) if total > 1)


def growth_totals(report: Json) -> Iterator[float]:
    yield from (total for total, rate in growths(report) if rate > 1)


def has_norms(stack: Json) -> bool:
    return bool(stack["placement"] != "none" or stack["exceptions"])


def keep_normed_stacks(report: Json) -> Json:
    """The report without stacks that have no norm, where neither decides the severity."""
    stacks = [s for s in report["architecture"]["stacks"] if has_norms(s)]
    named = {s["id"] for s in stacks}
    kept = [a for a in report["architecture"]["residual_adds"] if a["stack"] in named]
    architecture = report["architecture"] | {"stacks": stacks, "residual_adds": kept}
    return report | {"architecture": architecture}


def trends(report: Json, sign: int) -> Iterator[tuple[float, float]]:
    """Per stack the factor along the line and the rate that is sure, towards the first layer."""
    gradients = report["measurements"]["gradients"] or {"trends": {}}
    for trend in gradients["trends"].values():
        error = 2 * (trend["rate_error"] or 0)
        if sign > 0:
            yield trend["total"], trend["rate"] - error
        else:
            yield 1 / trend["total"], 1 / (trend["rate"] + error)


def gradient_rates(sign: int) -> Reading:
    return lambda report: (rate for total, rate in trends(report, sign) if total > 1)


def gradient_totals(sign: int) -> Reading:
    return lambda report: (total for total, rate in trends(report, sign) if rate > 1)


def unexplained_gradients(report: Json) -> Iterator[float]:
    """The total towards the first layer over the growth of a stream with norms."""
    gradients = report["measurements"]["gradients"] or {"trends": {}}
    totals = {stack["id"]: total for stack, _, _, total in typical_totals(report)}
    for stack in report["architecture"]["stacks"]:
        trend = gradients["trends"].get(stack["id"])
        if trend is None or not 1 / trend["total"] > 1:
            continue
        if not 1 / (trend["rate"] + 2 * (trend["rate_error"] or 0)) > 1:
            continue
        growth = totals.get(stack["id"], 1) if has_norms(stack) else 1
        yield 1 / trend["total"] / max(1, growth)


def clipping_reductions(report: Json) -> Iterator[float]:
    """How much smaller the other gradients become than if they were clipped alone."""
    of = report["measurements"]["gradients"]
    if of and of["clipping"] and of["loss"]["kind"] != "random-projection":
        clipping, shares = of["clipping"], of["groups"]
        rest = of["global_norm"] * math.sqrt(1 - shares[clipping["dominant_group"]])
        if len(shares) > 1:
            yield min(1, clipping["max_norm"] / rest) / clipping["factor"]


def stored_formats(report: Json) -> set[str]:
    stored = (report["measurements"]["weights"] or {"dtypes": {}})["dtypes"]
    return {report["subject"]["dtype"], *sorted(stored, key=stored.__getitem__)[-1:]}


def headrooms(report: Json) -> Iterator[float]:
    precision = report["measurements"]["precision"]
    if precision:
        ids = {add["id"] for add in report["architecture"]["residual_adds"]}
        sizes = [value for id, value in precision["max_abs"].items() if id in ids]
        sizes += [peak["value"] for peak in precision["inner_peaks"]]
        yield from (65504 / size for size in sizes if size)


def half_headrooms(report: Json) -> Iterator[float]:
    if "float16" in stored_formats(report):
        yield from (each for each in headrooms(report) if each >= 1)


def absorbed_shares(report: Json) -> Iterator[float]:
    formats = (report["measurements"]["precision"] or {"formats": {}})["formats"]
    for name in stored_formats(report) & {"float16", "bfloat16"} & set(formats):
        yield from formats[name]["absorbed_updates"].values()


def absorbing_shares(report: Json) -> Iterator[float]:
    """The share of a stack's adds that absorb more than 0.75."""
    formats = (report["measurements"]["precision"] or {"formats": {}})["formats"]
    for name in stored_formats(report) & {"float16", "bfloat16"} & set(formats):
        absorbed = formats[name]["absorbed_updates"]
        for stack in adds(report):
            lost = [add for add, _ in stack if absorbed.get(add["id"], 0) > 0.75]
            if lost:
                yield len(lost) / len(stack)


def epsilons(number_format: str) -> Reading:
    def read(report: Json) -> Iterator[float]:
        for norm, _ in norms(report):
            dtype = norm["eps_dtype"] or report["subject"]["dtype"]
            dtype = dtype if dtype in ("float16", "bfloat16") else "float32"
            is_asked = norm["kind"] in ("layernorm", "rmsnorm", "groupnorm")
            if is_asked and dtype == number_format and norm["eps"] is not None:
                yield norm["eps"]

    return read


def promoted_sizes(number_format: str) -> Reading:
    def read(report: Json) -> Iterator[float]:
        for stack in adds(report):
            formats = [add["dtype"] for add, _ in stack]
            if number_format in formats and "float32" in formats:
                yield from (float(of["max_abs"]) for add, of in stack if add["dtype"] == "float32")

    return read


READINGS: dict[str, Reading] = SITE_READINGS | {
    "ND401.rate": growth_rates,
    "ND401.rate_high": lambda report: growth_rates(keep_normed_stacks(report)),
    "ND401.total": lambda report: growth_totals(keep_normed_stacks(report)),
    "ND401.total_notable": growth_totals,
    "ND601.rate": gradient_rates(1),
    "ND601.total": gradient_totals(1),
    "ND602.rate": gradient_rates(-1),
    "ND602.total": gradient_totals(-1),
    "ND602.unexplained": unexplained_gradients,
    "ND603.reduction": clipping_reductions,
    "ND701.headroom": headrooms,
    "ND701.headroom_notable": half_headrooms,
    "ND703.share": absorbed_shares,
    "ND703.share_of_adds": absorbing_shares,
    **{f"ND704.{name}": epsilons(name) for name in ("float16", "bfloat16", "float32")},
    **{f"ND706.{name}": promoted_sizes(name) for name in ("float16", "bfloat16")},
}
"""Code and threshold -> the values of a report in JSON that are compared with it."""
