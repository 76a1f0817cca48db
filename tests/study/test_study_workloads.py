"""Workloads in a study: their factors, their deciding metrics, and their contradictions."""

from __future__ import annotations

import pytest

from tests.study.test_study_load import only_problem
from vnetbench.campaign.agent_parameters import common_prepare_parameters
from vnetbench.estimate.metrics import METRICS
from vnetbench.report.charts.frame_charts import ADDITIONAL_CHARTS_BY_NAME
from vnetbench.study.factors.registry import FACTORS, complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import HOSTS, LABS
from vnetbench.study.model import Level
from vnetbench.study.problems import StudyError
from vnetbench.study.workloads import WORKLOADS, Workload, choose_deciding_metric


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
def test_a_factor_of_another_workload_is_reported_with_the_equivalent_factor(
    workload: str, factor: str, nearest: str
) -> None:
    problem = only_problem(study(workload, factor))
    name = factor.split(" ")[0]
    assert problem.what == f"{name} is not a factor of the workload {workload}"
    assert problem.fix.startswith(f'did you mean "{nearest}"?')
    assert problem.study_line == 4


def test_a_factor_of_another_workload_on_the_command_line_is_reported() -> None:
    problem = only_problem(study("tcp_stream", "mtu = 1500"), "waiting=spin")
    assert problem.what == "waiting is not a factor of the workload tcp_stream"
    assert problem.where == "--set waiting=spin"


def test_an_unknown_workload_is_answered_with_the_nearest_name() -> None:
    assert 'did you mean "tcp_crr"?' in only_problem(study("tcp_cr", "mtu = 1500")).fix


def test_connections_have_neither_a_rate_nor_a_way_of_waiting() -> None:
    for factor in ('rate = "1 k/s"', 'waiting = "spin"'):
        assert only_problem(study("tcp_crr", factor)).study_line == 4


def test_busy_polling_cannot_be_combined_with_a_rate_or_mptcp() -> None:
    both = 'waiting = ["spin", "busy_poll"]\nrate = ["none", "1 k/s"]'
    over_mptcp = 'waiting = ["spin", "busy_poll"]\ntransport = "mptcp"'
    assert "does not poll for MPTCP sockets" in only_problem(study("tcp_rr", over_mptcp)).what
    assert "waiting = busy_poll cannot be combined with a rate" in only_problem(study("tcp_rr", both)).what
    left_out = '[[exclude]]\nwaiting = "busy_poll"\nrate = "1 k/s"\n'
    parse_study(study("tcp_rr", both, left_out), None)


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        ('rate = "1 k/s"\nbit_rate = "1 Mbit/s"', "bit_rate cannot be combined with rate"),
        ('bit_rate = "1 Mbit/s"\nudp_gso = "on"', "udp_gso = on cannot be combined with bit_rate"),
        ('fragments = "on"\nudp_gso = "on"', "fragments = on is not possible with udp_gso = on"),
        ('pacing = ["spin", "sleep"]', "pacing = sleep needs a rate"),
    ],
)
def test_contradicting_datagram_levels_are_reported(factors: str, what: str) -> None:
    assert what in only_problem(study("udp_stream", factors)).what


@pytest.mark.parametrize(
    ("levels", "rate_per_s"),
    [({}, None), ({"rate": 1000}, 1000.0), ({"bit_rate": 10**6, "datagram_size": 125}, 1000.0)],
)
def test_a_bit_rate_counts_payload_bits(levels: dict[str, Level], rate_per_s: float | None) -> None:
    parameters = common_prepare_parameters("udp_stream", complete_levels(levels, "udp_stream"))
    assert parameters["rate_per_s"] == rate_per_s


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
def test_each_workload_has_a_deciding_metric(workload: str, factor: str, metric: str) -> None:
    assert choose_deciding_metric(parse_study(study(workload, factor), None)) == metric


def test_a_study_can_name_another_metric_of_its_workload() -> None:
    text = study("tcp_rr", "connections = 1", '[precision]\nmetric = "latency_p50_us"\n')
    assert choose_deciding_metric(parse_study(text, None)) == "latency_p50_us"
    problem = only_problem(text.replace("latency_p50_us", "goodput_bps"))
    assert problem.what == "the workload tcp_rr does not measure goodput_bps"
    assert problem.study_line == 6


