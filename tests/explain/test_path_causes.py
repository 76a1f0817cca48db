"""Causes on the path from given evidence: captures, policers, filters, throttled acknowledgements, stalls."""

from __future__ import annotations

import pytest

from tests.explain.campaigns import Evidence
from vnetbench.explain.rules import load_rules
from vnetbench.explain.scoring import rank_causes
from vnetbench.study.workloads import TCP_CRR, TCP_RR, TCP_STREAM, UDP_STREAM

BUSY: Evidence = {
    "cpu_work_time_percent": 70.0,
    "load_cpus_occupied_percent": 97.0,
    "load_cpus_programs_percent": 1.0,
    "load_cpus_hypervisor_percent": 0.0,
    "quota_time_percent": 0.0,
    "programs_time_percent": 0.5,
    "foreign_packet_sockets": 0.0,
    "filter_work_percent": 0.0,
    "policer_drops_per_s": 0.0,
}
FLOODED: Evidence = {"foreign_packet_work_percent": 40.0, "foreign_packets_percent": 95.0}
SMALL_SEGMENTS: Evidence = {
    "segment_share_of_mtu_percent": 30.0,
    "segments_per_packet": 1.0,
    "bytes_per_call": 1e6,
}
SENDER_BUSY: Evidence = {
    "cpu_work_time_percent": 99.0,
    "time_sender_running_percent": 93.0,
    "sender_thread_busy_percent": 94.0,
    "load_cpus_occupied_percent": 67.0,
}
SLOW_PACKETS: Evidence = {"interrupt_us_per_packet": 260.0}
SMALL_PACKETS: Evidence = {
    "segments_per_packet": 9.93,
    "bytes_per_call": 1e6,
    "packet_share_of_permitted_percent": 22.0,
}
STALLED: Evidence = {"stalled_percent": 100.0, "timeouts_per_s": 16.0, "path_loss_percent": 0.0}
CLAMPED_WINDOW: Evidence = {
    "rwnd_limited_percent": 100.0,
    "in_flight_over_peer_window": 0.99,
    "receive_buffer_bytes": 11.2e6,
    "window_share_of_receive_buffer_percent": 2.0,
    "receiver_thread_busy_percent": 51.0,
}
RELAYED: Evidence = {
    "foreign_packet_sockets": 4.0,
    "busiest_program_percent": 75.0,
    "cpu_work_time_percent": 52.0,
    "programs_time_percent": 14.0,
    "reordered_percent": 2.6,
    "spurious_retransmit_percent": 98.7,
}
SMALL_WINDOW: Evidence = {
    "rwnd_limited_percent": 97.0,
    "receive_buffer_bytes": 65_536.0,
    "receiver_thread_busy_percent": 54.0,
}
STALLING: Evidence = {"request_stall_percent": 90.0, "timeouts_per_s": 4.0, "latency_share": 1.0}


def first_candidate(evidence: Evidence, workload: str) -> tuple[str, str]:
    first = rank_causes([evidence] * 6, load_rules(), workload).candidates[0]
    return first.cause.name, first.confidence


def first_cause(evidence: Evidence, workload: str = TCP_STREAM) -> str:
    return rank_causes([evidence] * 6, load_rules(), workload).candidates[0].cause.name


def test_without_anything_in_the_way_the_load_fills_its_cpus() -> None:
    assert first_cause(BUSY) == "cpus_full"


