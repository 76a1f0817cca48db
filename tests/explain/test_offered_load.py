"""Delivered and offered load of paced treatments."""

from __future__ import annotations

import pytest

from tests.explain.campaigns import IDLE, SENDER_SATURATED, Evidence, SimulatedTreatment, campaign
from vnetbench.explain.explain import explain
from vnetbench.explain.limits import NO_LIMIT_CAUSE_NAME, UNEXPLAINED_CAUSE_NAME, find_treatment_limits
from vnetbench.explain.model import Explanation
from vnetbench.explain.offered_load import measure_load_delivery

pytestmark = pytest.mark.pure


def requests(per_s: float, *, rate: str = '"1 k/s"') -> str:
    study = f'title = "t"\nworkload = "tcp_rr"\n[factors]\nrate = {rate}\nconnections = 4\npairs = 2\n'
    summary = campaign(
        study, SimulatedTreatment(SENDER_SATURATED, 100.0, values={"transactions_per_s": per_s})
    )
    return find_treatment_limits(summary)[0].cause_name


def datagrams(per_s: float, factors: str) -> str:
    study = f'title = "t"\nworkload = "udp_stream"\n[factors]\n{factors}\n'
    summary = campaign(
        study, SimulatedTreatment(SENDER_SATURATED, 100.0, values={"datagrams_received_per_s": per_s})
    )
    return find_treatment_limits(summary)[0].cause_name


def test_delivered_requests_have_no_limit() -> None:
    # 1000 requests per second on each of 4 connections in each of 2 pairs.
    assert requests(7900) == NO_LIMIT_CAUSE_NAME
    assert requests(7800) == "sender_cpu"


def test_a_closed_loop_has_no_offered_load() -> None:
    assert requests(8000, rate='"none"') == "sender_cpu"


def test_the_datagram_rate_follows_from_payload_size_and_bit_rate() -> None:
    factors = 'bit_rate = "100 Mbit/s"\ndatagram_size = "1250 B"\nstreams = 2'
    assert datagrams(19_950, factors) == NO_LIMIT_CAUSE_NAME
    assert datagrams(19_000, factors) == "sender_cpu"


def test_a_bit_rate_without_datagram_size_gives_no_offered_load() -> None:
    study = 'title = "t"\nworkload = "udp_stream"\n[factors]\nstreams = 1\n'
    (treatment,) = campaign(study, SimulatedTreatment(values={"datagrams_received_per_s": 10.0})).treatments
    assert measure_load_delivery(treatment, {"bit_rate": 1e6}, "udp_stream") is None


def test_datagrams_in_both_directions_are_added() -> None:
    assert datagrams(1995, 'rate = "1 k/s"\ndirection = "both"') == NO_LIMIT_CAUSE_NAME
    assert datagrams(1500, 'rate = "1 k/s"\ndirection = "both"') == "sender_cpu"


def test_frames_are_counted_individually_and_per_direction() -> None:
    def frames(per_s: float, lost_percent: float = 0.0) -> str:
        study = (
            'title = "t"\nworkload = "frames"\n[factors]\nframe_load = "10 kframe/s"\ndirection = "both"\n'
        )
        return find_treatment_limits(
            campaign(study, SimulatedTreatment(IDLE, per_s, values={"frame_loss_percent": lost_percent}))
        )[0].cause_name

    assert frames(19_950, 0.2) == NO_LIMIT_CAUSE_NAME
    assert frames(19_950, 1.0) == UNEXPLAINED_CAUSE_NAME, "single frames that are lost are a limit too"
    assert frames(19_500) == UNEXPLAINED_CAUSE_NAME


def test_guests_count_as_pairs_and_generators_share_a_directions_load() -> None:
    study = 'title = "t"\n[factors]\nstreams = 1\n'
    (requests_made,) = campaign(study, SimulatedTreatment(values={"transactions_per_s": 10.0})).treatments
    of_guests = measure_load_delivery(requests_made, {"rate": 1000, "connections": 2, "guests": 3}, "tcp_rr")
    (frames_made,) = campaign(study, SimulatedTreatment(values={"forwarding_rate_fps": 10.0})).treatments
    of_frames = measure_load_delivery(
        frames_made, {"frame_load": 1000, "generators": 2, "direction": "both"}, "frames"
    )
    assert of_guests is not None and of_guests.offered_per_s == 6000
    assert of_frames is not None and of_frames.offered_per_s == 2000


