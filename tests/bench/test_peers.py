"""What the peers print, as they printed it here, and what a person reads off it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.load import Answered, Carried, agreed
from bench.peers import iperf3, neper, netperf, ntttcp, nuttcp, sockperf
from bench.programs import RunFailed, plain
from bench.testbed import KernelCounters

DATA = Path(__file__).parent / "data"
MIB = 1 << 20


def printed(name: str) -> str:
    return plain((DATA / f"{name}.txt").read_text())


def test_iperf3_tells_the_bytes_of_all_streams_that_arrived() -> None:
    assert iperf3.told_of_streams(printed("iperf3-3.12-tcp")) == (5621415936, 1.002447)
    assert iperf3.told_of_streams(printed("iperf3-3.21-tcp")) == (5169479680, 1.004172)


def test_iperf3_tells_what_was_sent_and_what_of_it_arrived() -> None:
    assert iperf3.told_of_datagrams(printed("iperf3-3.12-udp")) == (138600, 138600 - 3773, 1.000745)
    assert iperf3.told_of_datagrams(printed("iperf3-3.21-udp-gso")) == (9959936, 9959936 - 5234432, 1.001982)


def test_nuttcp_counts_in_binary_megabytes() -> None:
    assert nuttcp.told_of_streams(printed("nuttcp-6.1.2-tcp")) == (2359 * MIB, 1.0)
    assert nuttcp.told_of_datagrams(printed("nuttcp-6.1.2-udp")) == 1.0


def test_sockperf_tells_how_long_it_sent_and_its_percentiles_past_the_colours() -> None:
    assert sockperf.told_of_sending(printed("sockperf-3.7-throughput-tcp")) == 1.001
    assert sockperf.told_of_asking(printed("sockperf-3.7-ping-pong")) == Answered(87.252, 3903.330)


def test_several_netperfs_are_added_up_over_the_longest_time() -> None:
    assert netperf.told_of_streams(printed("netperf-2.7.1-two-streams")) == (89867560 + 270069800, 1.06)


def test_netperf_tells_its_percentiles() -> None:
    assert netperf.told_of_asking(printed("netperf-2.7.1-tcp-rr")) == Answered(95, 3933)


def test_neper_tells_its_seconds_and_percentiles() -> None:
    assert neper.told_of_streams(printed("neper-1.1.0-tcp-stream")) == 1
    answered = neper.told_of_asking(printed("neper-1.1.0-tcp-rr"))
    assert answered.p50_us == pytest.approx(209.910)
    assert answered.p99_us == pytest.approx(2314.230)


def test_the_receiver_of_ntttcp_tells_what_arrived() -> None:
    assert ntttcp.told_by(printed("ntttcp-1.4.3-receiver")) == (4558158744, 1.0)


def test_the_error_of_iperf3_is_the_run_s() -> None:
    with pytest.raises(RunFailed, match="unable to connect to server: Connection refused"):
        iperf3.told_of_streams(printed("iperf3-3.12-refused"))


@pytest.mark.parametrize(
    "told",
    [
        iperf3.told_of_streams,
        nuttcp.told_of_streams,
        nuttcp.told_of_datagrams,
        sockperf.told_of_sending,
        sockperf.told_of_asking,
        netperf.told_of_streams,
        netperf.told_of_asking,
        neper.told_of_streams,
        neper.told_of_asking,
        ntttcp.told_by,
    ],
)
def test_an_output_without_figures_gives_none(told: Callable[[str], object]) -> None:
    with pytest.raises(RunFailed):
        told("no route to host\n")


def test_a_tool_that_tells_more_than_came_to_the_interface_is_not_believed() -> None:
    def carried(told: float, counted: int) -> Carried:
        return Carried(told, 1.0, KernelCounters(1e9, counted, 0, 0))

    assert agreed(carried(5e9, 5_500_000_000))
    with pytest.raises(RunFailed, match=r"tells 5e\+09 bytes received.*counted 4e\+09"):
        agreed(carried(5e9, 4_000_000_000))
