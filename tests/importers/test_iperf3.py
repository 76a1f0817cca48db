"""What no whole log shows of how iperf3's are read: rounding, beginnings and ends, its many forms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import pytest

from tests.importers.test_logs import LOGS
from vnetbench.importers.command_line import find_command
from vnetbench.importers.endpoint_matching import match_endpoint_runs
from vnetbench.importers.log_parser import LogItem, UnrecognizedLines, parse_log
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.runs import FORWARD, REVERSE, ReportedValue, Run
from vnetbench.importers.tools.iperf3 import READERS
from vnetbench.importers.tools.iperf3.options import asked_by

pytestmark = pytest.mark.pure

CONNECTING = "Connecting to host 10.0.0.1, port 5201"
CONNECTED = "[  5] local 10.0.0.2 port 40000 connected to 10.0.0.1 port 5201"
HEADER = "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd"
INTERVAL = "[  5]   0.00-1.00   sec  1.62 GBytes  13.9 Gbits/sec    0   3.12 MBytes       "
SEPARATOR = "- - - - - - - - - - - - - - - - - - - - - - - - -"
SUMMARY = "[ ID] Interval           Transfer     Bitrate         Retr"
SENDER = "[  5]   0.00-1.00   sec  1.62 GBytes  13.9 Gbits/sec    3             sender"
RECEIVER = "[  5]   0.00-1.02   sec  1.61 GBytes  13.6 Gbits/sec                  receiver"
CLIENT = (CONNECTING, CONNECTED, HEADER, INTERVAL, SEPARATOR, SUMMARY, SENDER, RECEIVER, "", "iperf Done.")


def items_of(*lines: str) -> list[LogItem]:
    return list(parse_log(lines, READERS))


def run_of(*lines: str) -> Run:
    (run,) = items_of(*lines)
    assert isinstance(run, Run)
    return run


def changed(lines: Sequence[str], *, without: str = "", **replaced: str) -> list[str]:
    """Lines of a run with others in their place: `changed(CLIENT, RECEIVER="…")`."""
    names = {name: globals()[name] for name in replaced}
    found = [next((replaced[n] for n, line in names.items() if line == each), each) for each in lines]
    return [line for line in found if line != without]


def test_a_figure_may_be_all_that_rounds_to_it() -> None:
    run = run_of(*CLIENT)

    assert astuple(run.metrics["goodput_bps"]) == pytest.approx((13.6e9, 13.55e9, 13.65e9))
    (interval,) = run.intervals
    gbyte = 2**30
    ends = (1.62 * gbyte, 1.615 * gbyte, 1.625 * gbyte)
    assert astuple(interval.values["bytes"]) == pytest.approx(ends)
    assert interval.values["retransmits"] == ReportedValue.exact(0)


@pytest.mark.parametrize(
    ("printed", "bits_per_s"),
    [
        ("13900000 Kbits/sec", 13.9e9),
        ("0.01 Tbits/sec", 10e9),
        (" 810 MBytes/sec", 810 * 2**20 * 8),
        ("1.51 GBytes/sec", 1.51 * 2**30 * 8),
        ("0.00 bits/sec", 0),
    ],
)
def test_units_of_bits_are_of_1000_and_those_of_bytes_of_1024(printed: str, bits_per_s: float) -> None:
    run = run_of(*changed(CLIENT, RECEIVER=RECEIVER.replace("13.6 Gbits/sec", printed)))

    assert run.metrics["goodput_bps"].value == pytest.approx(bits_per_s)


def test_a_summary_of_no_time_has_no_rate() -> None:
    run = run_of(*changed(CLIENT, RECEIVER=RECEIVER.replace("13.6 Gbits/sec", "-nan bits/sec")))

    assert run.failure == "cut off"


def test_intervals_after_an_omitted_part_go_on_in_time() -> None:
    omitted = INTERVAL.rstrip() + "       (omitted)"
    run = run_of(*CLIENT[:3], omitted, omitted.replace("0.00-1.00", "1.00-2.00"), *CLIENT[3:])

    assert [(x.start_s, x.end_s, x.is_omitted) for x in run.intervals] == [
        (0, 1, True),
        (1, 2, True),
        (2, 3, False),
    ]
    assert run.omitted_s == 2


def test_streams_have_the_times_of_their_sum() -> None:
    rows = [
        "[  5]   0.00-1.00   sec   800 MBytes  6.71 Gbits/sec    0   3.12 MBytes       ",
        "[  7]   0.00-1.01   sec   800 MBytes  6.71 Gbits/sec    0   3.12 MBytes       ",
        "[SUM]   0.00-1.00   sec  1.56 GBytes  13.4 Gbits/sec    0             ",
    ]
    run = run_of(*CLIENT[:3], *rows)

    assert [(x.stream, x.start_s, x.end_s) for x in run.intervals] == [(5, 0, 1), (7, 0, 1), (None, 0, 1)]


def test_a_run_without_an_end_and_with_zeros_for_the_receiver_was_interrupted() -> None:
    zeros = RECEIVER.replace("1.61 GBytes  13.6 Gbits/sec", "0.00 Bytes  0.00 bits/sec")

    assert run_of(*changed(CLIENT, RECEIVER=zeros)[:-2]).failure == "cut off"
    assert run_of(*CLIENT[:-2]).failure == ""
    assert run_of(*changed(CLIENT, RECEIVER=zeros)).metrics["goodput_bps"].value == 0


def test_an_error_before_a_whole_run_is_that_of_another_one() -> None:
    error = "iperf3: error - unable to connect to server: Connection refused"
    failed, whole = items_of(error, *CLIENT)
    (cut,) = items_of(error, *CLIENT[:4])

    assert isinstance(failed, Run) and isinstance(whole, Run) and isinstance(cut, Run)
    assert (failed.first_line, failed.last_line, failed.failure) == (1, 1, error.removeprefix("iperf3: "))
    assert (whole.first_line, whole.last_line, whole.failure) == (2, 11, "")
    assert (cut.first_line, cut.failure, len(cut.intervals)) == (1, error.removeprefix("iperf3: "), 1)


@pytest.mark.parametrize("first", [1, 2, 5])
def test_an_excerpt_begins_where_it_can_be_known(first: int) -> None:
    run = run_of(*CLIENT[first:])

    assert (run.failure, run.metrics["goodput_bps"].value) == ("", 13.6e9)


def test_a_syslogs_prefix_does_no_harm() -> None:
    run = run_of(*(f"Nov 21 21:20:32 host iperf3[123]: {line}" for line in CLIENT))

    assert (run.failure, run.remarks, len(run.intervals)) == ("", (), 1)


def test_what_else_stands_in_the_middle_is_told_with_its_line() -> None:
    parameters = ["send_parameters:", "{", '\t"tcp":\ttrue', "}"]
    run = run_of(CLIENT[0], *parameters, *CLIENT[1:4], "[  5]   1.00-2.00   sec  1.6", *CLIENT[4:])

    assert run.failure == ""
    assert run.remarks == ("lines in it that were not understood: 5, the first is 2",)


def test_what_follows_a_run_is_not_taken() -> None:
    run, rest = items_of(*CLIENT[:4], "# uptime", " 21:20:32 up 17:23", *["more"] * 40, INTERVAL)

    assert isinstance(run, Run) and (run.last_line, run.failure) == (4, "cut off")
    assert isinstance(rest, UnrecognizedLines) and rest.first_line == 5


def test_a_server_that_waits_in_vain_is_no_run() -> None:
    line = "-" * 59
    waiting = [line, "Server listening on 5201 (test #1)", line]

    assert items_of(*waiting, "iperf3: interrupt - the server has terminated") == []
    assert items_of("iperf 3.12 (cJSON 1.7.15)", "Linux host", "Optional features available: SCTP") == []


def test_a_datagrams_loss_that_nobody_knows_is_absent() -> None:
    header = "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams"
    sent = "[  5]   0.00-1.00   sec  1.19 MBytes  9.99 Mbits/sec  0.000 ms  0/862 (0%)  sender"
    arrived = "[  5]   0.00-1.00   sec  1.18 MBytes  9.90 Mbits/sec  0.011 ms  Unknown/862  receiver"
    run = run_of(CONNECTING, CONNECTED, header, SEPARATOR, header, sent, arrived, "", "iperf Done.")

    assert set(run.metrics) == {"goodput_bps", "datagrams_sent_per_s", "jitter_us"}


@pytest.mark.parametrize(
    ("options", "factors"),
    [
        ("-P 4 -R", {"streams": 4, "direction": "reverse"}),
        ("--parallel=8 --bidir", {"streams": 8, "direction": "both"}),
        ("-l 64K -w 1M", {"message_size": 65536, "socket_buffer": 2**20}),
        ("-b 1G", {"pacing_rate": 10**9}),
        ("-b 0 --fq-rate 2.5g", {"pacing_rate": 2.5 * 10**9}),
        ("-u -b 10M/32 -l 1200", {"bit_rate": 10**7, "datagram_size": 1200}),
        ("-u", {"bit_rate": 2**20}),
        ("-6 -C bbr -Z --skip-rx-copy", {"congestion_control": "bbr", "send_mode": "sendfile"}),
        ("-A 0,2 -M 1400 -N", {"thread_cpus": "0/2", "label_set_mss": "1400", "label_no_delay": "on"}),
    ],
)
def test_options_are_levels_of_factors(options: str, factors: dict[str, Any]) -> None:
    command = find_command(f"$ iperf3 -c 10.0.0.1 {options}", ["iperf3"])
    assert command is not None and (asked := asked_by(command)) is not None

    assert factors.items() <= asked.factors.items()
    assert not asked.also


def test_an_option_that_is_out_of_range_is_kept_as_it_stands() -> None:
    command = find_command("$ iperf3 -c 10.0.0.1 -u -l 4 -P 5000", ["iperf3"])
    assert command is not None and (asked := asked_by(command)) is not None

    assert asked.also == {"--length": "4", "--parallel": "5000"}
    assert not {"datagram_size", "streams"} & set(asked.factors)


def both_ways(*streams: dict[str, Any]) -> dict[str, Any]:
    """A document as 3.7 writes it: both ways' sums have one name, so the last of them alone is left."""
    told = [{"start": 0, "end": 1, "seconds": 1, "bits_per_second": 8 * x["bytes"], **x} for x in streams]
    ends = [{"sender": each, "receiver": each} for each in told]
    return {
        "start": {
            "version": "iperf 3.7",
            "connecting_to": {},
            "test_start": {"protocol": "TCP", "num_streams": 1, "blksize": 131072, "reverse": 0},
        },
        "intervals": [{"streams": told, "sum": told[-1]}],
        "end": {"streams": ends, "sum_received": told[-1], "cpu_utilization_percent": {"host_total": 5}},
    }


