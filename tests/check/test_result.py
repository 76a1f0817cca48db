"""The verdict, the order of limits, the JSON document and the text of a check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from tests.check.examples import LINK_FULL, MEASUREMENTS, PATH, make_result
from tests.explain.comparisons.simulated import campaign, treatment
from vnetbench.audit.finding import AuditResult, Relevance
from vnetbench.audit.finding import Finding as AuditFinding
from vnetbench.audit.rules import load_rules
from vnetbench.audit.settings import SettingsAudit
from vnetbench.check.ends import parse_path
from vnetbench.check.json_document import check_json
from vnetbench.check.limits import PathLimit, find_limits
from vnetbench.check.page import make_preface
from vnetbench.check.settings_audit import audit_ends, evidence_of_limits
from vnetbench.check.text import CheckText
from vnetbench.check.verdict import build_verdict
from vnetbench.explain.model import CandidateCause, Explanation, Finding
from vnetbench.explain.rules import get_cause
from vnetbench.report.page.html import render_page
from vnetbench.study.model import FactorLevels, Level

pytestmark = pytest.mark.pure

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/check.schema.json").read_text(encoding="utf-8"))
DIRECTIONS = ("forward", "reverse")


def limits_of(
    *causes: tuple[str, str, int], values: Mapping[int, float], stopped: Mapping[int, str] | None = None
) -> tuple[PathLimit, ...]:
    """Return the limits of a goodput part: causes with confidence and treatment, and goodput by treatment."""
    treatments = []
    for index, value in values.items():
        levels: dict[str, Level] = {"direction": DIRECTIONS[index]}
        made = treatment(index, levels, [value] * 6)
        treatments.append(replace(made, stop_reason=(stopped or {}).get(index, "precision")))
    summary = campaign([FactorLevels("direction", DIRECTIONS)], treatments)
    findings = tuple(
        Finding(
            kind="limit",
            text=f"{cause} limits.",
            treatment_indices=(index,),
            candidates=(CandidateCause(get_cause(cause), 0.9, confidence, ()),),
            details={"cause": cause},
        )
        for cause, confidence, index in causes
    )
    return find_limits({"goodput": Explanation((), findings)}, {"goodput": summary})


def test_a_likely_fault_ranks_before_a_normal_limit() -> None:
    limits = limits_of(("sender_cpu", "very likely", 0), ("path_loss", "likely", 1), values={0: 9e9, 1: 8e9})
    assert [each.cause for each in limits] == ["path_loss", "sender_cpu"]
    assert [each.is_fault for each in limits] == [True, False]


def test_the_limit_of_the_much_slower_direction_ranks_first() -> None:
    causes = (("other_programs", "likely", 0), ("receive_window", "possible", 1))
    assert limits_of(*causes, values={0: 9e10, 1: 9e9})[0].cause == "receive_window"
    assert limits_of(*causes, values={0: 9e10, 1: 8e10})[0].cause == "other_programs"


def test_a_refused_treatment_is_reported_first_with_its_fix() -> None:
    made = replace(treatment(1, {"direction": "reverse"}, []), failures=("no path\n  fix: open the ports",))
    summary = campaign([FactorLevels("direction", DIRECTIONS)], [made])
    (limit,) = find_limits({"goodput": Explanation((), ())}, {"goodput": summary})
    assert limit.prevents_measurement
    assert (limit.description, limit.advice) == ("no path", "open the ports")


def test_the_verdict_has_the_values_and_the_limit() -> None:
    values, limit = build_verdict(PATH, MEASUREMENTS, [LINK_FULL])
    assert values == (
        "The path carries 941 Mbit/s from web-01 to db-01, 470 Mbit/s from db-01 to web-01 and answers in "
        "210 µs, under load within 3.40 ms (99 %)."
    )
    assert limit == "A link or shaper on the path is full (very likely)."
    normal = replace(LINK_FULL, is_fault=False, description="the sender's CPU is full")
    assert build_verdict(PATH, MEASUREMENTS, [normal])[1].startswith("It is as fast as this system goes: ")
    nothing = build_verdict(PATH, [], [])
    assert nothing[0] == "Nothing could be measured between web-01 and db-01."


def make_audit() -> SettingsAudit:
    """Return an audit with a finding whose cause is that of `LINK_FULL`."""
    rule = next(rule for rule in load_rules().values() if rule.cause == LINK_FULL.cause)
    finding = AuditFinding(
        rule=rule,
        target="web-01",
        object_name="net0",
        platform="libvirt",
        found="limit 50",
        expected="no limit",
        fix="remove it",
        read_from=("net0",),
        matters_here=Relevance("provable", "x"),
    )
    return SettingsAudit(
        AuditResult(("web-01",), (finding,), 3, (), ()), {"db-01": "db-01 could not be read."}
    )


def test_the_document_follows_its_schema() -> None:
    for result in (
        make_result(),
        make_result(limits=(), measurements=(), requirements=(), results_files={}),
        make_result(audit=make_audit()),
        make_result(path=parse_path(["iperf3://esx-07"]), is_complete=False, notes=("ended early",)),
    ):
        document = json.loads(check_json(result))
        jsonschema.validate(document, SCHEMA)
        assert {"verdict", "limits", "audit", "measurements"} <= document.keys()


@pytest.mark.parametrize("width", [80, 200])
def test_the_text_fits_the_terminal_and_names_what_to_do(width: int) -> None:
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(CheckText(make_result()), crop=False)
    text = capture.get()
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(map(len, lines)) <= width
    words = " ".join(text.split())
    for expected in (
        "1 A link or shaper on the path is full (very likely).",
        "Command: tc -s qdisc show",
        "vnetbench explain web.vnb --prove",
        "941 ± 9 Mbit/s",
        "goodput >= 500 Mbit/s missed",
        "Not measured: packet rate, 64 B.",
        "The settings of db-01 were not audited.",
    ):
        assert expected in words


def test_a_temporary_result_is_proved_by_a_check_that_keeps_it() -> None:
    console = Console(width=200, highlight=False)
    with console.capture() as capture:
        console.print(CheckText(make_result(results_files={}, depth="quick")), crop=False)
    expected = (
        "vnetbench check web-01 db-01 --quick -o link_full.vnb; vnetbench explain link_full.vnb --prove"
    )
    assert expected in " ".join(capture.get().split())


def test_a_setting_whose_cause_the_check_names_is_measured() -> None:
    audit = make_audit()
    (finding,) = audit.with_measured_effects(evidence_of_limits([LINK_FULL])).findings
    assert finding.matters_here == Relevance("measured", f"this check names it: {LINK_FULL.evidence}")
    (finding,) = audit.with_measured_effects(
        evidence_of_limits([replace(LINK_FULL, cause="sender_cpu")])
    ).findings
    assert finding.matters_here.state == "provable"


def test_the_page_has_each_setting_with_its_effect_and_the_requirements() -> None:
    page = render_page([], make_preface(make_result(audit=make_audit())))
    for expected in (
        "<h2>Settings</h2>",
        "<dt>Found</dt><dd><span>net0: limit 50</span></dd>",
        "<dt>Matters here</dt><dd>provable: x</dd>",
        "db-01 could not be read.",
        "<td>missed</td>",
    ):
        assert expected in page


def test_the_lab_audits_this_machine_once_and_an_iperf3_server_not_at_all() -> None:
    audit = audit_ends(parse_path([]))
    assert audit.result is not None and audit.result.targets == ("local",)
    audit = audit_ends(parse_path(["iperf3://esx-07"]))
    assert audit.unread == {"esx-07": "The settings of esx-07 were not audited: it is an iperf3 server."}