@pytest.mark.parametrize(
    ("evidence", "workload", "cause"),
    [
        ({**BUSY, "foreign_packet_sockets": 1, "busiest_program_percent": 30}, TCP_STREAM, "packet_capture"),
        ({**BUSY, "filter_work_percent": 60}, TCP_STREAM, "packet_filtering"),
        ({**BUSY, "filter_work_percent": 25}, TCP_STREAM, "packet_filtering"),
        # Encryption takes as long for a packet as rules that search payload. Most machines have a rule.
        ({**BUSY, **SENDER_BUSY, **SLOW_PACKETS, "netfilter_rules": 1}, TCP_STREAM, "sender_cpu"),
        ({**BUSY, **FLOODED}, TCP_STREAM, "foreign_packets"),
        ({**BUSY, **FLOODED, "softnet_dropped_per_s": 5000}, TCP_STREAM, "foreign_packets"),
        ({**BUSY, "stopped_time_percent": 12}, TCP_RR, "process_stopped"),
        ({**BUSY, **SMALL_SEGMENTS, "tso_off": 1, "path_loss_percent": 1}, TCP_STREAM, "small_mtu"),
        ({**BUSY, **SMALL_WINDOW}, TCP_STREAM, "receive_window"),
        ({**BUSY, "split_at_port_ratio": 40, "segments_per_packet": 40}, TCP_STREAM, "offload_off_on_path"),
        ({"policer_drops_per_s": 300, "path_loss_percent": 2}, UDP_STREAM, "policer"),
        ({"path_loss_percent": 1.5, "policer_drops_per_s": 0}, UDP_STREAM, "path_loss"),
        # Acknowledgements are lost, and the time is mostly waiting.
        (
            {**BUSY, "cpu_work_time_percent": 30, "ack_loss_percent": 89},
            TCP_STREAM,
            "ack_path_limited",
        ),
        # Recorded: a limit of segments in a packet, little memory for TCP, a route with a small window, a
        # relay that delays some packets, and a frozen receiver.
        ({**BUSY, **SENDER_BUSY, **SMALL_PACKETS}, TCP_STREAM, "segmentation_off"),
        ({**STALLED, "tcp_receive_drops_per_s": 16}, TCP_STREAM, "overflow"),
        (STALLED, TCP_STREAM, "mtu_black_hole"),
        (CLAMPED_WINDOW, TCP_STREAM, "receive_window"),
        ({**RELAYED, "in_flight_over_window": 1.0}, TCP_STREAM, "reordering"),
        ({**RELAYED, "in_flight_over_window": 0.03}, TCP_STREAM, "packet_capture"),
        ({"stopped_time_percent": 9, "socket_drop_percent": 12.5}, UDP_STREAM, "process_stopped"),
        ({"ack_queue_busy_percent": 100, "overlimits_per_s": 900}, TCP_STREAM, "ack_path_limited"),
        ({"data_queue_busy_percent": 100, "overlimits_per_s": 900}, TCP_STREAM, "link_full"),
        ({**STALLING, "path_loss_percent": 1}, TCP_RR, "path_loss"),
        (
            {**STALLING, "connect_stall_percent": 99, "connect_share_of_stalls_percent": 100},
            TCP_CRR,
            "connection_setup_loss",
        ),
        (
            {**STALLING, "connect_stall_percent": 60, "connect_share_of_stalls_percent": 30},
            TCP_CRR,
            "path_loss",
        ),
    ],
)
def test_what_stands_in_the_way_ranks_before_what_it_causes(
    evidence: Evidence, workload: str, cause: str
) -> None:
    assert first_cause(evidence, workload) == cause


@pytest.mark.parametrize(
    ("evidence", "cause"),
    [
        # A filter of redundant acknowledgements (cake) drops most of them, and the data fills its link.
        ({"cpu_work_time_percent": 10, "data_queue_busy_percent": 100, "overlimits_per_s": 900}, "link_full"),
        # The path loses as much of the data.
        ({"cpu_work_time_percent": 10, "ack_loss_percent": 35, "path_loss_percent": 35}, "path_loss"),
        # Recorded behind a policer of the acknowledgements: the sender works all the time.
        ({**SENDER_BUSY}, "sender_cpu"),
    ],
)
def test_lost_acknowledgements_alone_are_no_limit(evidence: Evidence, cause: str) -> None:
    assert first_cause({**BUSY, "ack_loss_percent": 60, **evidence}) == cause


def test_packets_that_take_long_lower_the_confidence_in_a_full_cpu() -> None:
    """Recorded with 20 rules that search the payload: 223 µs. Nothing shows that rules are the reason."""
    words = [
        rank_causes([{**BUSY, **SENDER_BUSY, **slow}] * 6, load_rules(), TCP_STREAM).candidates[0].confidence
        for slow in ({"interrupt_us_per_packet": 20.0}, {"interrupt_us_per_packet": 223.0})
    ]
    assert words == ["very likely", "likely"]


@pytest.mark.parametrize(
    ("share_percent", "is_buffer_enough"),
    [
        # SO_RCVBUF of 2 MB over 50 ms: the window is half of the buffer, which the reader keeps empty.
        (50, True),
        (2, False),
    ],
)
def test_a_larger_buffer_is_tried_unless_the_window_is_clamped(
    share_percent: float, *, is_buffer_enough: bool
) -> None:
    window: Evidence = {
        **CLAMPED_WINDOW,
        "receive_buffer_bytes": 4e6,
        "window_share_of_receive_buffer_percent": share_percent,
        "receive_queue_percent": 1.0,
    }
    (first, *_) = rank_causes([window] * 6, load_rules(), TCP_STREAM).candidates
    assert first.cause.name == "receive_window"
    assert bool(first.cause.experiment_levels) == is_buffer_enough


