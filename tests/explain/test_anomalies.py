"""Anomalies: a natural limit is called normal only if nothing unusual was seen and nothing was unseen."""

from __future__ import annotations

import pytest

from tests.explain.campaigns import SENDER_SATURATED, Evidence, SimulatedTreatment, campaign
from vnetbench.explain.anomalies import find_abnormal_medians, unseen_path_parts, unusual_evidence_sentence
from vnetbench.explain.explain import explain

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
