"""What stands on the first screen."""

from __future__ import annotations

from statistics import median

from normdiag.findings import SEVERITIES
from normdiag.render.sort_key import nan_as_largest
from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.report_values import ROOT, adds_of
from tests.sentences.shown_numbers import agrees_with


@claim(r"Findings", "{passed} rule[[s]] passed, {skipped} skipped")
def check_rules(sentence: Sentence, report: Json) -> None:
    rules = report["rules"]
    sentence.must_agree(passed=len(rules["passed"]), skipped=len(rules["skipped"]))


@claim(
    r"Findings",
    "^{id_severity}: {id_code} {id_name} {value} (threshold {threshold}); {list_site}[[ and {more} "
    "more]]$$",
)
def check_brief_finding(sentence: Sentence, report: Json) -> None:
    site = "" if sentence["list_site"] == "the model" else sentence["list_site"]
    finding = next(
        each
        for each in report["findings"]
        if (each["severity"], each["code"], each["name"])
        == (sentence["id_severity"], sentence["id_code"], sentence["id_name"])
        and each["ids"][:1] == [site]
        and agrees_with(sentence["value"], each["value"])
    )
    sentence.must_agree(threshold=finding["threshold"])
    assert sentence.holds("more") == (len(finding["ids"]) > 1)
    if sentence.holds("more"):
        sentence.must_agree(more=len(finding["ids"]) - 1)


@claim(r"Findings", "^{id_severity}: {id_code} {id_name}; {list_message}$$")
def check_brief_message(sentence: Sentence, report: Json) -> None:
    kind = (sentence["id_severity"], sentence["id_code"], sentence["id_name"])
    found = [f for f in report["findings"] if (f["severity"], f["code"], f["name"]) == kind]
    assert sentence["list_message"] in [f["message"] for f in found]


@claim(r"Findings", "more: {list_counts}: see --full")
def check_rest(sentence: Sentence, report: Json) -> None:
    ranked = sorted(report["findings"], key=lambda f: -SEVERITIES.index(f["severity"]))[3:]
    counts = [
        (severity, sum(f["severity"] == severity for f in ranked))
        for severity in ("error", "warning", "info")
    ]
    nouns = {"error": "errors", "warning": "warnings", "info": "info"}
    expected = ", ".join(
        f"{many} {severity if many == 1 else nouns[severity]}" for severity, many in counts if many
    )
    assert sentence["list_counts"] == expected


@claim(
    r"Stacks",
    "^{list_stack}: {id_placement}  {list_drawing}; {layers} layer[[s]][[; [[||y||]][[sums before "
    "their norms]] {total}× {id_marks}]][[; {fresh}× at initialisation]][[; {leaps} leap[[s]]]]",
)
def check_brief_stack(sentence: Sentence, report: Json) -> None:
    id = "" if sentence["list_stack"] == ROOT else sentence["list_stack"]
    (stack,) = (s for s in report["architecture"]["stacks"] if s["id"] == id)
    assert (stack["placement"], stack["drawing"]) == (
        sentence["id_placement"],
        sentence["list_drawing"],
    )
    sentence.must_agree(layers=stack["layers"])
    growth = report["measurements"]["growth"].get(id)
    if growth is None or not sentence.holds("total"):
        return
    sentence.must_agree(total=growth["total"])
    sizes = [
        report["measurements"]["stream"][add]["out_norm"]["median"] for add in adds_of(report, id)
    ]
    marks = sentence["id_marks"]
    assert len(marks) <= min(12, stack["layers"] + 1)
    assert sizes[-1] < max(sizes) or marks[-1] == "█"
    assert marks[0] == marks[-1] or (marks[0] < marks[-1]) == (sizes[0] < sizes[-1])
    if sentence.holds("fresh"):
        sentence.must_agree(fresh=growth["init_total"])
    assert sentence.holds("leaps") == bool(growth["leaps"])
    if sentence.holds("leaps"):
        sentence.must_agree(leaps=len(growth["leaps"]))


@claim(r"Stacks", "more: {more} stacks")
def check_more_stacks(sentence: Sentence, report: Json) -> None:
    sentence.must_agree(more=len(report["architecture"]["stacks"]) - 2)