def test_a_few_drops_in_the_receivers_tcp_are_no_limit_of_a_full_cpu() -> None:
    """12 of 3 million segments per second, perhaps of another connection of the namespace."""
    assert first_cause({**BUSY, "tcp_receive_drops_per_s": 12, "stalled_percent": 0}) == "cpus_full"


def test_a_socket_of_an_idle_program_is_no_capture() -> None:
    assert first_cause({**BUSY, "foreign_packet_sockets": 1, "busiest_program_percent": 0.2}) == "cpus_full"


def test_a_queue_that_is_mostly_empty_is_no_limit() -> None:
    evidence = {**BUSY, "overlimits_per_s": 200, "data_queue_busy_percent": 2}
    assert first_cause(evidence) == "cpus_full"


INGRESS_SHAPER: Evidence = {
    **BUSY,
    "cpu_work_time_percent": 5.0,
    "shaper_rate_share_percent": 92.0,
    "shaper_delays_per_s": 3000.0,
    "shaper_delays_per_packet": 2.0,
    "path_loss_percent": 0.0,
}
REORDERED: Evidence = {
    "reordering_events_per_s": 400.0,
    "spurious_retransmit_percent": 80.0,
    "retransmitted_percent": 0.3,
    "reordered_percent": 0.4,
    "in_flight_over_window": 1.0,
    "path_loss_percent": 0.1,
    "qdisc_drops_per_s": 0.0,
}
SHORT_QUEUE: Evidence = {
    "shaper_drops_per_s": 100.0,
    "shaper_rate_share_percent": 5.0,
    "shaper_delays_per_s": 400.0,
    "stalled_percent": 80.0,
    "path_loss_percent": 0.0,
    "time_link_queue_percent": 0.0,
}
DUPLICATED: Evidence = {**BUSY, "duplicated_percent": 15.0, "path_loss_percent": 0.0}


@pytest.mark.parametrize("loss_percent", [0.0, 0.8])
def test_a_shaper_at_the_ingress_limits_although_no_sample_sees_its_queue(loss_percent: float) -> None:
    assert first_cause({**INGRESS_SHAPER, "path_loss_percent": loss_percent}) == "link_full"


@pytest.mark.parametrize(
    "rarely_full",
    [
        {"shaper_rate_share_percent": 20.0},
        {"shaper_delays_per_s": 0.0},
        {"shaper_rate_share_percent": 50.0, "shaper_delays_per_packet": 0.05},
    ],
)
def test_a_shaper_that_has_room_is_no_limit(rarely_full: Evidence) -> None:
    assert first_cause({**INGRESS_SHAPER, **BUSY, **rarely_full}) == "cpus_full"


def test_a_link_that_is_full_for_a_part_of_the_time_is_named() -> None:
    """The median of the samples does not show it, but the time accounting does."""
    assert first_cause({"overlimits_per_s": 0, "time_link_queue_percent": 35}) == "link_full"


@pytest.mark.parametrize("shaped", [{}, {"overlimits_per_s": 20_000.0, "shaper_rate_share_percent": 60.0}])
def test_late_segments_are_reordering_although_a_shaper_delays_some_of_them(shaped: Evidence) -> None:
    assert first_cause({**REORDERED, **shaped}) == "reordering"


@pytest.mark.parametrize(
    "unlimited", [{"in_flight_over_window": 0.1}, {"stalled_percent": 60.0}, {"cpu_work_time_percent": 97.0}]
)
def test_reordering_that_does_not_hold_back_the_sender_is_no_limit(unlimited: Evidence) -> None:
    ranking = rank_causes([{**REORDERED, **unlimited}] * 6, load_rules(), TCP_STREAM)
    assert "reordering" not in [each.cause.name for each in ranking.candidates]


def test_a_full_link_stands_before_the_reordering_on_it() -> None:
    full = {"overlimits_per_s": 5000.0, "shaper_rate_share_percent": 98.0, "shaper_delays_per_s": 5000.0}
    assert first_cause({**REORDERED, **full}) == "link_full"


