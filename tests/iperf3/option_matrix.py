"""The option matrix: sets of iperf3 options, and the checks of both JSON documents of a test."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]

# A stock server stops reading when the test ends: the tests that must deliver all data last longer than that.
TCP_OPTIONS = (
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
UDP_OPTIONS = (
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

SUFFIX_FACTORS = {"K": 1 << 10, "M": 1 << 20}
SLACK_BYTES = 1 << 20
"""Number of bytes that a stock client may send beyond -n: a block of each stream."""
MAX_RATE_DIFFERENCE = 0.5
"""A sender that has waited for a CPU catches up, and may do so in the omitted time of one host only."""
MAX_DELAY_S = 30.0
"""Maximum delay of the end on a busy machine."""


@dataclass(frozen=True)
class OptionSet:
    """The options of one test, as on iperf3's command line."""

    text: str

    def has(self, option: str) -> bool:
        """Return whether the option is present."""
        return option in self.text.split()

    def value(self, option: str, default: str = "0") -> str:
        """Return the value of an option."""
        words = self.text.split()
        return words[words.index(option) + 1] if option in words else default

    def byte_count(self, option: str) -> int:
        """Return the value of an option as a number; a suffix K or M is a power of 1024."""
        text = self.value(option)
        return int(text[:-1]) * SUFFIX_FACTORS[text[-1]] if text[-1] in SUFFIX_FACTORS else int(text)


@dataclass(frozen=True)
class Iperf3Outcome:
    """The results of client and server after one test."""

    client_code: int
    client: Document
    server: Document
    client_errors: str = ""


def check_outcome(options: OptionSet, outcome: Iperf3Outcome, *, is_our_server: bool) -> None:
    """Check bytes, intervals and exit code; our program is the server if `is_our_server`, else the client."""
    client, server = outcome.client, outcome.server
    assert (outcome.client_code, client.get("error")) == (0, None), outcome.client_errors or client
    assert server.get("error") is None
    assert client["start"]["cookie"] == server["start"]["cookie"]
    _check_bytes(options, client["end"], server["end"], is_our_server)
    if options.has("--bidir"):
        _check_bidirectional_bytes(options, client["end"], server["end"], is_our_server)
    _check_end(options, client["end"], client["intervals"])
    ours = server if is_our_server else client
    _check_intervals(options, client)
    _check_intervals(options, ours)
    _check_parameters(options, client, server)
    for host in ("host", "remote"):
        assert client["end"]["cpu_utilization_percent"][f"{host}_total"] >= 0


def _check_bytes(options: OptionSet, client: Document, server: Document, is_our_server: bool) -> None:
    sent, received = client["sum_sent"]["bytes"], client["sum_received"]["bytes"]
    assert sent > 0
    assert received > 0
    is_reverse = options.has("-R")
    # Each host shows the counts that its peer reported.
    if is_our_server:
        assert server["sum_sent"]["bytes"] == sent
        assert server["sum_received"]["bytes"] == received
    else:
        local = server["sum_sent" if is_reverse else "sum_received"]["bytes"]
        assert local == (sent if is_reverse else received)
    if options.has("-O"):
        # Each host omits by its own clock, perhaps late, so only their rates are alike.
        rates = [client[name]["bytes"] / client[name]["seconds"] for name in ("sum_sent", "sum_received")]
        assert math.isclose(*rates, rel_tol=MAX_RATE_DIFFERENCE)
        return
    assert received <= sent
    if not options.has("-u") and is_our_server and not is_reverse and not options.has("--bidir"):
        # The server waits until all data has arrived.
        assert received == sent


def _check_bidirectional_bytes(
    options: OptionSet, client: Document, server: Document, is_our_server: bool
) -> None:
    sent, received = (client[f"sum_{role}_bidir_reverse"]["bytes"] for role in ("sent", "received"))
    # The other direction may end the test before any data arrives in this one.
    assert 0 <= received <= sent
    if is_our_server:
        assert server["sum_sent_bidir_reverse"]["bytes"] == sent
        assert server["sum_received_bidir_reverse"]["bytes"] == received


