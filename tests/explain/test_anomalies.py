"""Anomalies: a natural limit is called normal only if nothing unusual was seen and nothing was unseen."""

from __future__ import annotations

import pytest

from tests.explain.campaigns import SENDER_SATURATED, Evidence, SimulatedTreatment, campaign
from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.explain.anomalies import (
    find_abnormal_medians,
    load_healthy_ranges,
    select_unaccounted_anomalies,
    unseen_path_parts,
    unusual_evidence_sentence,
)
from vnetbench.explain.explain import explain
from vnetbench.explain.rules import load_rules

pytestmark = pytest.mark.pure

ONE = 'title = "t"\n[factors]\nstreams = 1\n'
CLEAN: Evidence = {**SENDER_SATURATED, "timeouts_per_s": 0.0}
LOSSY: Evidence = {**SENDER_SATURATED, "timeouts_per_s": 2.0}


def test_a_healthy_path_has_no_anomaly() -> None:
    assert find_abnormal_medians([SENDER_SATURATED] * 3) == {}


def test_an_anomaly_needs_half_of_the_trials() -> None:
    assert find_abnormal_medians([LOSSY, LOSSY, CLEAN]) == {"timeouts_per_s": 2.0}
    assert find_abnormal_medians([LOSSY, CLEAN, CLEAN]) == {}


def test_without_cpu_times_the_cpus_are_unseen() -> None:
    assert "the CPUs of the load" in unseen_path_parts([{"rtt_us": 1.0}])
    assert "Not observed: the CPUs of the load" in unusual_evidence_sentence([{"rtt_us": 1.0}])


def test_a_natural_limit_beside_an_anomaly_is_neither_normal_nor_very_likely() -> None:
    (healthy, *_), (unusual, *_) = (
        explain(campaign(ONE, SimulatedTreatment(evidence))).findings
        for evidence in (SENDER_SATURATED, LOSSY)
    )
    assert healthy.candidates[0].confidence == "very likely"
    assert unusual.candidates[0].confidence == "likely"
    assert "Unusual here: retransmission timeouts 2.00 /s." in unusual.text
    assert "normal" not in unusual.text


def test_what_the_study_asks_for_is_not_unusual() -> None:
    switched_off = [{**SENDER_SATURATED, "tso_off": 1.0}]
    assert find_abnormal_medians(switched_off) == {"tso_off": 1.0}
    assert find_abnormal_medians(switched_off, factors_set_by_study=["tso"]) == {}


@pytest.mark.parametrize(
    ("metric", "healthy", "unusual"),
    [
        ("stopped_time_percent", 0.4, 5.0),
        ("foreign_packet_work_percent", 0.5, 8.0),
        ("segment_share_of_mtu_percent", 99.0, 60.0),
    ],
)
def test_stops_foreign_packets_and_small_segments_are_unusual(
    metric: str, healthy: float, unusual: float
) -> None:
    assert find_abnormal_medians([{**SENDER_SATURATED, metric: healthy}]) == {}
    assert find_abnormal_medians([{**SENDER_SATURATED, metric: unusual}]) == {metric: unusual}


OTHER_PROGRAMS: Evidence = {"programs_time_percent": 40.0, "load_cpus_occupied_percent": 99.0}


def test_a_fault_that_does_not_account_for_what_is_unusual_is_at_most_likely() -> None:
    (alone, *_), (drops, *_) = (
        explain(campaign(ONE, SimulatedTreatment({**OTHER_PROGRAMS, "qdisc_drops_per_s": rate}))).findings
        for rate in (0.0, 3880.0)
    )
    for finding, confidence in ((alone, "very likely"), (drops, "likely")):
        assert finding.candidates[0].cause.name == "other_programs"
        assert finding.candidates[0].confidence == confidence
    assert "does not account for" not in alone.text
    assert drops.text.endswith(
        "This cause does not account for: packets dropped by queueing disciplines 3.88 k/s."
    )


def test_a_fault_accounts_for_what_follows_from_it_and_for_what_its_rule_requires() -> None:
    rules = load_rules()
    abnormal = {"qdisc_drops_per_s": 5.0, "path_loss_percent": 1.0, "programs_time_percent": 9.0}
    for cause, expected in (
        ("overflow", set()),
        ("path_loss", set()),
        ("cpu_quota", {*abnormal} - {"programs_time_percent"}),
    ):
        unaccounted = select_unaccounted_anomalies(abnormal, cause, rules[cause].supporting_metrics)
        assert unaccounted.keys() == expected


def test_the_table_names_known_causes_and_each_anomaly_follows_from_something() -> None:
    for healthy in load_healthy_ranges():
        assert healthy.metric in EVIDENCE_METRICS
        assert set(healthy.follows_from) <= load_rules().keys()
        assert (healthy.is_setting or healthy.is_wait) != bool(healthy.follows_from)
