"""Real faults during real trials: failures are explained first, with their cause."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.explain.faulty_campaigns import Fault, Moment, measure_with_fault, run_in
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.report.text.narrative import build_narrative

pytestmark = pytest.mark.lab
STUDY = """\
title = "Faults"
question = "How fast is it?"
workload = "tcp_stream"

[factors]
streams = 1
{levels}

[timing]
duration = "1500 ms"

[precision]
half_width = "0.1 %"
min_trials = 3
max_trials = 3
"""


def flap_port(namespaces: dict[str, str]) -> None:
    run_in(namespaces["sw"], "ip", "link", "set", "a1", "down")
    time.sleep(0.2)
    run_in(namespaces["sw"], "ip", "link", "set", "a1", "up")


def drop_all_packets(namespaces: dict[str, str]) -> None:
    add_chain(namespaces["b1"], "inet", "type filter hook input priority 0; policy drop;")


def add_chain(namespace: str, family: str, rules: str) -> None:
    """Add a chain at once, since a fault of several commands could outlast the load on a busy machine."""
    table = f"table {family} outsider {{ chain faulty {{ {rules} }}; }}\n"
    run_in(namespace, "nft", "-f", "-", input_text=table)


def shrink_port_mtu(namespaces: dict[str, str]) -> None:
    run_in(namespaces["sw"], "ip", "link", "set", "b1", "mtu", "700")


def drop_large_tcp_packets(namespaces: dict[str, str]) -> None:
    """Datagrams of the same size pass, so only a probe through a connection meets this filter."""
    hook = "type filter hook forward priority 0; policy accept;"
    add_chain(namespaces["sw"], "bridge", f"{hook} ip protocol tcp meta length > 900 drop;")


def measure(folder: Path, fault: Fault, faulty_trials: set[int], levels: str = "") -> CampaignSummary:
    return measure_with_fault(folder, STUDY.format(levels=levels), fault, faulty_trials)


@pytest.mark.parametrize(
    ("fault", "cause", "levels"),
    [
        (flap_port, "link_down", ""),
        (drop_all_packets, "path_blocked", ""),
        (drop_large_tcp_packets, "mtu_black_hole", ""),
        # With segmentation offload a bridge forwards packets that are larger than the MTU of its port.
        (shrink_port_mtu, "mtu_black_hole", 'tso = "off"\ngso = "off"'),
    ],
)
def test_one_failed_trial_of_four_is_explained_before_everything_else(
    tmp_path: Path, fault: Fault, cause: str, levels: str
) -> None:
    summary = measure(tmp_path, fault, {1}, levels)
    explanation = explain(summary)
    first = explanation.findings[0]
    assert (first.kind, first.details["cause"]) == ("failed", cause)
    assert (first.details["failed_trials"], first.details["all_trials"]) == (1, 4)
    assert first.text.startswith("1 of 4 trials failed: ")
    assert "3 other trials succeeded" in first.text
    assert first.candidates[0].confidence == "very likely"
    answer = " ".join(build_narrative(summary).answer[:2])
    assert f"1 of 4 trials failed: {first.candidates[0].cause.description}." in answer
    assert not any("normal" in finding.text for finding in explanation.findings)


def test_a_path_that_stays_blocked_is_the_answer_of_a_campaign_without_results(tmp_path: Path) -> None:
    explanation = explain(measure(tmp_path, drop_all_packets, {0, 1, 2}))
    assert explanation.answer == ("3 of 3 trials failed: the path stopped passing packets of any size.",)
    (finding,) = explanation.findings
    assert "No trial of these treatments succeeded." in finding.text


def test_a_path_that_was_blocked_between_trials_is_reported_although_the_testbed_was_replaced(
    tmp_path: Path,
) -> None:
    def block_large_and_small_packets(namespaces: dict[str, str]) -> None:
        add_chain(namespaces["sw"], "bridge", "type filter hook forward priority 0; policy drop;")

    study = STUDY.format(levels="")
    summary = measure_with_fault(tmp_path, study, block_large_and_small_packets, {0}, Moment.AFTER_LOAD)
    first = explain(summary).findings[0]
    assert (first.kind, first.details["cause"]) == ("failed", "path_blocked")
    assert "1 of 4 trials failed" in first.text
