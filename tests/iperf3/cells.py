"""The matrix: what is asked of a test, and what both sides' documents must then say."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]

# A stock server stops reading when it is told of the end: what is to arrive at one takes longer than that.
TCP = (
    "-n 32M",
    "-n 4M -R",
    "-n 64M --bidir",
    "-n 64M -P 4",
    "-n 8M -P 4 -R",
    "-n 64M -P 3 --bidir",
    "-n 64M -P 40",
    "-k 400",
    "-k 40 -R",
    "-k 8000 -P 2 -l 4K",
    "-t 1",
    "-t 1 -R",
    "-t 1 --bidir",
    "-t 1 -b 20M",
    "-t 1 -b 20M -R",
    "-t 1 -b 20M/10 -l 4K",
    "-t 1 -b 10M -P 2 --bidir",
    "-t 1 -O 1 -b 50M",
    "-t 1 -O 1 -b 50M -R",
    "-t 1 -i 0.25 -b 40M -l 8K",
    "-t 1 -i 0.25 -b 40M -l 8K -R",
    "-n 8M -l 1000",
    "-n 1M -l 1000 -R",
    "-n 64M -l 1M",
    "-n 32M -w 100K",
    "-n 4M -w 64K -R",
    "-n 16M -M 1000",
    "-n 2M -M 600 -R",
    "-n 32M -C cubic",
    "-n 4M -C reno -R",
    "-n 32M -N -S 32 -T named",
    "-n 2M --repeating-payload -R",
    "-n 32M --get-server-output",
    "-n 4M -R --get-server-output",
)
UDP = (
    "-u -n 400K",
    "-u -n 400K -R",
    "-u -k 30",
    "-u -k 30 -R -l 1000",
    "-u -t 1 -b 5M",
    "-u -t 1 -b 5M -R",
    "-u -t 1 -b 5M --bidir",
    "-u -t 1 -b 5M -P 3",
    "-u -t 1 -b 5M -P 3 -R",
    "-u -t 1 -b 5M -P 2 --bidir -l 1200",
    "-u -t 1 -b 5M -l 200",
    "-u -t 1 -b 5M/20 -l 1000 -R",
    "-u -t 1 -O 1 -b 5M -l 1000",
    "-u -t 1 -O 1 -b 5M -l 1000 -R",
    "-u -t 1 -b 5M --udp-counters-64bit",
    "-u -t 1 -b 5M --udp-counters-64bit -R",
    "-u -n 400K -w 200K --get-server-output",
    "-u -t 1 -i 0.2 -b 5M -l 1000",
)

SUFFIX = {"K": 1 << 10, "M": 1 << 20}
SLACK_BYTES = 1 << 20
"""What a stock client may send beyond -n: a block of each stream."""
LATE_S = 5.0
"""What a full machine may delay an end by; without -t a test takes 10 s."""


@dataclass(frozen=True)
class Cell:
    """One command line, as iperf3 reads it."""

    line: str

    def has(self, option: str) -> bool:
        return option in self.line.split()

    def value(self, option: str, default: str = "0") -> str:
        words = self.line.split()
        return words[words.index(option) + 1] if option in words else default

    def count(self, option: str) -> int:
        text = self.value(option)
        return int(text[:-1]) * SUFFIX[text[-1]] if text[-1] in SUFFIX else int(text)


@dataclass(frozen=True)
class Outcome:
    """Both sides of one cell when they have ended."""

    client_code: int
    client: Document
    server: Document
    client_errors: str = ""


def check(cell: Cell, outcome: Outcome, *, ours_serves: bool) -> None:
    """Bytes, intervals and exit code; `ours_serves` else ours is the client."""
    client, server = outcome.client, outcome.server
    assert (outcome.client_code, client.get("error")) == (0, None), outcome.client_errors or client
    assert server.get("error") is None
    assert client["start"]["cookie"] == server["start"]["cookie"]
    _check_bytes(cell, client["end"], server["end"], ours_serves)
    if cell.has("--bidir"):
        _check_reverse_of_both(cell, client["end"], server["end"], ours_serves)
    _check_end(cell, client["end"])
    ours = server if ours_serves else client
    _check_intervals(cell, client)
    _check_intervals(cell, ours)
    _check_settings(cell, client, server)
    for side in ("host", "remote"):
        assert client["end"]["cpu_utilization_percent"][f"{side}_total"] >= 0


def _check_bytes(cell: Cell, client: Document, server: Document, ours_serves: bool) -> None:
    sent, received = client["sum_sent"]["bytes"], client["sum_received"]["bytes"]
    assert sent > 0
    assert received > 0
    reverse = cell.has("-R")
    # What a side has counted itself is what the other one shows for it.
    if ours_serves:
        assert server["sum_sent"]["bytes"] == sent
        assert server["sum_received"]["bytes"] == received
    else:
        own = server["sum_sent" if reverse else "sum_received"]["bytes"]
        assert own == (sent if reverse else received)
    if cell.has("-O"):
        # Each side leaves out by its own clock.
        assert math.isclose(sent, received, rel_tol=0.25)
        return
    assert received <= sent
    if not cell.has("-u") and ours_serves and not reverse and not cell.has("--bidir"):
        # All that was sent has come: the server waits for it.
        assert received == sent


def _check_reverse_of_both(cell: Cell, client: Document, server: Document, ours_serves: bool) -> None:
    sent, received = (client[f"sum_{way}_bidir_reverse"]["bytes"] for way in ("sent", "received"))
    # The other direction may have ended the test before anything came in this one.
    assert 0 <= received <= sent
    if ours_serves:
        assert server["sum_sent_bidir_reverse"]["bytes"] == sent
        assert server["sum_received_bidir_reverse"]["bytes"] == received


def _check_end(cell: Cell, client: Document) -> None:
    """The test ends when it is to."""
    own = client["sum_received" if cell.has("-R") else "sum_sent"]
    if cell.has("-t"):
        asked = float(cell.value("-t"))
        assert asked * 0.9 <= own["seconds"] <= asked + LATE_S
        return
    block = cell.count("-l") or (131_072 if not cell.has("-u") else 0)
    least = cell.count("-n") or cell.count("-k") * block
    # A stock client counts what a call brought as a block, however little it was; in both directions at once
    # whichever is first ends the test.
    if not cell.has("--bidir") and not (cell.has("-k") and cell.has("-R")):
        assert own["bytes"] >= least
    if not cell.has("-R"):
        streams = int(cell.value("-P", "1"))
        assert own["bytes"] <= least + streams * max(block, 65_536) + SLACK_BYTES


def _check_intervals(cell: Cell, document: Document) -> None:
    intervals = document["intervals"]
    kept = [interval["sum"] for interval in intervals if not interval["sum"]["omitted"]]
    left_out = len(intervals) - len(kept)
    assert (left_out >= 1) == cell.has("-O")
    assert all(interval["streams"] for interval in intervals)
    # They follow one another without a gap, and their bytes are the total.
    assert kept[0]["start"] < 0.2
    for before, after in itertools.pairwise(kept):
        assert math.isclose(before["end"], after["start"], abs_tol=0.05)
    sends = kept[0]["sender"]
    total = document["end"]["sum_sent" if sends else "sum_received"]["bytes"]
    assert sum(interval["bytes"] for interval in kept) == total
    if cell.has("-t") and document["start"].get("connecting_to"):
        every = float(cell.value("-i", "1"))
        whole = round(float(cell.value("-t")) / every)
        assert whole <= len(kept) <= whole + 1
    if cell.has("-u") and sends:
        sizes = {round(i["bytes"] / i["packets"]) for i in kept if i["packets"]}
        assert len(sizes) == 1


def _check_settings(cell: Cell, client: Document, server: Document) -> None:
    start = client["start"]["test_start"]
    assert start["protocol"] == ("UDP" if cell.has("-u") else "TCP")
    assert start["num_streams"] == int(cell.value("-P", "1"))
    both = 2 if cell.has("--bidir") else 1
    assert len(client["end"]["streams"]) == len(server["end"]["streams"]) == both * start["num_streams"]
    if cell.has("-C"):
        assert client["end"]["sender_tcp_congestion"] == cell.value("-C")
    if cell.has("-w"):
        assert server["start"]["sock_bufsize"] == cell.count("-w")
    if cell.has("--get-server-output"):
        assert json.dumps(client["server_output_json"]["end"]["sum_received"])
    if cell.has("-u"):
        _check_loss(cell, client["end"])


def _check_loss(cell: Cell, end: Document) -> None:
    whole = end["sum"]
    assert whole["packets"] > 0
    assert 0 <= whole["lost_packets"] <= whole["packets"]
    assert 0 <= whole["jitter_ms"] < 1000
    sent, received = end["sum_sent"], end["sum_received"]
    for counted in (sent, received):
        assert counted["packets"] > 0
    if cell.has("-O"):
        assert math.isclose(sent["packets"], received["packets"], rel_tol=0.25)
    assert math.isclose(whole["lost_percent"], 100 * whole["lost_packets"] / whole["packets"], abs_tol=0.01)