@pytest.mark.parametrize(
    "lossy",
    [
        {"reordering_events_per_s": 0.0, "spurious_retransmit_percent": 5.0},
        {"spurious_retransmit_percent": 5.0},
    ],
)
def test_a_loss_is_no_reordering(lossy: Evidence) -> None:
    assert first_cause({**REORDERED, "reordered_percent": 0.2, **lossy}) == "path_loss"


def test_a_queue_that_drops_although_its_link_has_room_is_too_short() -> None:
    assert first_cause(SHORT_QUEUE) == "overflow"
    assert first_cause({**SHORT_QUEUE, "shaper_rate_share_percent": 95.0}) == "link_full"


@pytest.mark.parametrize("workload", [TCP_STREAM, UDP_STREAM, TCP_CRR])
def test_packets_that_arrive_twice_are_named(workload: str) -> None:
    assert first_cause(DUPLICATED, workload) == "duplicates"


def test_a_few_duplicates_are_no_limit() -> None:
    assert first_cause({**DUPLICATED, "duplicated_percent": 0.1}) == "cpus_full"


def test_a_stall_with_a_retransmission_is_a_loss_although_no_timer_expired() -> None:
    """A tail loss probe repeats the segment before the retransmission timer expires."""
    stalling: Evidence = {"request_stall_percent": 90.0, "timeouts_per_s": 0.0, "retransmits_per_stall": 1.0}
    assert first_cause(stalling, TCP_CRR) == "path_loss"


def test_a_stall_without_any_retransmission_is_no_loss() -> None:
    stalling: Evidence = {"request_stall_percent": 90.0, "timeouts_per_s": 0.0, "retransmits_per_stall": 0.0}
    assert not rank_causes([stalling] * 6, load_rules(), TCP_RR).candidates


def test_packets_that_a_tunnel_processes_twice_are_not_foreign() -> None:
    evidence = {**BUSY, "foreign_packet_work_percent": 20, "foreign_packets_percent": 50}
    assert first_cause(evidence) == "cpus_full"


def test_small_segments_cost_nothing_where_packets_stay_whole() -> None:
    assert first_cause({**BUSY, **SMALL_SEGMENTS, "segments_per_packet": 40}) == "cpus_full"


def test_work_for_each_segment_costs_nothing_where_the_time_is_not_cpu_work() -> None:
    segmenting: Evidence = {"tso_off": 1, "segments_per_packet": 1, "bytes_per_call": 1e6}
    assert first_cause({**BUSY, **segmenting}) == "segmentation_off"
    waiting = {
        **segmenting,
        "cpu_work_time_percent": 8,
        "overlimits_per_s": 900,
        "data_queue_busy_percent": 95,
    }
    assert first_cause(waiting) == "link_full"


@pytest.mark.parametrize(
    ("evidence", "workload"),
    [
        ({"path_loss_percent": 0.5, "spurious_retransmit_percent": 0.0}, TCP_STREAM),
        ({"path_loss_percent": 60.0}, UDP_STREAM),
        ({**STALLING, "retransmits_per_stall": 1.0}, TCP_CRR),
    ],
)
def test_loss_at_the_rate_of_a_firewall_rule_is_a_policer(evidence: Evidence, workload: str) -> None:
    at_rate = {**evidence, "policer_drops_per_s": 0.0, "rate_limit_share_percent": 90.0}
    assert first_cause(at_rate, workload) == "policer"
    assert first_cause({**at_rate, "rate_limit_share_percent": 10.0}, workload) == "path_loss"


def test_a_rate_limit_without_loss_is_no_policer() -> None:
    assert first_cause({**BUSY, "rate_limit_share_percent": 90.0, "path_loss_percent": 0.0}) == "cpus_full"


def test_a_small_buffer_before_a_receiver_that_never_sleeps_is_no_window_limit() -> None:
    assert first_cause({**BUSY, **SMALL_WINDOW, "receiver_thread_busy_percent": 97}) == "cpus_full"


def test_a_window_that_closes_before_a_large_buffer_is_no_small_buffer() -> None:
    assert first_cause({**BUSY, **SMALL_WINDOW, "receive_buffer_bytes": 6e6}) == "cpus_full"


def test_few_rules_are_only_a_possible_reason_for_costly_packets() -> None:
    costly = {**BUSY, "costly_interrupt_work_percent": 80.0}
    assert first_candidate({**costly, "filter_work_percent": 0.02}, TCP_STREAM) == (
        "packet_filtering",
        "possible",
    )
    assert first_candidate({**costly, "filter_work_percent": 4.0}, TCP_STREAM) == (
        "packet_filtering", "very likely",
    )  # fmt: skip
