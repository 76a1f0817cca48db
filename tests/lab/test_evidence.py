"""Tests of evidence from real loads: an imposed limit shows in its metrics, and only then."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.quiet import quiet_machine_required
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.estimate.evidence import collect_evidence
from vnetbench.estimate.evidence.trial_data import build_trial_data
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.time_series import metric_time_series
from vnetbench.estimate.trial_metrics import metrics_of_steady_part
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import TCP_RR, TCP_STREAM

pytestmark = [pytest.mark.lab, pytest.mark.alone]


def evidence(workload: str = TCP_STREAM, **levels: Level) -> dict[str, float]:
    """Return the evidence of a short trial with these levels, from its third interval on."""
    spec = TestbedSpec()
    with closing(LabInstrument(NetnsLab(spec, "a test"), spec)) as instrument:
        load = TrialLoad(complete_levels(levels, workload), 0.6, 0.1, workload)
        done = instrument.measure(load, lambda: False)
        (testbed,) = instrument.take_new_facts().testbed_descriptions.values()
    measured = done.measurement
    trial = TrialRecord(0, 0, None, 0.0, 0.6, 0.0, measured.effective, measured.endpoints)
    part = select_steady_part(trial, 2)
    time_series = metric_time_series(trial, "latency_p50_us" if workload == TCP_RR else "goodput_bps")
    return collect_evidence(build_trial_data(part, metrics_of_steady_part(part), time_series, testbed))


def test_an_unlimited_load_shows_no_evidence_of_a_limit() -> None:
    found = evidence()
    assert found["segments_per_packet"] > 5
    assert found["tso_off"] == found["pacing_capped"] == 0
    assert found["foreign_traffic_percent"] < 10
    assert found["bytes_per_call"] > 100_000
    assert 0 < found["sender_thread_busy_percent"] <= 110
    assert found.get("backlog_bytes", 0) == 0
    assert "latency_share" not in found


def test_a_quota_shows_as_throttling_of_the_sender() -> None:
    # A sender that gets less CPU time than its quota is not throttled.
    with quiet_machine_required():
        found = evidence(cpu_quota=0.1)
        assert found["sender_throttled_percent"] > 20
        assert found["sender_throttled_periods_percent"] > 20


def test_a_full_link_shows_as_a_queue_before_it() -> None:
    found = evidence(link_rate=100_000_000)
    assert found["backlog_delay_us"] > 1000
    assert found["overlimits_per_s"] > 0
    assert found["rtt_us"] > 1000


def test_large_writes_into_a_slow_link_are_no_other_traffic() -> None:
    found = evidence(link_rate=10_000_000, message_size=2**20, streams=4)
    # No write of 1 MiB ends within the trial.
    assert found["foreign_traffic_percent"] < 5
    assert found["stalled_percent"] < 50
    assert found["overlimits_per_s"] > 0


def test_without_offloads_each_packet_holds_one_segment() -> None:
    found = evidence(tso="off", gso="off")
    assert found["segments_per_packet"] == pytest.approx(1, abs=0.1)
    assert found["tso_off"] == found["gso_off"] == 1


def test_streams_reach_their_pacing_rate() -> None:
    found = evidence(pacing_rate=100_000_000)
    assert found["pacing_capped"] == 1
    assert found["goodput_over_pacing_rate"] == pytest.approx(1, abs=0.3)


def test_a_small_receive_buffer_shows_as_a_full_window() -> None:
    found = evidence(socket_buffer=4096)
    assert found["receive_buffer_bytes"] == 8192
    assert max(found["rwnd_limited_percent"], found["send_buffer_full_percent"]) > 20


def test_one_request_at_a_time_spends_all_its_time_waiting() -> None:
    found = evidence(TCP_RR)
    assert found["latency_share"] == pytest.approx(1, abs=0.2)
    assert found["bytes_per_call"] == 1