@claim(
    r"Conditioning and coverage",
    "^blocks: median kappa up to [[at least ]]{worst} in layer {layer} of {list_stack}; {middle} "
    "in the median layer$$",
)
def check_brief_blocks(sentence: Sentence, report: Json) -> None:
    blocks = report["measurements"]["blocks"]
    kappas = {
        id: block["kappa"]
        for id, block in blocks.items()
        if block["span"] == "layer" and block["kappa"] is not None
    }
    stack = "" if sentence["list_stack"] == ROOT else sentence["list_stack"]
    worst = max(kappas.values(), key=nan_as_largest)
    assert agrees_with(sentence["worst"], kappas[f"{stack}/layer#{sentence['layer']}"])
    sentence.must_agree(middle=median(kappas.values()), worst=worst)


@claim(
    r"Conditioning and coverage",
    "^norms: largest kappa {worst} in {id_norm}; {middle} in the median norm$$",
)
def check_brief_norms(sentence: Sentence, report: Json) -> None:
    kappas = {}
    for id, norm in report["measurements"]["norms"].items():
        jacobian = norm["jacobian"] or {"live_kappa": None, "kappa": None}
        kappa = jacobian["live_kappa"] or jacobian["kappa"]
        if kappa is not None:
            kappas[id] = kappa["max"]
    assert agrees_with(sentence["worst"], kappas[sentence["id_norm"]])
    worst = max(kappas.values(), key=nan_as_largest)
    sentence.must_agree(middle=median(kappas.values()), worst=worst)


@claim(
    r"Conditioning and coverage",
    "^variance: smallest {m2} in {id_norm}; epsilon's share [[up to {share}]][[below {bound}]]"
    "[[ in {id_other}]]$$",
)
def check_brief_variances(sentence: Sentence, report: Json) -> None:
    norms = report["measurements"]["norms"]
    smallest = -max((-each["input_var"]["min"] for each in norms.values()), key=nan_as_largest)
    largest = max((each["eps_share"]["max"] for each in norms.values()), key=nan_as_largest)
    assert agrees_with(sentence["m2"], norms[sentence["id_norm"]]["input_var"]["min"])
    other = sentence["id_other"] if sentence.holds("id_other") else sentence["id_norm"]
    share = sentence["share"] if sentence.holds("share") else f"<{sentence['bound']}"
    assert agrees_with(share, largest) and agrees_with(share, norms[other]["eps_share"]["max"])
    sentence.must_agree(m2=smallest)


@claim(
    r"Conditioning and coverage",
    "[[nearest: ]]{list_quantity} {value} of [[at most {most}]][[at least {least}]] ({id_code})",
)
def check_nearest(sentence: Sentence, report: Json) -> None:
    near = next(
        each
        for each in report["rules"]["nearest"]
        if each["code"] == sentence["id_code"] and agrees_with(sentence["value"], each["value"])
    )
    assert sentence["list_quantity"].endswith(near["quantity"])
    side = "most" if sentence.holds("most") else "least"
    assert (near["value"] <= near["limit"]) == (side == "most")
    sentence.must_agree(value=near["value"], **{side: near["limit"]})


@claim(
    r"Conditioning and coverage",
    "^checked: [[{adds} addition[[s]]]][[ and ]][[{norms} norm[[s]]]][[ not explained]][[; ]]"
    "[[{made} measurement[[s]] not made]][[; ]][[reconstruction error {closure}]][[; ]]"
    "[[replay error {replay}]]",
)
def check_brief_coverage(sentence: Sentence, report: Json) -> None:
    coverage, measured = report["coverage"], report["measurements"]
    counts = {
        "adds": len(coverage["unexplained_adds"]),
        "norms": len(coverage["unexplained_norms"]),
        "made": len(coverage["skipped"]),
    }
    for name, many in counts.items():
        assert sentence.holds(name) == bool(many), name
        if many:
            sentence.must_agree(**{name: many})
    for name, part in (("closure", "closure"), ("replay", "replay")):
        errors = [each["max_rel_error"] for each in measured[part].values()]
        if errors:
            sentence.must_agree(**{name: max(errors, key=nan_as_largest)})
