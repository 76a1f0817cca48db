"""Workloads in a study: each has its factors and its deciding metric, and says so of others'."""

from __future__ import annotations

import pytest

from tests.study.test_study_load import the_problem
from vnetbench.campaign.agent_parameters import parameters
from vnetbench.study.factors.registry import FACTORS, complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import HOSTS, LABS
from vnetbench.study.model import Level
from vnetbench.study.problems import StudyError
from vnetbench.study.workloads import WORKLOADS, deciding_metric


def study(workload: str, factor: str, more: str = "") -> str:
    return f'title = "x"\nworkload = "{workload}"\n[factors]\n{factor}\n{more}'


@pytest.mark.parametrize(
    ("workload", "factor", "nearest"),
    [
        ("tcp_rr", "streams = 4", "connections"),
        ("tcp_crr", "streams = 4", "connections"),
        ("tcp_stream", "connections = 4", "streams"),
        ("tcp_rr", 'message_size = "1 KiB"', "request_size"),
        ("tcp_stream", 'request_size = "1 KiB"', "message_size"),
        ("udp_stream", 'message_size = "1 KiB"', "datagram_size"),
        ("tcp_rr", 'datagram_size = "1 KiB"', "request_size"),
        ("udp_stream", "connections = 4", "streams"),
    ],
)
def test_a_factor_of_another_workload_is_named_with_its_line_and_the_right_word(
    workload: str, factor: str, nearest: str
) -> None:
    problem = the_problem(study(workload, factor))
    name = factor.split(" ")[0]
    assert problem.what == f"{name} is not a factor of the workload {workload}"
    assert problem.fix.startswith(f'did you mean "{nearest}"?')
    assert problem.line == 4


def test_so_is_one_that_is_set_on_the_command_line() -> None:
    problem = the_problem(study("tcp_stream", "mtu = 1500"), "waiting=spin")
    assert problem.what == "waiting is not a factor of the workload tcp_stream"
    assert problem.where == "--set waiting=spin"


def test_a_workload_that_does_not_exist_is_answered_with_the_nearest() -> None:
    assert 'did you mean "tcp_crr"?' in the_problem(study("tcp_cr", "mtu = 1500")).fix


def test_only_requests_are_asked_at_a_rate_or_waited_for() -> None:
    for factor in ('rate = "1 k/s"', 'waiting = "spin"'):
        assert the_problem(study("tcp_crr", factor)).line == 4


def test_the_kernel_cannot_poll_for_answers_while_requests_are_due() -> None:
    both = 'waiting = ["spin", "busy_poll"]\nrate = ["none", "1 k/s"]'
    over_mptcp = 'waiting = ["spin", "busy_poll"]\ntransport = "mptcp"'
    assert "does not poll for MPTCP sockets" in the_problem(study("tcp_rr", over_mptcp)).what
    assert "waiting = busy_poll with a rate" in the_problem(study("tcp_rr", both)).what
    left_out = '[[exclude]]\nwaiting = "busy_poll"\nrate = "1 k/s"\n'
    parse_study(study("tcp_rr", both, left_out), None)


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        ('rate = "1 k/s"\nbit_rate = "1 Mbit/s"', "bit_rate together with rate"),
        ('bit_rate = "1 Mbit/s"\nudp_gso = "on"', "udp_gso = on with a bit_rate"),
        ('fragments = "on"\nudp_gso = "on"', "fragments = on with udp_gso = on"),
        ('pacing = ["spin", "sleep"]', "pacing = sleep without a rate"),
    ],
)
def test_datagrams_are_not_asked_for_in_ways_that_contradict_each_other(factors: str, what: str) -> None:
    assert what in the_problem(study("udp_stream", factors)).what


@pytest.mark.parametrize(
    ("levels", "rate_per_s"),
    [({}, None), ({"rate": 1000}, 1000.0), ({"bit_rate": 10**6, "datagram_size": 125}, 1000.0)],
)
def test_a_rate_in_bits_is_that_of_the_payload(levels: dict[str, Level], rate_per_s: float | None) -> None:
    asked = parameters("udp_stream", complete_levels(levels, "udp_stream"))
    assert asked["rate_per_s"] == rate_per_s


@pytest.mark.parametrize(
    ("workload", "factor", "metric"),
    [
        ("tcp_stream", "streams = 1", "goodput_bps"),
        ("tcp_rr", "connections = 1", "transactions_per_s"),
        ("tcp_rr", 'rate = ["1 k/s", "2 k/s"]', "latency_p99_us"),
        ("tcp_rr", 'rate = ["none", "2 k/s"]', "transactions_per_s"),
        ("tcp_crr", "connections = 1", "connections_per_s"),
        ("udp_stream", "streams = 1", "datagrams_received_per_s"),
        ("udp_stream", 'rate = ["none", "1 k/s"]', "datagrams_received_per_s"),
        ("udp_stream", 'bit_rate = "1 Mbit/s"', "delay_p99_us"),
        ("mixed", "connections = 1", "latency_p99_us"),
    ],
)
def test_each_workload_has_a_metric_that_decides(workload: str, factor: str, metric: str) -> None:
    assert deciding_metric(parse_study(study(workload, factor), None)) == metric