def test_mixed_has_the_factors_of_requests_and_transfers_and_a_default_rate() -> None:
    levels = complete_levels({}, "mixed")
    assert {"streams", "message_size", "connections", "request_size", "waiting"} <= levels.keys()
    assert (levels["rate"], complete_levels({}, "tcp_rr")["rate"]) == (1000.0, "none")


def test_the_connections_of_mixed_count_as_streams() -> None:
    problem = only_problem(study("mixed", 'connections = [24, 25]\nstreams = 500\ndirection = "both"\n'))
    assert problem.study_line == 4
    assert "25 connections with 500 forward and 500 reverse transfers" in problem.what
    parse_study(study("mixed", 'connections = 24\nstreams = 500\ndirection = "both"\n'), None)


def test_only_mixed_has_an_idle_phase_of_at_least_three_intervals() -> None:
    problem = only_problem(study("tcp_rr", "connections = 1", '[timing]\nidle = "1 s"\n'))
    assert problem.what == "the workload tcp_rr has no idle phase"
    short = '[timing]\nidle = "100 ms"\ninterval = "50 ms"\n'
    problem = only_problem(study("mixed", "connections = 1", short))
    assert problem.what == "an idle phase of 100 ms is too short for samples of 50 ms"
    assert problem.study_line == 6


@pytest.mark.parametrize(
    ("levels", "shaper", "what"),
    [
        ('link_queue = "5 ms"', "tbf", "needs a link_rate"),
        ('link_queue = "fq_codel"\nlink_rate = ["none", "1 Gbit/s"]', "tbf", "needs a link_rate"),
        ('link_queue = "5 ms"\nlink_rate = "1 Gbit/s"', "htb", "whose queue counts packets"),
    ],
)
def test_a_link_queue_needs_a_link_rate_and_a_suitable_shaper(levels: str, shaper: str, what: str) -> None:
    problem = only_problem(study("mixed", levels, f'[testbed]\nshaper = "{shaper}"\n'))
    assert what in problem.what and problem.study_line == 4


@pytest.mark.parametrize("workload", WORKLOADS)
def test_defaults_are_of_factors_of_the_workload(workload: str) -> None:
    assert all(workload in FACTORS[name].workloads for name in complete_levels({}, workload))


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_a_workload_names_factors_metrics_and_charts_that_exist(workload: Workload) -> None:
    factors = (workload.size_factor, workload.count_factor, *workload.offered_load_factors)
    assert all(FACTORS[name].has_workload(workload.name) for name in factors)
    defaults = {workload.deciding_metric_at_fixed_rate, workload.deciding_metric_without_search} - {""}
    assert defaults <= set(workload.deciding_metrics)
    assert {*workload.deciding_metrics, workload.achieved_rate_metric} - {""} <= set(METRICS)
    assert set(workload.additional_chart_names) <= set(ADDITIONAL_CHARTS_BY_NAME)


@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_and_lab_accepts_each_factor_or_reports_a_fix(workload: str, lab: str) -> None:
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
        ("tcp_stream", 'socket_buffer = "1 MiB"', "socket_buffer is not possible with transport = vsock"),
        ("tcp_stream", 'pacing_rate = "1 Gbit/s"', "pacing_rate is not possible with transport = vsock"),
        ("tcp_rr", 'waiting = "busy_poll"', "which has no adapter to poll"),
        ("tcp_crr", 'request_size = "1 B"', "which measures connections over TCP only"),
    ],
)
def test_tcp_settings_with_vsock_are_reported(workload: str, factors: str, what: str) -> None:
    head = f'title = "x"\nworkload = "{workload}"\n[testbed]\nlab = "qemu"\n[factors]\n'
    guest = 'transport = "vsock"\nrole = "guest-to-host"\n'
    with pytest.raises(StudyError) as caught:
        parse_study(f"{head}{guest}{factors}\n", None)
    (problem,) = caught.value.problems
    assert what in problem.what
    if workload != "tcp_crr":
        assert parse_study(head + guest, None)