def test_both_ways_are_told_apart_where_their_sums_have_one_name() -> None:
    document = both_ways({"bytes": 1000, "sender": True}, {"bytes": 3000, "sender": False})
    run = run_of(json.dumps(document))

    assert run.factors["direction"] == "both"
    assert run.metrics["goodput_forward_bps"].value == 8000
    assert run.metrics["goodput_reverse_bps"].value == 24000
    assert {x.direction: x.values["bytes"].value for x in run.intervals} == {FORWARD: 1000, REVERSE: 3000}


def test_what_the_server_sent_back_stands_for_the_clients_intervals() -> None:
    document = both_ways({"bytes": 1000, "sender": True})
    document["server_output_text"] = "\n".join((HEADER.split("Retr")[0], INTERVAL[:53], SEPARATOR))
    run = run_of(json.dumps(document))

    assert [x.values["bytes"].value for x in run.intervals] == [1.62 * 2**30]
    assert "sent back" in run.remarks[0]


def test_events_after_a_command_line_have_its_factors() -> None:
    events = [
        {"event": "start", "data": both_ways({"bytes": 1, "sender": True})["start"]},
        {"event": "interval", "data": both_ways({"bytes": 1000, "sender": True})["intervals"][0]},
    ]
    run = run_of("$ iperf3 -c 10.0.0.1 -Z --json-stream", *map(json.dumps, events))

    assert (run.first_line, run.failure, run.factors["send_mode"]) == (1, "cut off", "sendfile")
    assert len(run.intervals) == 1