def test_the_study_may_name_another_metric_of_its_workload() -> None:
    text = study("tcp_rr", "connections = 1", '[precision]\nmetric = "latency_p50_us"\n')
    assert deciding_metric(parse_study(text, None)) == "latency_p50_us"
    problem = the_problem(text.replace("latency_p50_us", "goodput_bps"))
    assert problem.what == "goodput_bps is not measured by the workload tcp_rr"
    assert problem.line == 6


def test_a_mixture_has_the_factors_of_both_its_parts_and_asks_at_a_rate() -> None:
    levels = complete_levels({}, "mixed")
    assert {"streams", "message_size", "connections", "request_size", "waiting"} <= levels.keys()
    assert (levels["rate"], complete_levels({}, "tcp_rr")["rate"]) == (1000.0, "none")


def test_the_connections_of_a_mixture_count_among_its_streams() -> None:
    problem = the_problem(study("mixed", 'connections = [24, 25]\nstreams = 500\ndirection = "both"\n'))
    assert problem.line == 4
    assert "25 connections beside 500 transfers" in problem.what
    parse_study(study("mixed", 'connections = 24\nstreams = 500\ndirection = "both"\n'), None)


def test_only_a_mixture_has_an_idle_phase_and_that_has_three_intervals() -> None:
    problem = the_problem(study("tcp_rr", "connections = 1", '[timing]\nidle = "1 s"\n'))
    assert problem.what == "the workload tcp_rr has no idle phase"
    short = '[timing]\nidle = "100 ms"\ninterval = "50 ms"\n'
    problem = the_problem(study("mixed", "connections = 1", short))
    assert problem.what == "an idle phase of 100 ms is too short for samples of 50 ms"
    assert problem.line == 6


@pytest.mark.parametrize(
    ("levels", "shaper", "what"),
    [
        ('link_queue = "5 ms"', "tbf", "without a link_rate"),
        ('link_queue = "fq_codel"\nlink_rate = ["none", "1 Gbit/s"]', "tbf", "without a link_rate"),
        ('link_queue = "5 ms"\nlink_rate = "1 Gbit/s"', "htb", "its own counts packets"),
    ],
)
def test_a_queue_needs_a_link_whose_shaper_can_have_it(levels: str, shaper: str, what: str) -> None:
    problem = the_problem(study("mixed", levels, f'[testbed]\nshaper = "{shaper}"\n'))
    assert what in problem.what and problem.line == 4


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_treatment_is_completed_by_factors_of_its_own_workload(workload: str) -> None:
    assert all(workload in FACTORS[name].workloads for name in complete_levels({}, workload))


@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_each_factor_is_taken_or_told_by_every_workload_and_lab(workload: str, lab: str) -> None:
    testbed = f'[testbed]\nlab = "{lab}"\n'
    if lab == HOSTS:
        testbed += '[[testbed.host]]\nname = "s"\niperf3 = "::1"\n'
    for factor in FACTORS.values():
        for example in factor.examples:
            try:
                parse_study(study(workload, f"{factor.name} = {example}", testbed), None)
            except StudyError as error:
                assert all(problem.fix for problem in error.problems)


@pytest.mark.parametrize(
    ("workload", "factors", "what"),
    [
        ("tcp_stream", 'socket_buffer = "1 MiB"', "socket_buffer with transport = vsock"),
        ("tcp_stream", 'pacing_rate = "1 Gbit/s"', "pacing_rate with transport = vsock"),
        ("tcp_rr", 'waiting = "busy_poll"', "there is no adapter to poll"),
        ("tcp_crr", 'request_size = "1 B"', "connections are counted over TCP only"),
    ],
)
def test_vsock_is_not_asked_for_what_only_tcp_has(workload: str, factors: str, what: str) -> None:
    head = f'title = "x"\nworkload = "{workload}"\n[testbed]\nlab = "qemu"\n[factors]\n'
    guest = 'transport = "vsock"\nrole = "guest-to-host"\n'
    with pytest.raises(StudyError) as caught:
        parse_study(f"{head}{guest}{factors}\n", None)
    (problem,) = caught.value.problems
    assert what in problem.what
    if workload != "tcp_crr":
        assert parse_study(head + guest, None)