def test_the_finding_has_delivered_and_offered_load() -> None:
    study = 'title = "t"\nworkload = "tcp_rr"\n[factors]\nrate = "1 k/s"\n'
    explanation = explain(
        campaign(study, SimulatedTreatment(SENDER_SATURATED, 100.0, values={"transactions_per_s": 999.0}))
    )
    assert explanation.answer == ("The network delivered the whole offered load.",)
    assert explanation.findings[0].text == (
        "Nothing limits the load. The network delivered 999 /s of an offered load of 1.00 k/s (transactions)."
    )
    assert (
        explanation.findings[0].details["cause"] == NO_LIMIT_CAUSE_NAME
        and explanation.findings[0].candidates == ()
    )


def explain_datagrams(evidence: Evidence) -> Explanation:
    study = 'title = "t"\nworkload = "udp_stream"\n[factors]\nrate = "10 k/s"\n'
    values = {"datagrams_received_per_s": 10_000.0}
    return explain(campaign(study, SimulatedTreatment(evidence, 75.0, values=values)))


def test_a_load_that_arrives_late_has_a_fault_although_all_of_it_arrives() -> None:
    """Recorded with two programs that compress data: datagrams took 7.6 times as long."""
    waiting = {**IDLE, "programs_time_percent": 55.0, "load_cpus": 2.0, "load_cpus_programs_percent": 75.0}
    explanation = explain_datagrams(waiting)
    assert explanation.answer == (
        "The network delivered the whole offered load, but with a fault: "
        "other programs take 1.5 of the 2 CPUs that the load may use.",
    )
    finding = explanation.findings[0]
    assert [each.cause.name for each in finding.candidates] == ["other_programs"]
    assert finding.text.endswith("The network delivered 10.0 k/s of an offered load of 10.0 k/s (datagrams).")


def test_a_full_cpu_is_no_fault_of_a_load_that_was_delivered() -> None:
    explanation = explain_datagrams(SENDER_SATURATED)
    assert explanation.answer == ("The network delivered the whole offered load.",)


SHAPED: Evidence = {
    **IDLE,
    "overlimits_per_s": 900.0,
    "backlog_delay_us": 4000.0,
    "data_queue_busy_percent": 80.0,
}


@pytest.mark.parametrize("evidence", [{**IDLE, "path_loss_percent": 0.02}, SHAPED])
def test_a_loss_or_a_queue_within_the_margin_of_a_delivered_load_is_no_fault(evidence: Evidence) -> None:
    """20 of 100,000 datagrams lost; and bursts that wait in the queue of a shaper."""
    assert explain_datagrams(evidence).answer == ("The network delivered the whole offered load.",)
    stream = explain(campaign('title = "t"\n[factors]\nstreams = 1\n', SimulatedTreatment(evidence)))
    assert stream.findings[0].details["cause"] in ("path_loss", "link_full")


def test_datagrams_that_arrive_twice_are_a_fault_of_a_delivered_load() -> None:
    explanation = explain_datagrams({**IDLE, "duplicated_percent": 15.0})
    assert [each.cause.name for each in explanation.findings[0].candidates] == ["duplicates"]


def test_lost_requests_are_late_although_their_load_is_delivered() -> None:
    study = 'title = "t"\nworkload = "tcp_rr"\n[factors]\nrate = "1 k/s"\n'
    evidence = {**IDLE, "request_stall_percent": 60.0, "timeouts_per_s": 2.0}
    summary = campaign(study, SimulatedTreatment(evidence, 100.0, values={"transactions_per_s": 999.0}))
    (limit,) = find_treatment_limits(summary)
    assert (limit.is_load_delivered, limit.cause_name) == (True, "path_loss")


def test_a_tcp_stream_has_no_offered_load() -> None:
    (limit,) = find_treatment_limits(campaign('title = "t"\n[factors]\nstreams = 1\n', SimulatedTreatment()))
    assert limit.load_delivery is None
