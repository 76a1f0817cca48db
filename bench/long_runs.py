"""Make logs of long runs with many intervals, as the tools print them: nearly all lines are intervals.

`bench/tool_logs.py` makes the opposite: very many short runs. Head and end of each run are those of the
tests' logs, and the numbers of the intervals are random with a fixed seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

TEST_LOGS = Path(__file__).parents[1] / "tests" / "data" / "logs"

_SECONDS = 600
"""Length of most runs, with an interval a second."""
_STREAM_IDS = range(5, 21, 2)
"""Eight streams."""
_CLOCK_START_S = 60386.139

_RunLines = Callable[[random.Random], Iterator[str]]


def _iperf3(rng: random.Random) -> Iterator[str]:
    yield f"$ iperf3 -c 10.0.0.2 -t {_SECONDS} -P {len(_STREAM_IDS)}"
    yield "Connecting to host 10.0.0.2, port 5201"
    for stream in _STREAM_IDS:
        yield f"[{stream:3}] local 10.0.0.1 port {40000 + stream} connected to 10.0.0.2 port 5201"
    yield "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd"
    for second in range(_SECONDS):
        for stream in _STREAM_IDS:
            yield (
                _iperf3_row(rng, f"{stream:3}", second, second + 1)
                + f"   {rng.gauss(1.5, 0.2):.2f} MBytes       "
            )
        yield _iperf3_row(rng, "SUM", second, second + 1) + "             "
        yield "- - - - - - - - - - - - - - - - - - - - - - - - -"
    yield "[ ID] Interval           Transfer     Bitrate         Retr"
    for name in [*(f"{stream:3}" for stream in _STREAM_IDS), "SUM"]:
        yield f"{_iperf3_row(rng, name, 0, _SECONDS)}             sender"
        yield f"{_iperf3_row(rng, name, 0, _SECONDS, count='')}                 receiver"
    yield ""
    yield "iperf Done."


def _iperf3_row(rng: random.Random, name: str, start_s: int, end_s: int, count: str | None = None) -> str:
    gbps = rng.gauss(9.4, 0.3)
    interval = f"{start_s}.00-{end_s}.00"
    retransmits = f"{rng.randrange(40):3}" if count is None else count
    megabytes = f"{gbps * 119:4.0f} MBytes" if name != "SUM" else f"{gbps:.2f} GBytes"
    return f"[{name}] {interval:>11}  sec  {megabytes}  {gbps:.2f} Gbits/sec  {retransmits}"


def _iperf3_udp_server(rng: random.Random) -> Iterator[str]:
    yield "Server listening on 5201 (test #1)"
    yield "Accepted connection from 10.0.0.1, port 50000"
    yield "[  5] local 10.0.0.2 port 5201 connected to 10.0.0.1 port 40005"
    yield "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams"
    for second in [*range(_SECONDS), None]:
        if second is None:
            yield "- - - - - - - - - - - - - - - - - - - - - - - - -"
            yield "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams"
        interval = f"{second}.00-{second + 1}.00" if second is not None else f"0.00-{_SECONDS}.00"
        mbps, lost, total = rng.gauss(940, 3), rng.randrange(30), rng.randrange(80000, 81000)
        yield (
            f"[  5] {interval:>11}  sec   {mbps / 8.39:.0f} MBytes   {mbps:.0f} Mbits/sec"
            f"  {rng.random() / 50:.3f} ms  {lost}/{total} ({lost / total:.2%})"
            f"  {'receiver' if second is None else ''}"
        )


def _iperf2(rng: random.Random) -> Iterator[str]:
    yield f"$ iperf -c 10.0.0.2 -t {_SECONDS} -i 1 -P {len(_STREAM_IDS)}"
    yield "-" * 60
    yield "Client connecting to 10.0.0.2, TCP port 5001"
    yield "TCP window size: 4.00 MByte (default)"
    yield "-" * 60
    for stream in _STREAM_IDS:
        yield f"[{stream:3}] local 10.0.0.1 port {40000 + stream} connected with 10.0.0.2 port 5001"
    yield "[ ID] Interval       Transfer     Bandwidth"
    for second in [*range(_SECONDS), None]:
        interval = f"{second}.0000-{second + 1}.0000" if second is not None else f"0.0000-{_SECONDS}.0123"
        for name in [*(f"{stream:3}" for stream in _STREAM_IDS), "SUM"]:
            mbps = rng.gauss(941, 20)
            yield f"[{name}] {interval} sec  {mbps / 8.39:5.3g} MBytes  {mbps:5.3g} Mbits/sec"


def _iperf2_enhanced(rng: random.Random) -> Iterator[str]:
    yield f"$ iperf -c 10.0.0.2 -t {_SECONDS} -i 1 -e"
    yield "-" * 60
    yield "Client connecting to 10.0.0.2, TCP port 5001 with pid 12954 (1 flows)"
    yield "-" * 60
    yield "[  1] local 10.0.0.1%lo port 36766 connected with 10.0.0.2 port 5001 (sock=3)"
    yield "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT(var)"
    for second in [*range(_SECONDS), None]:
        interval = f"{second}.0000-{second + 1}.0000" if second is not None else f"0.0000-{_SECONDS}.0232"
        mbps = rng.gauss(941, 20)
        yield (
            f"[  1] {interval} sec  {mbps / 8.39:.3g} MBytes   {mbps:.3g} Mbits/sec  {rng.randrange(999)}/0"
            f"  {rng.randrange(20):9}      {rng.randrange(700, 800)}K/{rng.randrange(200, 2000)}"
            f"({rng.randrange(2000)}) us  {rng.randrange(20000)}"
        )


def _nuttcp(rng: random.Random) -> Iterator[str]:
    yield f"$ nuttcp -T{_SECONDS} -i1 10.0.0.2"
    for _ in range(_SECONDS):
        mbps = rng.gauss(9410, 200)
        yield f" {mbps / 8.388608:9.4f} MB /   1.00 sec = {mbps:9.4f} Mbps {rng.randrange(40):5} retrans"
    yield ""
    total = f" {9410 * _SECONDS / 8.388608:9.4f} MB / {_SECONDS}.00 sec = 9410.0000 Mbps"
    yield f"{total} 94 %TX 30 %RX 0 retrans 0.14 msRTT"


def _sockperf(rng: random.Random) -> Iterator[str]:
    lines = (TEST_LOGS / "sockperf" / "full-log.csv").read_text().splitlines()
    rows = [number for number, line in enumerate(lines) if line[:1].isdigit()]
    yield from lines[: rows[0]]
    sent_s = 2.408598264
    for packet in range(50_000):
        sent_s += rng.uniform(2e-5, 9e-5)
        rtt_us = rng.gauss(40, 5)
        yield f"{packet}, {sent_s:.9f}, {sent_s + rtt_us / 1e6:.9f}, {rtt_us:.3f}"
    yield from lines[rows[-1] + 1 :]


def _ethr(rng: random.Random) -> Iterator[str]:
    yield f"$ ethr -c 10.0.0.2 -n {len(_STREAM_IDS)} -d {_SECONDS}s"
    yield "Using destination: 10.0.0.2, ip: 10.0.0.2, port: 8888"
    for second in range(_SECONDS):
        yield "- - - - - - - - - - - - - - - - - - - - - - -"
        for name in [*map(str, _STREAM_IDS), "SUM"]:
            yield f"[{name:>5}]     TCP      {second:03}-{second + 1:03} sec     {rng.gauss(12, 0.4):.1f}G"
    yield f"Ethr done, duration: {_SECONDS}s."


def _uperf(rng: random.Random) -> Iterator[str]:
    yield "Starting 2 threads running profile:netperf ...   0.00 seconds"
    clock_ms, total = 1589482100000.1, 0
    for _ in range(20 * _SECONDS):
        clock_ms, total = clock_ms + rng.gauss(50, 1), total + rng.randrange(10**6, 10**7)
        yield f"timestamp_ms:{clock_ms:.4f} name:Txn2 nr_bytes:{total} nr_ops:{total // 65536}"
    yield f"timestamp_ms:{clock_ms:.4f} name:Total nr_bytes:{total} nr_ops:{total // 65536}"
    yield ""
    yield "Txn                Count         avg         cpu         max         min"
    yield "-" * 80
    yield f"Txn2              {total // 65536}     91.29us      0.00ns      2.20ms     50.80us"
    yield ""
    yield "Flowop             Count         avg         cpu         max         min"
    yield "-" * 80
    yield f"Write             {total // 65536}     91.29us      0.00ns      2.20ms     50.80us"


def _neper(rng: random.Random) -> Iterator[str]:
    yield "tid,flow_id,time,bytes_read,bytes_read/s,utime,stime,maxrss,minflt,majflt,nvcsw,nivcsw"
    totals = dict.fromkeys(range(len(_STREAM_IDS)), 0)
    for sample in range(10 * _SECONDS):
        for flow in totals:
            totals[flow] += rng.randrange(10**8)
            time_s = _CLOCK_START_S + sample * 0.1 + flow * 1e-5 + rng.random() * 1e-3
            rate = rng.uniform(1e7, 1e9)
            yield f"0,{flow},{time_s:.9f},{totals[flow]},{rate:.2f},0.003057,0.008579,2152,11,0,104,1"


def _netperf(rng: random.Random) -> Iterator[str]:
    yield f"$ netperf -H 10.0.0.2 -t TCP_STREAM -l {_SECONDS} -D 1"
    title = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET"
    yield f"{title} to 10.0.0.2 () port 0 AF_INET : demo"
    clock_s = 1795296201.123
    for _ in range(_SECONDS):
        length_s = rng.gauss(1.0005, 0.0002)
        clock_s += length_s
        rate = rng.gauss(9400, 30)
        yield f"Interim result: {rate:.2f} 10^6bits/s over {length_s:.3f} seconds ending at {clock_s:.3f}"
    yield "Recv   Send    Send                          "
    yield "Socket Socket  Message  Elapsed              "
    yield "Size   Size    Size     Time     Throughput  "
    yield "bytes  bytes   bytes    secs.    10^6bits/sec  "
    yield ""
    yield f"131072  16384  16384    {_SECONDS}.00     9395.25   "


def _xfr(rng: random.Random) -> Iterator[str]:
    yield " INFO Connecting to 10.0.0.2:5201..."
    yield " INFO Connected to 10.0.0.2:5201"
    for second in range(1, _SECONDS):
        gbps = rng.gauss(9.4, 0.2)
        time_s = second + rng.random() / 100
        yield f"[{time_s:.3f}]    {gbps:.1f} Gbps     {gbps / 8.6:.2f} GB  rtx: {rng.randrange(20)}"
    rule = "─" * 50
    yield from (
        rule,
        "  xfr Test Results",
        rule,
        "",
        f"  Duration:    {_SECONDS}.00s",
        "  Transfer:    656 GB",
    )
    yield from ("  Throughput:  9.4 Gbps", "", rule)


def _xfr_csv(rng: random.Random) -> Iterator[str]:
    yield "timestamp,elapsed_secs,bytes,throughput_mbps,retransmits,jitter_ms,lost,rtt_us,cwnd,bytes_sent"
    for second in range(1, _SECONDS):
        amount = rng.randrange(10**9)
        yield f"{second}.008,{second}.00,{amount},{amount * 8e-6:.2f},0,0.013,0,{rng.randrange(900)},1048576,"
    yield "test_id,duration_secs,transfer_bytes,throughput_mbps,retransmits,jitter_ms,lost,lost_percent"
    yield f"138e3477-3b73-45c3-b6e7-82281ec22388,{_SECONDS}.00,{10**11},1333.33,0,0.00,0,0.00"


def _goben_csv(rng: random.Random) -> Iterator[str]:
    yield "DIRECTION,TIME,RATE"
    for second in range(_SECONDS):
        clock = f"{second // 60:02}:{second % 60:02}.{rng.randrange(10**9):09}"
        since_start = f"{second}.{rng.randrange(10**9):09}"
        yield f"input,2026-11-23 04:{clock} +0000 UTC m=+{since_start},{rng.uniform(800, 9000):.10f}"


_RUN_LINES_BY_NAME: dict[str, _RunLines] = {
    "ethr": _ethr,
    "goben, CSV": _goben_csv,
    "iperf 2": _iperf2,
    "iperf 2 -e": _iperf2_enhanced,
    "iperf3": _iperf3,
    "iperf3, UDP": _iperf3_udp_server,
    "neper, samples": _neper,
    "netperf -D": _netperf,
    "nuttcp -i": _nuttcp,
    "sockperf, full log": _sockperf,
    "uperf -R": _uperf,
    "xfr": _xfr,
    "xfr, CSV": _xfr_csv,
}
NAMES = tuple(_RUN_LINES_BY_NAME)
"""The tools, with the form of their output where they have several."""


def write_log(path: Path, name: str, size: int) -> int:
    """Write a file of at least `size` bytes with whole runs. Return the number of the runs."""
    rng, count, written = random.Random(1), 0, 0
    with path.open("w") as file:
        while written < size:
            written += file.write("".join(f"{line}\n" for line in _RUN_LINES_BY_NAME[name](rng)))
            count += 1
    return count