def _check_end(options: OptionSet, client: Document, intervals: list[Document]) -> None:
    """Check that the test ends at its end condition."""
    local = client["sum_received" if options.has("-R") else "sum_sent"]
    if options.has("-t"):
        duration_s = float(options.value("-t"))
        # A late end of the omitted time leaves less for the rest.
        omitted_s = sum(each["sum"]["seconds"] for each in intervals if each["sum"]["omitted"])
        late_s = max(0.0, omitted_s - float(options.value("-O")))
        assert duration_s * 0.9 - late_s <= local["seconds"] <= duration_s + MAX_DELAY_S
        return
    block = options.byte_count("-l") or (131_072 if not options.has("-u") else 0)
    expected_bytes = options.byte_count("-n") or options.byte_count("-k") * block
    # A stock client counts every receive call as a block, whatever its size. In a bidirectional test the
    # faster direction ends the test.
    if not options.has("--bidir") and not (options.has("-k") and options.has("-R")):
        assert local["bytes"] >= expected_bytes
    if not options.has("-R"):
        streams = int(options.value("-P", "1"))
        assert local["bytes"] <= expected_bytes + streams * max(block, 65_536) + SLACK_BYTES


def _check_intervals(options: OptionSet, document: Document) -> None:
    intervals = document["intervals"]
    kept = [interval["sum"] for interval in intervals if not interval["sum"]["omitted"]]
    omitted_count = len(intervals) - len(kept)
    assert (omitted_count >= 1) == options.has("-O")
    assert all(interval["streams"] for interval in intervals)
    # The intervals have no gaps, and their bytes add up to the total.
    assert kept[0]["start"] < 0.2
    for before, after in itertools.pairwise(kept):
        assert math.isclose(before["end"], after["start"], abs_tol=0.05)
    is_sender = kept[0]["sender"]
    total = document["end"]["sum_sent" if is_sender else "sum_received"]["bytes"]
    assert sum(interval["bytes"] for interval in kept) == total
    if options.has("-t") and document["start"].get("connecting_to"):
        interval_s = float(options.value("-i", "1"))
        interval_count = round(float(options.value("-t")) / interval_s)
        assert len(kept) <= interval_count + 1
        # Interval ends are missing only if the machine was too busy for them.
        longest_s = max(interval["seconds"] for interval in kept)
        assert len(kept) >= interval_count or longest_s > 1.25 * interval_s
    if options.has("-u") and is_sender:
        sizes = {round(i["bytes"] / i["packets"]) for i in kept if i["packets"]}
        assert len(sizes) == 1


def _check_parameters(options: OptionSet, client: Document, server: Document) -> None:
    start = client["start"]["test_start"]
    assert start["protocol"] == ("UDP" if options.has("-u") else "TCP")
    assert start["num_streams"] == int(options.value("-P", "1"))
    if options.has("-t"):
        assert start["duration"] == float(options.value("-t"))
    directions = 2 if options.has("--bidir") else 1
    assert len(client["end"]["streams"]) == len(server["end"]["streams"]) == directions * start["num_streams"]
    if options.has("-C"):
        assert client["end"]["sender_tcp_congestion"] == options.value("-C")
    if options.has("-w"):
        assert server["start"]["sock_bufsize"] == options.byte_count("-w")
    if options.has("--get-server-output"):
        assert json.dumps(client["server_output_json"]["end"]["sum_received"])
    if options.has("-u"):
        _check_loss(options, client["end"])


def _check_loss(options: OptionSet, end: Document) -> None:
    total = end["sum"]
    assert total["packets"] > 0
    assert 0 <= total["lost_packets"] <= total["packets"]
    assert 0 <= total["jitter_ms"] < 1000
    for counts in (end["sum_sent"], end["sum_received"]):
        assert counts["packets"] > 0
    assert math.isclose(total["lost_percent"], 100 * total["lost_packets"] / total["packets"], abs_tol=0.01)
