"""Comparison of measured goodput with throughput models."""

from __future__ import annotations

import pytest

from tests.explain.campaigns import SimulatedTreatment, campaign
from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.explain.explain import explain
from vnetbench.explain.model_check import find_model_agreement

pytestmark = pytest.mark.pure

ONE = 'title = "t"\n[factors]\nstreams = 1\n'
WINDOW = {"in_flight_bytes": 65536.0, "rtt_us": 4450.0, "stream_goodput_bps": 116e6}
LOSS = {
    "path_loss_percent": 1.0, "mss_bytes": 1448.0, "rtt_us": 1500.0, "stream_goodput_bps": 60e6,
}  # fmt: skip


def treatment(evidence: dict[str, float]) -> TreatmentSummary:
    return campaign(ONE, SimulatedTreatment(evidence)).treatments[0]


def test_the_window_model_is_compared_with_the_goodput() -> None:
    result = find_model_agreement(treatment(WINDOW), "receive_window")
    assert result is not None
    assert result.goodput_bps_by_law_or_metric["window_law_bps"] == pytest.approx(117.8e6, rel=0.001)
    assert result.text == (
        "A window of 65.5 kB and a round-trip time of 4.45 ms allow 118 Mbit/s per stream. "
        "The measured goodput is 116 Mbit/s per stream."
    )


def test_a_goodput_far_from_the_window_model_gives_no_check() -> None:
    assert find_model_agreement(treatment({**WINDOW, "stream_goodput_bps": 50e6}), "receive_window") is None


def test_the_loss_models_are_compared_with_the_goodput() -> None:
    result = find_model_agreement(treatment(LOSS), "path_loss")
    assert result is not None
    assert result.goodput_bps_by_law_or_metric["reno_law_bps"] == pytest.approx(89e6, rel=0.05)
    assert "with reno and" in result.text and "measured goodput is 60.0 Mbit/s per stream" in result.text


@pytest.mark.parametrize("goodput_bps", [2.55e9, 30e6])
def test_a_goodput_far_from_the_loss_models_gives_no_check(goodput_bps: float) -> None:
    # Spurious retransmissions of late packets: 931 Mbit/s by the model, and 2.55 Gbit/s measured.
    assert find_model_agreement(treatment({**LOSS, "stream_goodput_bps": goodput_bps}), "path_loss") is None


@pytest.mark.parametrize("missing", ["rtt_us", "in_flight_bytes", "stream_goodput_bps"])
def test_a_missing_metric_gives_no_check(missing: str) -> None:
    known = {name: value for name, value in WINDOW.items() if name != missing}
    assert find_model_agreement(treatment(known), "receive_window") is None


def test_causes_without_a_model_give_no_check() -> None:
    assert find_model_agreement(treatment(WINDOW), "cpu_quota") is None


def test_the_finding_contains_the_model_of_its_first_candidate() -> None:
    suspected = {
        "rwnd_limited_percent": 95.0, "in_flight_over_peer_window": 0.98, "receive_buffer_bytes": 131072.0,
        "receiver_thread_busy_percent": 3.0, "overlimits_per_s": 0.0,
    }  # fmt: skip
    finding = explain(campaign(ONE, SimulatedTreatment({**WINDOW, **suspected}))).findings[0]
    assert finding.details["cause"] == "receive_window"
    assert finding.text.endswith(
        "A window of 65.5 kB and a round-trip time of 4.45 ms allow 118 Mbit/s per stream. "
        "The measured goodput is 116 Mbit/s per stream."
    )
    assert "law" in finding.details
