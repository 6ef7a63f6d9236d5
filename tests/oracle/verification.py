"""The tests of every oracle case: each number of the report against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.compare import assert_same

FLOAT32 = 1e-7
"""A sum rounded to float32 is off by 6e-8 of its operands: what cancels to 0 keeps that error."""
CANCELLING = {"cosine": FLOAT32, "token_cosine": FLOAT32, "angle_deg": float(np.degrees(FLOAT32))}
PROVED = 1e-5
"""Replay and closure of a float32 model that was understood."""


def by_id(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries by id, source lines left out."""
    return {e["id"]: {k: v for k, v in e.items() if k != "line"} for e in entries}


class Verification:
    """Inherit, and give a module-scoped fixture `case`."""

    def test_the_oracle_reads_the_right_places(self, case):
        for add in case.adds:
            x, u, y = (case.tokens(r, add.mask).values for r in (add.skip, add.branch, add.out))
            np.testing.assert_allclose(x + u, y, rtol=0, atol=1e-6 * np.abs(y).max())

    def test_stacks(self, case, report):
        expected = {stack["id"]: stack for stack in case.stacks}
        assert_same(by_id(report["architecture"]["stacks"]), expected)

    def test_norm_facts(self, case, report):
        assert_same(by_id(report["architecture"]["norms"]), case.norm_facts())

    def test_norms_come_in_the_order_of_the_forward(self, case, report):
        assert [n["id"] for n in report["architecture"]["norms"]] == [n.id for n in case.norms]

    def test_add_facts(self, case, report):
        assert_same(by_id(report["architecture"]["residual_adds"]), case.add_facts())

    def test_every_site_names_its_line(self, report):
        for site in (*report["architecture"]["norms"], *report["architecture"]["residual_adds"]):
            file, line = site["line"].rsplit(":", 1)
            assert file.endswith(".py"), site
            assert int(line) > 0, site

    def test_nothing_is_left_unexplained(self, case, report):
        coverage = report["coverage"]
        assert coverage["unexplained_adds"] == []
        assert coverage["unexplained_norms"] == case.unattached
        assert coverage["skipped"] == []

    def test_norm_numbers(self, case, report):
        measured = report["measurements"]["norms"]
        assert measured.keys() == {norm.id for norm in case.norms}
        for norm in case.norms:
            seen = {key: v for key, v in measured[norm.id].items() if key != "jacobian"}
            assert seen["top_channels"], norm.id
            expected = case.norm_numbers(norm, len(seen["top_channels"]))
            cancelling = {"input_mean": FLOAT32 * expected["max_abs"]}
            assert_same({norm.id: seen}, {norm.id: expected}, cancelling)

    def test_norm_jacobians(self, jacobian_case, jacobian_report):
        measured = jacobian_report["measurements"]["norms"]
        seen = {name: numbers["jacobian"] for name, numbers in measured.items()}
        expected = {norm.id: jacobian_case.jacobian_numbers(norm) for norm in jacobian_case.norms}
        assert_same(seen, expected)

    def test_stream_numbers(self, case, report):
        measured = report["measurements"]["stream"]
        assert list(measured) == [add.id for add in case.adds]
        expected = {add.id: case.add_numbers(add) for add in case.adds}
        assert_same(measured, expected, CANCELLING)

    def test_growth(self, case, report):
        expected = {stack["id"]: case.growth(stack["id"]) for stack in case.stacks}
        assert_same(report["measurements"]["growth"], expected)

    def test_head_input(self, case, report):
        assert_same(report["measurements"]["head_input"], case.head_input())

    def test_every_site_replays_and_every_stack_closes(self, case, report):
        replay, closure = report["measurements"]["replay"], report["measurements"]["closure"]
        assert replay.keys() == {site.id for site in (*case.norms, *case.adds)}
        assert closure.keys() == {stack["id"] for stack in case.stacks}
        for site, measured in {**replay, **closure}.items():
            assert 0 <= measured["max_rel_error"] < PROVED, site

    def test_a_sound_stream_is_left_in_peace(self, case, report):
        found = [f for f in report["findings"] if f["code"].startswith(("ND303", "ND305", "ND4"))]
        assert [f["name"] for f in found if f["severity"] != "info"] == case.stream_findings

    def test_nothing_overflows(self, report):
        assert report["measurements"]["first_nonfinite"] is None

    def test_subject(self, case, report):
        subject = report["subject"]
        assert subject["parameters"] == sum(p.numel() for p in case.model.parameters())
        assert subject["class"] == type(case.model).__name__
        assert subject["dtype"] == "float32"
        assert subject["probe"]["kind"] == "inputs"
        rows = [batch["input_ids"] for batch in case.batches]
        assert subject["probe"]["sequences"] == sum(len(ids) for ids in rows)
        masks = [
            batch.get("attention_mask", np.ones_like(ids))
            for batch, ids in zip(case.batches, rows, strict=True)
        ]
        assert subject["probe"]["tokens"] == sum(int(np.sum(np.asarray(mask))) for mask in masks)

    def test_static_pass(self, case, report):
        stored = case.stored
        weights = report["measurements"]["weights"]
        assert weights["tensors"] == len(stored)
        assert weights["elements"] == sum(t.numel() for t in stored.values())
        assert weights["dtypes"] == {"float32": len(stored)}
        assert weights["nonfinite"] == 0
