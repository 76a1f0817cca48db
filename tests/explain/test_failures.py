"""Failed trials are findings that stand before all others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests import fixtures
from tests.docs.pages import ROOT
from tests.explain.campaigns import SimulatedTreatment, campaign
from vnetbench.estimate.failures import FailedTrials
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.explain.failures import cause_of_failure
from vnetbench.report.text.narrative import build_narrative
from vnetbench.results.file import ResultsFile

STUDY = 'title = "T"\nworkload = "tcp_stream"\n[factors]\nstreams = [1, 4]\n'
SMALL_ONLY = {"small_bytes": 128, "small_passed": True, "large_bytes": 9000, "large_passed": False}
NOTHING = {**SMALL_ONLY, "small_passed": False}
BOTH = {**SMALL_ONLY, "large_passed": True}
LARGE_ONLY = {**NOTHING, "large_passed": True}


def campaign_with(*failed: FailedTrials) -> CampaignSummary:
    """Return a campaign of two treatments, of which the first has failed trials."""
    summary = campaign(STUDY, SimulatedTreatment(), SimulatedTreatment())
    first, *others = summary.treatments
    return replace(summary, treatments=(replace(first, failed_trials=failed), *others))


@pytest.mark.parametrize(
    ("kind", "probe", "cause"),
    [
        ("no_data", SMALL_ONLY, ("mtu_black_hole", "very likely")),
        ("no_data", NOTHING, ("path_blocked", "very likely")),
        ("no_data", BOTH, ("path_interrupted", "likely")),
        ("no_data", LARGE_ONLY, ("path_loss", "likely")),
        ("no_data", {}, ("path_interrupted", "likely")),
        ("timeout", NOTHING, ("path_blocked", "very likely")),
        ("interface", BOTH, ("link_down", "very likely")),
        ("interface", NOTHING, ("link_down", "very likely")),
        ("agent_gone", {}, ("agent_gone", "very likely")),
        ("system_refused", {}, ("system_refused", "very likely")),
        ("system_refused", NOTHING, ("path_blocked", "very likely")),
        ("wrong_listener", {}, ("wrong_listener", "very likely")),
        ("", {}, ("unknown", "likely")),
    ],
)
def test_the_cause_follows_from_the_kind_and_the_probe(
    kind: str, probe: Mapping[str, object], cause: tuple[str, str]
) -> None:
    assert cause_of_failure(FailedTrials(kind, "it failed", path_probe=probe)) == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("a1: cpus = any did not take effect: 0 was read back", "cpu_set_changed"),
        ("a1: vcpu_pin = spread did not take effect: 0 was read back", "cpu_set_changed"),
        ("a1, eth0: mtu = 9000 did not take effect: 1500 was read back", "testbed_changed"),
        ("a1: the interface does not exist", "testbed_changed"),
    ],
)
def test_a_changed_testbed_names_the_cpus_if_they_changed(text: str, cause: str) -> None:
    assert cause_of_failure(FailedTrials("testbed_changed", text)) == (cause, "very likely")


def test_failures_come_first_and_are_part_of_the_first_two_sentences() -> None:
    flapping = FailedTrials("interface", "b1: interface eth0 lost its carrier", 2, BOTH)
    gone = FailedTrials("agent_gone", "a1: the agent ended")
    summary = campaign_with(flapping, gone)
    findings = explain(summary).findings
    assert [finding.kind for finding in findings[:2]] == ["failed", "failed"]
    assert findings[0].text.startswith(
        "2 of 15 trials failed, in 1 of 2 treatments: a link on the path went down under load (very likely). "
        "6 other trials succeeded, so the fault comes and goes"
    )
    assert "“b1: interface eth0 lost its carrier”" in findings[0].text
    sentence = build_narrative(summary).answer[1]
    assert sentence == (
        "3 of 15 trials failed: a link on the path went down under load (2); "
        "the bench's own agent ended or no longer answered (1)."
    )
    assert not any("This is normal" in finding.text for finding in findings)


def test_probes_that_contradict_each_other_show_loss_and_no_small_mtu() -> None:
    """Recorded where the sender loses three quarters of the acknowledgements, in three failed trials."""
    tcp = {"protocol": "tcp", "large_bytes": 1500}
    failures = (
        FailedTrials("no_data", "no data arrived", 2, {**SMALL_ONLY, **tcp}),
        FailedTrials("no_data", "no data arrived", 1, {**LARGE_ONLY, **tcp}),
    )
    finding = explain(campaign_with(*failures)).findings[0]
    assert finding.details["cause"] == "path_loss" and finding.details["failed_trials"] == 3
    assert [each.confidence for each in finding.candidates] == ["likely"]
    (alone,) = explain(campaign_with(failures[1])).findings[0].candidates
    assert alone.cause.name == "path_loss"
    text = explain(campaign_with(failures[1])).findings[0].text
    assert "TCP segments in packets of 1500 bytes passed, but not those of 128 bytes" in text


def test_a_path_that_fails_in_every_trial_may_drop_only_the_load() -> None:
    summary = campaign_with(FailedTrials("no_data", "no data arrived", 3, BOTH))
    first, *others = summary.treatments
    without_success = replace(summary, treatments=(replace(first, points=()), *others))
    confidences = [explain(each).findings[0].candidates[0].confidence for each in (summary, without_success)]
    assert confidences == ["likely", "possible"]


def test_a_black_hole_has_a_command_that_tests_it() -> None:
    finding = explain(campaign_with(FailedTrials("no_data", "no data", path_probe=SMALL_ONLY))).findings[0]
    assert "packets of 128 bytes passed, but not those of 9000 bytes" in finding.text
    assert "mtu=" in finding.candidates[0].command


def test_a_black_hole_for_tcp_alone_says_what_else_passed() -> None:
    failed = FailedTrials("no_data", "no data", path_probe={**SMALL_ONLY, "protocol": "tcp"})
    finding = explain(campaign_with(failed)).findings[0]
    assert finding.details["cause"] == "mtu_black_hole"
    assert (
        "TCP segments in packets of 128 bytes passed, but not those of 9000 bytes, "
        "although UDP datagrams of both sizes passed"
    ) in finding.text


def test_a_failure_of_an_older_file_is_counted_without_a_cause() -> None:
    finding = explain(campaign_with(FailedTrials("", "something broke"))).findings[0]
    assert finding.candidates == ()
    assert "1 of 13 trials failed" in finding.text and "“something broke”" in finding.text


def test_a_kind_without_a_cause_is_named() -> None:
    finding = explain(campaign_with(FailedTrials("mptcp", "something broke"))).findings[0]
    assert finding.candidates == ()
    assert "the results file states only the kind of failure: mptcp." in finding.text


def test_each_documented_kind_has_a_cause() -> None:
    page = (ROOT / "docs" / "results-file.md").read_text(encoding="utf-8")
    table = page.partition("| `failure_kind` | meaning |")[2].partition("\n\n")[0]
    kinds = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert "wrong_listener" in kinds
    without = [each for each in kinds if cause_of_failure(FailedTrials(each, ""))[0] == "unknown"]
    assert without == []


def test_stored_failures_are_grouped_by_kind_and_probe(tmp_path: Path) -> None:
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb")
    fields: list[Mapping[str, object]] = [
        {"failure_kind": "no_data", "path_probe": SMALL_ONLY},
        {"failure_kind": "no_data", "path_probe": SMALL_ONLY},
        {"failure_kind": "interface"},
        {},
    ]
    for number, effective in enumerate(fields):
        failed = fixtures.make_trial(0, number, failure=f"failure {number}")
        file.add_trial(replace(failed, effective=effective), float(number))
    replaced = {"failure_kind": "path_blocked", "failure": "packets of 1500 bytes do not pass"}
    trial = fixtures.make_trial(0, 4)
    file.add_trial(replace(trial, effective={"mtu": 1500, "replaced_testbed": replaced}), 5.0)
    file.close("finished")
    stored = ResultsFile.open_to_read(tmp_path / "r.vnb")
    treatment = summarize(stored).treatments[0]
    stored.close()
    assert [(each.kind, each.text, each.count) for each in treatment.failed_trials] == [
        ("no_data", "failure 0", 2),
        ("interface", "failure 2", 1),
        ("", "failure 3", 1),
        ("path_blocked", "packets of 1500 bytes do not pass", 1),
    ]
    assert treatment.effective == {"mtu": 1500}
