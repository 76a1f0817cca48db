"""Evidence of trials that other tools ran."""

from __future__ import annotations

import pytest

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.imported import imported_evidence
from vnetbench.results.records import IMPORTED_LOG_KEY, OBSERVE, EndpointRecord, Sample, TrialRecord

OTHER_RESULTS = {"tcp_mss_default": "1448"}


def imported(*counters: dict[str, float], other_results: dict[str, str] = OTHER_RESULTS) -> TrialRecord:
    """Return a trial whose log reports these counters for each second."""
    samples = tuple(Sample(i, i + 1.0, 1.0, 0, 0, values) for i, values in enumerate(counters))
    endpoint = EndpointRecord("forward", OBSERVE, {}, samples)
    return TrialRecord(
        0, 0, None, 0.0, len(counters), 0.0, {IMPORTED_LOG_KEY: {"other_results": other_results}}, (endpoint,)
    )


def test_an_iperf3_log_provides_window_and_retransmits() -> None:
    seconds = [
        {"bytes": 1.448e6, "retransmits": n, "rtt_us": 200.0 + n, "cwnd_bytes": 90_000} for n in (90, 10, 30)
    ]
    metrics = {"goodput_bps": 11.584e6, "sender_cpu_percent": 97.0, "receiver_cpu_percent": 55.0}
    evidence = imported_evidence(imported(*seconds), 1, metrics, (1.0, 1.0), {"streams": 1})
    assert evidence == pytest.approx(
        {
            "sender_thread_busy_percent": 97.0,
            "receiver_thread_busy_percent": 55.0,
            "rtt_us": 220.0,
            "window_bytes": 90_000,
            "mss_bytes": 1448,
            "retransmitted_percent": 2.0,
            "stream_goodput_bps": 11.584e6,
        }
    )
    assert evidence.keys() <= EVIDENCE_METRICS.keys()


def test_a_process_with_several_streams_has_no_thread_evidence() -> None:
    evidence = imported_evidence(
        imported({"bytes": 1e6}), 0, {"sender_cpu_percent": 180.0}, (), {"streams": 4}
    )
    assert "sender_thread_busy_percent" not in evidence
    assert "stream_goodput_bps" not in evidence


def test_requests_are_reported_per_connection() -> None:
    metrics = {"transactions_per_s": 8000.0, "latency_mean_us": 500.0}
    evidence = imported_evidence(
        imported({"transactions": 8000.0}, other_results={}), 0, metrics, (), {"connections": 4}
    )
    assert evidence["transactions_per_connection_s"] == 2000
    assert evidence["latency_share"] == pytest.approx(1)


def test_the_control_connection_of_a_udp_test_is_not_evidence() -> None:
    evidence = imported_evidence(imported({"datagrams": 100.0}), 0, {"loss_percent": 2.5}, (), {"streams": 1})
    assert evidence == {"loss_percent": 2.5}
