"""Parsing of the peers' real output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.loads import LatencyResult, StreamResult, check_received_bytes
from bench.peers import iperf3, neper, netperf, ntttcp, nuttcp, sockperf, xfr
from bench.programs import RunFailed, strip_colors
from bench.testbed import KernelCounters

DATA = Path(__file__).parent / "data"
MIB = 1 << 20


def read_output(name: str) -> str:
    return strip_colors((DATA / f"{name}.txt").read_text())


def test_iperf3_reports_the_received_bytes_of_all_streams() -> None:
    assert iperf3.parse_received_bytes_and_seconds(read_output("iperf3-3.12-tcp")) == (5621415936, 1.002447)
    assert iperf3.parse_received_bytes_and_seconds(read_output("iperf3-3.21-tcp")) == (5169479680, 1.004172)


def test_iperf3_reports_sent_and_received_datagrams() -> None:
    assert iperf3.parse_sent_received_and_seconds(read_output("iperf3-3.12-udp")) == (
        138600,
        138600 - 3773,
        1.000745,
    )
    assert iperf3.parse_sent_received_and_seconds(read_output("iperf3-3.21-udp-gso")) == (
        9959936,
        9959936 - 5234432,
        1.001982,
    )


def test_xfr_reports_bytes_and_milliseconds_after_its_log_lines() -> None:
    assert xfr.parse_streams(read_output("xfr-0.14.0-both-directions")) == (809760484, 2.004)
    with pytest.raises(RunFailed, match="no result"):
        xfr.parse_streams("Error: connection refused")


def test_nuttcp_counts_in_binary_megabytes() -> None:
    assert nuttcp.parse_received_bytes_and_seconds(read_output("nuttcp-6.1.2-tcp")) == (2359 * MIB, 1.0)
    assert nuttcp.parse_sending_s(read_output("nuttcp-6.1.2-udp")) == 1.0


def test_sockperf_reports_its_send_time_and_percentiles_in_coloured_output() -> None:
    assert sockperf.parse_sending_s(read_output("sockperf-3.7-throughput-tcp")) == 1.001
    assert sockperf.parse_latency(read_output("sockperf-3.7-ping-pong")) == LatencyResult(87.252, 3903.330)


def test_bytes_of_several_netperf_processes_are_summed_over_the_longest_time() -> None:
    assert netperf.parse_received_bytes_and_seconds(read_output("netperf-2.7.1-two-streams")) == (
        89867560 + 270069800,
        1.06,
    )


def test_netperf_reports_percentiles() -> None:
    assert netperf.parse_latency(read_output("netperf-2.7.1-tcp-rr")) == LatencyResult(95, 3933)


def test_neper_reports_its_duration_and_percentiles() -> None:
    assert neper.parse_duration_s(read_output("neper-1.1.0-tcp-stream")) == 1
    latency = neper.parse_latency(read_output("neper-1.1.0-tcp-rr"))
    assert latency.p50_us == pytest.approx(209.910)
    assert latency.p99_us == pytest.approx(2314.230)


def test_the_receiver_of_ntttcp_reports_the_received_bytes() -> None:
    assert ntttcp.parse_bytes_and_seconds(read_output("ntttcp-1.4.3-receiver")) == (4558158744, 1.0)


def test_an_error_of_iperf3_is_the_error_of_the_run() -> None:
    with pytest.raises(RunFailed, match="unable to connect to server: Connection refused"):
        iperf3.parse_received_bytes_and_seconds(read_output("iperf3-3.12-refused"))


@pytest.mark.parametrize(
    "parse",
    [
        iperf3.parse_received_bytes_and_seconds,
        nuttcp.parse_received_bytes_and_seconds,
        nuttcp.parse_sending_s,
        sockperf.parse_sending_s,
        sockperf.parse_latency,
        netperf.parse_received_bytes_and_seconds,
        netperf.parse_latency,
        neper.parse_duration_s,
        neper.parse_latency,
        ntttcp.parse_bytes_and_seconds,
    ],
)
def test_output_without_values_is_an_error(parse: Callable[[str], object]) -> None:
    with pytest.raises(RunFailed):
        parse("no route to host\n")


def test_a_tool_that_reports_more_bytes_than_the_interface_is_an_error() -> None:
    def stream_result(reported: float, counted: int) -> StreamResult:
        return StreamResult(reported, 1.0, KernelCounters(1e9, counted, 0, 0))

    assert check_received_bytes(stream_result(5e9, 5_500_000_000))
    with pytest.raises(RunFailed, match=r"reports 5e\+09 received bytes.*counted 4e\+09"):
        check_received_bytes(stream_result(5e9, 4_000_000_000))
