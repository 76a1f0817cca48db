"""Cases of iperf3's output that no complete log covers: rounding, starts, ends, and its many formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import pytest

from tests.importers.test_logs import LOGS
from vnetbench.importers.command_line import find_command_line
from vnetbench.importers.endpoint_matching import match_sender_runs_to_receiver_runs
from vnetbench.importers.log_parser import LogItem, UnrecognizedSection, parse_log
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.runs import CUT_OFF_FAILURE, RoundedValue, Run
from vnetbench.importers.tools.iperf3 import READERS
from vnetbench.importers.tools.iperf3.options import parse_client_command
from vnetbench.study.factors.directions import FORWARD, REVERSE

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


def parse_lines(*lines: str) -> list[LogItem]:
    return list(parse_log(lines, READERS))


def parse_run(*lines: str) -> Run:
    (run,) = parse_lines(*lines)
    assert isinstance(run, Run)
    return run


def change_lines(lines: Sequence[str], *, without: str = "", **replaced: str) -> list[str]:
    """Return the lines of a run with some replaced: `change_lines(CLIENT, RECEIVER="…")`."""
    names = {name: globals()[name] for name in replaced}
    store = [next((replaced[n] for n, line in names.items() if line == each), each) for each in lines]
    return [line for line in store if line != without]


def test_a_value_has_the_range_that_rounds_to_it() -> None:
    run = parse_run(*CLIENT)

    assert astuple(run.metrics["goodput_bps"]) == pytest.approx((13.6e9, 13.55e9, 13.65e9))
    (interval,) = run.intervals
    gbyte = 2**30
    ends = (1.62 * gbyte, 1.615 * gbyte, 1.625 * gbyte)
    assert astuple(interval.values["bytes"]) == pytest.approx(ends)
    assert interval.values["retransmits"] == RoundedValue.exact(0)


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
def test_bit_units_are_powers_of_1000_and_byte_units_powers_of_1024(printed: str, bits_per_s: float) -> None:
    run = parse_run(*change_lines(CLIENT, RECEIVER=RECEIVER.replace("13.6 Gbits/sec", printed)))

    assert run.metrics["goodput_bps"].value == pytest.approx(bits_per_s)


def test_a_summary_without_duration_has_no_rate() -> None:
    run = parse_run(*change_lines(CLIENT, RECEIVER=RECEIVER.replace("13.6 Gbits/sec", "-nan bits/sec")))

    assert run.failure == CUT_OFF_FAILURE


def test_intervals_after_omitted_ones_continue_their_time() -> None:
    omitted = INTERVAL.rstrip() + "       (omitted)"
    run = parse_run(*CLIENT[:3], omitted, omitted.replace("0.00-1.00", "1.00-2.00"), *CLIENT[3:])

    assert [(x.start_s, x.end_s, x.is_omitted) for x in run.intervals] == [
        (0, 1, True),
        (1, 2, True),
        (2, 3, False),
    ]
    assert run.omitted_s == 2


def test_streams_get_the_times_of_their_sum() -> None:
    rows = [
        "[  5]   0.00-1.00   sec   800 MBytes  6.71 Gbits/sec    0   3.12 MBytes       ",
        "[  7]   0.00-1.01   sec   800 MBytes  6.71 Gbits/sec    0   3.12 MBytes       ",
        "[SUM]   0.00-1.00   sec  1.56 GBytes  13.4 Gbits/sec    0             ",
    ]
    run = parse_run(*CLIENT[:3], *rows)

    assert [(x.stream_number, x.start_s, x.end_s) for x in run.intervals] == [
        (5, 0, 1),
        (7, 0, 1),
        (None, 0, 1),
    ]


def test_a_run_without_end_and_with_zeros_for_the_receiver_was_interrupted() -> None:
    zeros = RECEIVER.replace("1.61 GBytes  13.6 Gbits/sec", "0.00 Bytes  0.00 bits/sec")

    assert parse_run(*change_lines(CLIENT, RECEIVER=zeros)[:-2]).failure == CUT_OFF_FAILURE
    assert parse_run(*CLIENT[:-2]).failure == ""
    assert parse_run(*change_lines(CLIENT, RECEIVER=zeros)).metrics["goodput_bps"].value == 0


def test_an_error_before_a_complete_run_is_a_separate_run() -> None:
    error = "iperf3: error - unable to connect to server: Connection refused"
    failed, complete = parse_lines(error, *CLIENT)
    (cut,) = parse_lines(error, *CLIENT[:4])

    assert isinstance(failed, Run) and isinstance(complete, Run) and isinstance(cut, Run)
    assert (failed.first_line, failed.last_line, failed.failure) == (1, 1, error.removeprefix("iperf3: "))
    assert (complete.first_line, complete.last_line, complete.failure) == (2, 11, "")
    assert (cut.first_line, cut.failure, len(cut.intervals)) == (1, error.removeprefix("iperf3: "), 1)


@pytest.mark.parametrize("first", [1, 2, 5])
def test_an_excerpt_is_read_from_the_first_line_that_identifies_it(first: int) -> None:
    run = parse_run(*CLIENT[first:])

    assert (run.failure, run.metrics["goodput_bps"].value) == ("", 13.6e9)


def test_a_syslog_prefix_is_ignored() -> None:
    run = parse_run(*(f"Nov 21 21:20:32 host iperf3[123]: {line}" for line in CLIENT))

    assert (run.failure, run.remarks, len(run.intervals)) == ("", (), 1)


def test_foreign_lines_within_a_run_are_remarked_with_their_line() -> None:
    parameters = ["send_parameters:", "{", '\t"tcp":\ttrue', "}"]
    run = parse_run(CLIENT[0], *parameters, *CLIENT[1:4], "[  5]   1.00-2.00   sec  1.6", *CLIENT[4:])

    assert run.failure == ""
    assert run.remarks == ("The run has 5 unreadable lines. The first is line 2.",)


def test_lines_after_a_run_do_not_belong_to_it() -> None:
    run, rest = parse_lines(*CLIENT[:4], "# uptime", " 21:20:32 up 17:23", *["more"] * 40, INTERVAL)

    assert isinstance(run, Run) and (run.last_line, run.failure) == (4, CUT_OFF_FAILURE)
    assert isinstance(rest, UnrecognizedSection) and rest.first_line == 5


def test_a_server_without_clients_is_not_a_run() -> None:
    line = "-" * 59
    waiting = [line, "Server listening on 5201 (test #1)", line]

    assert parse_lines(*waiting, "iperf3: interrupt - the server has terminated") == []
    assert parse_lines("iperf 3.12 (cJSON 1.7.15)", "Linux host", "Optional features available: SCTP") == []


def test_unknown_datagram_loss_is_absent() -> None:
    header = "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams"
    sent = "[  5]   0.00-1.00   sec  1.19 MBytes  9.99 Mbits/sec  0.000 ms  0/862 (0%)  sender"
    arrived = "[  5]   0.00-1.00   sec  1.18 MBytes  9.90 Mbits/sec  0.011 ms  Unknown/862  receiver"
    run = parse_run(CONNECTING, CONNECTED, header, SEPARATOR, header, sent, arrived, "", "iperf Done.")

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
def test_options_become_factor_levels(options: str, factors: dict[str, Any]) -> None:
    command = find_command_line(f"$ iperf3 -c 10.0.0.1 {options}", ["iperf3"])
    assert command is not None and (requested := parse_client_command(command)) is not None

    assert factors.items() <= requested.factors.items()
    assert not requested.options_without_valid_level


def test_an_option_out_of_range_is_kept_as_another_result() -> None:
    command = find_command_line("$ iperf3 -c 10.0.0.1 -u -l 4 -P 5000", ["iperf3"])
    assert command is not None and (requested := parse_client_command(command)) is not None

    assert requested.options_without_valid_level == {"--length": "4", "--parallel": "5000"}
    assert not {"datagram_size", "streams"} & set(requested.factors)


def bidirectional_document(*streams: dict[str, Any]) -> dict[str, Any]:
    """Return a document of 3.7.

    The sums of both directions have the same name there, so only the last one is left.
    """
    streams_data = [
        {"start": 0, "end": 1, "seconds": 1, "bits_per_second": 8 * x["bytes"], **x} for x in streams
    ]
    ends = [{"sender": each, "receiver": each} for each in streams_data]
    return {
        "start": {
            "version": "iperf 3.7",
            "connecting_to": {},
            "test_start": {"protocol": "TCP", "num_streams": 1, "blksize": 131072, "reverse": 0},
        },
        "intervals": [{"streams": streams_data, "sum": streams_data[-1]}],
        "end": {
            "streams": ends,
            "sum_received": streams_data[-1],
            "cpu_utilization_percent": {"host_total": 5},
        },
    }


def test_directions_are_separated_if_their_sums_have_one_name() -> None:
    document = bidirectional_document({"bytes": 1000, "sender": True}, {"bytes": 3000, "sender": False})
    run = parse_run(json.dumps(document))

    assert run.factors["direction"] == "both"
    assert run.metrics["goodput_forward_bps"].value == 8000
    assert run.metrics["goodput_reverse_bps"].value == 24000
    assert {x.direction: x.values["bytes"].value for x in run.intervals} == {FORWARD: 1000, REVERSE: 3000}


def test_intervals_that_the_server_sent_back_replace_the_clients() -> None:
    document = bidirectional_document({"bytes": 1000, "sender": True})
    document["server_output_text"] = "\n".join((HEADER.split("Retr")[0], INTERVAL[:53], SEPARATOR))
    run = parse_run(json.dumps(document))

    assert [x.values["bytes"].value for x in run.intervals] == [1.62 * 2**30]
    assert "server's output" in run.remarks[0]


def test_events_behind_a_command_line_have_its_factors() -> None:
    events = [
        {"event": "start", "data": bidirectional_document({"bytes": 1, "sender": True})["start"]},
        {
            "event": "interval",
            "data": bidirectional_document({"bytes": 1000, "sender": True})["intervals"][0],
        },
    ]
    run = parse_run("$ iperf3 -c 10.0.0.1 -Z --json-stream", *map(json.dumps, events))

    assert (run.first_line, run.failure, run.factors["send_mode"]) == (1, CUT_OFF_FAILURE, "sendfile")
    assert len(run.intervals) == 1


@pytest.mark.parametrize(("workload", "runs", "once"), [("tcp_stream", 6, 3), ("udp_stream", 4, 2)])
def test_runs_of_a_client_and_its_server_are_matched(workload: str, runs: int, once: int) -> None:
    store = RunStore()
    for name in ("client-3.1.log", "udp-3.1.log", "server-3.1.log"):
        store.start_log(name)
        for item in parse_lines(*(LOGS / "iperf3" / name).read_text().splitlines()):
            store.add_item(name, item)
    summaries = store.run_summaries(workload)

    assert (len(summaries), len(match_sender_runs_to_receiver_runs(summaries))) == (runs, once)
    for receiver, sender in match_sender_runs_to_receiver_runs(summaries).items():
        (here, received), (there, sent) = (
            store.load_log_name_and_run(receiver),
            store.load_log_name_and_run(sender),
        )
        assert "server-3.1.log" in (here, there) and here != there
        assert received.reported_by == "receiver" or sent.reported_by == "sender"


def test_runs_of_two_clients_are_not_matched() -> None:
    store = RunStore()
    for name in ("a.log", "b.log"):
        store.start_log(name)
        store.add_item(name, parse_run(*CLIENT))

    assert match_sender_runs_to_receiver_runs(store.run_summaries("tcp_stream")) == {}


def test_a_long_run_needs_little_memory() -> None:
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
