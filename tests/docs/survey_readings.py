"""What thresholds are compared with, read from the JSON of a report without any rule."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
Reading = Callable[[Json], Iterator[float]]
LAYER_ROLES = ("branch-input", "branch-output", "stream", "skip", "qk")


def norms(report: Json) -> Iterator[tuple[Json, Json]]:
    """Every norm, with its measurement or {}."""
    for norm in report["architecture"]["norms"]:
        yield norm, report["measurements"]["norms"].get(norm["id"], {})


def gains(report: Json) -> Iterator[tuple[Json, Json]]:
    yield from ((norm, norm["gain"]) for norm, _ in norms(report) if norm["gain"])


def adds(report: Json) -> Iterator[list[tuple[Json, Json]]]:
    """Per stack its adds by depth, each with its measurement."""
    measured = report["measurements"]["stream"]
    for stack in report["architecture"]["stacks"]:
        own = [a for a in report["architecture"]["residual_adds"] if a["stack"] == stack["id"]]
        own = [add for add in own if add["id"] in measured]
        yield [(add, measured[add["id"]]) for add in sorted(own, key=lambda a: a["depth"])]


def of_adds(*keys: str) -> Reading:
    def read(report: Json) -> Iterator[float]:
        for each in (measured for stack in adds(report) for _, measured in stack):
            value: Any = each
            for key in keys:
                value = None if value is None else value[key]
            if value is not None:
                yield value

    return read


def replay_errors(number_format: str) -> Reading:
    def read(report: Json) -> Iterator[float]:
        dtype = report["subject"]["dtype"]
        if {"float64": "float32"}.get(dtype, dtype) == number_format:
            for kind in ("replay", "closure"):
                for each in report["measurements"][kind].values():
                    yield each["max_rel_error"]

    return read


def post_norm_layers(report: Json) -> Iterator[float]:
    stacks = report["architecture"]["stacks"]
    yield from (stack["layers"] for stack in stacks if stack["placement"] == "post")


def odd_layer_shares(report: Json) -> Iterator[float]:
    for stack in report["architecture"]["stacks"]:
        layers: dict[int, list[str]] = defaultdict(list)
        for add in report["architecture"]["residual_adds"]:
            if (stack["placement"] == "hybrid" or stack["exceptions"]) and add["stack"] == stack[
                "id"
            ]:
                layers[add["layer"]].append(add["placement"])
        if layers:
            patterns = [tuple(layers[layer]) for layer in sorted(layers)]
            usual = max(patterns, key=patterns.count)
            behind = patterns[patterns.index(usual) :]
            odd = [each for each in behind if each != usual and len(each) == len(usual)]
            if odd:
                yield len(odd) / len(patterns)


def removed_shares(report: Json) -> Iterator[float]:
    removed = {"layernorm": 2, "groupnorm": 2, "rmsnorm": 1, "l2norm": 1}
    for norm, _ in norms(report):
        if norm["kind"] in removed:
            yield removed[norm["kind"]] / norm["features"]


def size_exponents(report: Json) -> Iterator[float]:
    for each in report["measurements"]["near_norms"].values():
        yield abs(each["size_exponent"])


def dead_shares(report: Json) -> Iterator[float]:
    yield from (gain["dead"] / norm["features"] for norm, gain in gains(report))


def gain_ratios(report: Json) -> Iterator[float]:
    for _, gain in gains(report):
        if gain["median_abs"]:
            yield gain["max_abs"] / gain["median_abs"]


def share_of_gains(is_odd: Callable[[Json, int], bool]) -> Reading:
    def read(report: Json) -> Iterator[float]:
        asked = [
            (norm, gain)
            for norm, gain in gains(report)
            if norm["kind"] in ("layernorm", "rmsnorm")
            and norm["features"] >= 8
            and gain["mean"] is not None
        ]
        if len(asked) > 1:
            odd = [norm for norm, gain in asked if is_odd(gain, norm["features"])]
            yield len(odd) / len(asked)

    return read


def is_missing_one(gain: Json, features: int) -> bool:
    return 5 * gain["negatives"] >= features or gain["max_abs"] == 0


def is_above_one(gain: Json, features: int) -> bool:
    return gain["negatives"] == 0 and gain["min_abs"] > 1 and gain["mean"] > 1.5


def epsilon_factors(report: Json) -> Iterator[float]:
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for norm, _ in norms(report):
        if norm["role"] in LAYER_ROLES and norm["eps"]:
            groups[tuple(norm[key] for key in ("stack", "role", "kind", "eps_form"))].append(
                norm["eps"]
            )
    for group in groups.values():
        usual, many = Counter(group).most_common(1)[0]
        if many >= len(group) * 2 / 3:
            yield from (max(eps / usual, usual / eps) for eps in group)


def level_gaps(report: Json) -> Iterator[float]:
    """The widest gap within the outer quarter of the levels at one place of the layers."""
    places: Counter[tuple[str, int, str]] = Counter()
    groups: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for norm, gain in gains(report):
        if norm["role"] in LAYER_ROLES:
            place = (norm["stack"], norm["layer"], norm["role"])
            groups[norm["stack"], norm["role"], places[place]].append(gain["median_abs"] or 0)
            places[place] += 1
    for group in groups.values():
        levels = sorted(level for level in group if level)
        gaps = [above / below for below, above in pairwise(levels)]
        outer = max(1, len(levels) // 4)
        if len(levels) > 4:
            yield max(*gaps[:outer], *gaps[-outer:])


def varied(report: Json) -> Iterator[tuple[Json, Json]]:
    """Norms whose typical input is not constant, with their measurement."""
    for norm, measured in norms(report):
        if measured and 2 * measured["constant"] < measured["tokens"]:
            yield norm, measured


def epsilon_shares(report: Json) -> Iterator[float]:
    yield from (measured["eps_share"]["median"] for _, measured in varied(report))


def dominated_shares(report: Json) -> Iterator[float]:
    for _, measured in varied(report):
        yield (measured["eps_dominated"] - measured["constant"]) / measured["tokens"]


def constant_shares(report: Json) -> Iterator[float]:
    for norm, measured in norms(report):
        if measured and norm["eps"]:
            yield measured["constant"] / measured["tokens"]


def mean_energies(report: Json) -> Iterator[float]:
    for norm, measured in norms(report):
        is_over_tokens = norm["kind"] == "layernorm" and norm["axes"] == [-1]
        if measured and is_over_tokens and norm["features"] >= 8:
            yield measured["mean_energy"]


def magnitude_ratios(report: Json) -> Iterator[float]:
    for stack in adds(report):
        for _, measured in stack:
            if measured["max_abs"]:
                yield measured["max_abs"] / (measured["median_abs"] or math.nan)


def channel_shares(report: Json) -> Iterator[float]:
    for norm, measured in norms(report):
        if norm["features"] >= 16 and measured.get("channel_share") is not None:
            yield measured["channel_share"]


def shrinking_ratios(report: Json) -> Iterator[float]:
    for stack in adds(report):
        for _, of in stack:
            if of["out_ratio"] and of["cosine"]["median"] < 0:
                yield of["out_ratio"]["median"]


def shrinking_cosines(report: Json) -> Iterator[float]:
    for stack in adds(report):
        for _, of in stack:
            if of["out_ratio"] and of["out_ratio"]["median"] < 1:
                yield of["cosine"]["median"]


def later_update_ratios(report: Json) -> Iterator[float]:
    for stack in adds(report):
        yield from (of["update_ratio"]["median"] for add, of in stack if add["layer"] > 0)


def lasting_cosines(report: Json) -> Iterator[float]:
    """The smallest cosine over the last quarter of the adds."""
    for stack in adds(report):
        last = [of["token_cosine"] for _, of in stack[-math.ceil(len(stack) / 4) :]]
        if last and None not in last:
            yield min(last)


def condition_numbers(report: Json) -> Iterator[float]:
    for norm, measured in norms(report):
        jacobian = measured.get("jacobian")
        if jacobian and jacobian["kappa"] and not (norm["gain"] and norm["gain"]["dead"]):
            yield jacobian["kappa"]["median"]


def amplifications(report: Json) -> Iterator[float]:
    for _, measured in norms(report):
        if measured.get("jacobian"):
            yield measured["jacobian"]["sigma_max"]["max"]


def block_condition_numbers(report: Json) -> Iterator[float]:
    """Of adds and layers: at most the median over tokens, and passed at more than half of them."""
    for block in report["measurements"]["blocks"].values():
        kappas = sorted(token["kappa"] or math.inf for token in block["tokens"])
        if block["span"] in ("add", "layer") and block["kappa"]:
            yield min(block["kappa"], kappas[(len(kappas) - 1) // 2] if kappas else math.inf)


def logit_sizes(report: Json) -> Iterator[float]:
    for each in report["measurements"]["attention_logits"].values():
        if each["add"] is not None:
            yield each["max_abs"]
    for each in (report["measurements"]["precision"] or {}).get("logit_bounds", {}).values():
        yield from (each["bound"], each["max_observed"] or 0)


SITE_READINGS: dict[str, Reading] = {
    **{f"ND002.{name}": replay_errors(name) for name in ("float32", "float16", "bfloat16")},
    "ND101.layers": post_norm_layers,
    "ND104.share": odd_layer_shares,
    "ND106.removed_share": removed_shares,
    "ND108.size_exponent": size_exponents,
    "ND201.share": dead_shares,
    "ND202.ratio": gain_ratios,
    "ND202.ratio_notable": gain_ratios,
    "ND204.missing_share": share_of_gains(is_missing_one),
    "ND204.doubled_share": share_of_gains(is_above_one),
    "ND205.factor": epsilon_factors,
    "ND206.factor": level_gaps,
    "ND301.eps_share": epsilon_shares,
    "ND301.eps_share_notable": epsilon_shares,
    "ND301.share_of_tokens": dominated_shares,
    "ND302.share": constant_shares,
    "ND303.mean_energy": mean_energies,
    "ND304.magnitude": of_adds("max_abs"),
    "ND304.ratio": magnitude_ratios,
    "ND305.share": channel_shares,
    "ND305.dominant": channel_shares,
    "ND402.update_ratio": of_adds("update_ratio", "median"),
    "ND403.update_ratio": later_update_ratios,
    "ND404.out_ratio": shrinking_ratios,
    "ND404.cosine": shrinking_cosines,
    "ND405.token_cosine": lasting_cosines,
    "ND501.kappa": condition_numbers,
    "ND502.sigma_max": amplifications,
    "ND503.kappa": block_condition_numbers,
    "ND504.logit": logit_sizes,
}
"""Thresholds that sites are compared with."""