@pytest.mark.parametrize(("workload", "runs", "once"), [("tcp_stream", 6, 3), ("udp_stream", 4, 2)])
def test_a_client_and_its_server_tell_of_the_same_runs(workload: str, runs: int, once: int) -> None:
    found = RunStore()
    for name in ("client-3.1.log", "udp-3.1.log", "server-3.1.log"):
        found.start_log(name)
        for item in items_of(*(LOGS / "iperf3" / name).read_text().splitlines()):
            found.add_item(name, item)
    heads = found.run_summaries(workload)

    assert (len(heads), len(match_endpoint_runs(heads))) == (runs, once)
    for receiver, sender in match_endpoint_runs(heads).items():
        (here, received), (there, sent) = found.load_run(receiver), found.load_run(sender)
        assert "server-3.1.log" in (here, there) and here != there
        assert received.reported_by == "receiver" or sent.reported_by == "sender"


def test_clients_alone_are_not_taken_for_each_other() -> None:
    found = RunStore()
    for name in ("a.log", "b.log"):
        found.start_log(name)
        found.add_item(name, run_of(*CLIENT))

    assert match_endpoint_runs(found.run_summaries("tcp_stream")) == {}


def test_a_long_run_takes_little_memory() -> None:
    rows = (
        f"[  5] {x:6}.00-{x + 1}.00 sec  1.62 GBytes  13.9 Gbits/sec    0   3.12 MBytes"
        for x in range(50_000)
    )
    (run,) = parse_log((*CLIENT[:3], *rows, *CLIENT[4:]), READERS)

    assert isinstance(run, Run) and run.failure == ""
    assert len(run.intervals) == 50_000
    assert vars(run.intervals) and sum(map(_bytes, vars(run.intervals).values())) < 100 * 50_000


def _bytes(kept: object) -> int:
    return getattr(kept, "itemsize", 0) * len(kept) if hasattr(kept, "__len__") else 0
