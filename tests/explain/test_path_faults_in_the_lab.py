"""Faults on the path that somebody else causes with tc and nft: their cause is named first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.explain.faulty_campaigns import Fault, Moment, measure_with_fault, run_in
from tests.quiet import quiet_machine_required
from vnetbench.explain.explain import explain

pytestmark = pytest.mark.lab
STUDY = """\
title = "Faults"
question = "How fast is it?"
workload = "{workload}"

[factors]
{levels}

[timing]
duration = "{duration}"

[precision]
half_width = "0.1 %"
min_trials = 3
max_trials = 3
"""


def shape(namespace: str, interface: str, rate: str) -> None:
    run_in(
        namespace, "tc", "qdisc", "replace", "dev", interface, "root", "tbf", "rate", rate, "burst", "5k",
        "latency", "50ms",
    )  # fmt: skip


def drop(namespace: str, *match: str, one_in: int) -> None:
    """Drop a random share of the arriving packets that match."""
    run_in(namespace, "nft", "add", "table", "inet", "outsider")
    hook = "{ type filter hook input priority 0; policy accept; }"
    run_in(namespace, "nft", "add", "chain", "inet", "outsider", "drop_some", hook)
    rule = (*match, "numgen", "random", "mod", str(one_in), "==", "0", "drop")
    run_in(namespace, "nft", "add", "rule", "inet", "outsider", "drop_some", *rule)


def shape_acks(namespaces: dict[str, str]) -> None:
    shape(namespaces["b1"], "eth0", "64kbit")


def shape_acks_at_port(namespaces: dict[str, str]) -> None:
    shape(namespaces["sw"], "a1", "64kbit")


def shape_data_at_port(namespaces: dict[str, str]) -> None:
    shape(namespaces["sw"], "b1", "300mbit")


def lose_datagrams(namespaces: dict[str, str]) -> None:
    drop(namespaces["b1"], "udp", "length", ">", "500", one_in=100)


def lose_connection_requests(namespaces: dict[str, str]) -> None:
    drop(namespaces["b1"], "tcp", "flags", "&", "(syn|ack)", "==", "syn", one_in=50)


def lose_segments(namespaces: dict[str, str]) -> None:
    drop(namespaces["b1"], "tcp", "flags", "&", "syn", "==", "0", one_in=100)


def split_packets_at_port(namespaces: dict[str, str]) -> None:
    run_in(namespaces["sw"], "ethtool", "-K", "b1", "tso", "off", "gso", "off")


def add_rules(namespaces: dict[str, str]) -> None:
    rules = "\n".join(f"ip saddr 203.0.{i // 250}.{i % 250} drop" for i in range(3000))
    hook = "type filter hook input priority 0; policy accept;"
    text = f"table inet outsider {{\nchain many {{\n{hook}\n{rules}\n}}\n}}\n"
    command = ["ip", "netns", "exec", namespaces["b1"], "nft", "-f", "-"]
    subprocess.run(command, input=text, text=True, check=True)


def shape_what_arrives(namespaces: dict[str, str]) -> None:
    """Redirect what arrives at the receiver to an interface with a shaper, which no sample reads."""
    receiver = namespaces["b1"]
    for command in (
        "ip link add shaped0 type ifb",
        "ip link set shaped0 up",
        "tc qdisc add dev shaped0 root tbf rate 300mbit burst 64k latency 20ms",
        "tc qdisc add dev eth0 ingress",
        "tc filter add dev eth0 ingress protocol all u32 match u32 0 0 "
        "action mirred egress redirect dev shaped0",
    ):
        run_in(receiver, *command.split())


def shorten_queue(namespaces: dict[str, str]) -> None:
    shaper = "tc qdisc add dev eth0 root tbf rate 1gbit burst 66kb limit 4000"
    run_in(namespaces["a1"], *shaper.split())


def duplicate_packets(namespaces: dict[str, str]) -> None:
    """Send a copy of every second packet to its receiver."""
    sender = namespaces["a1"]
    address = subprocess.run(
        ["ip", "netns", "exec", namespaces["b1"], "ip", "-4", "-o", "address", "show", "dev", "eth0"],
        capture_output=True, text=True, check=True,
    ).stdout.split()[3].partition("/")[0]  # fmt: skip
    run_in(sender, "nft", "add", "table", "ip", "outsider")
    hook = "{ type filter hook postrouting priority 0; policy accept; }"
    run_in(sender, "nft", "add", "chain", "ip", "outsider", "copy", hook)
    rule = f"meta l4proto tcp numgen random mod 2 == 0 dup to {address} device eth0"
    run_in(sender, "nft", "add", "rule", "ip", "outsider", "copy", *rule.split())


def police_datagrams(namespaces: dict[str, str]) -> None:
    """Drop what exceeds a rate at the switch. The datagrams of the load have 2 MB/s.

    The kernel's bucket holds what the rate allows in one second, so nothing is lost at first.
    """
    run_in(namespaces["sw"], "nft", "add", "table", "bridge", "outsider")
    hook = "{ type filter hook forward priority 0; policy accept; }"
    run_in(namespaces["sw"], "nft", "add", "chain", "bridge", "outsider", "police", hook)
    rule = "limit rate over 1000 kbytes/second drop"
    run_in(namespaces["sw"], "nft", "add", "rule", "bridge", "outsider", "police", *rule.split())


CASES = [
    ("tcp_stream", "streams = 1", "1 s", shape_acks, "ack_path_limited"),
    ("tcp_stream", "streams = 1", "1 s", shape_acks_at_port, "ack_path_limited"),
    ("tcp_stream", "streams = 1", "1 s", shape_data_at_port, "link_full"),
    ("tcp_stream", "streams = 1", "1 s", shape_what_arrives, "link_full"),
    ("tcp_stream", "streams = 4", "1 s", shorten_queue, "overflow"),
    ("tcp_stream", "streams = 1", "1 s", duplicate_packets, "duplicates"),
    ("tcp_stream", "streams = 1", "1 s", split_packets_at_port, "offload_off_on_path"),
    ("tcp_stream", "streams = 1", "1 s", add_rules, "packet_filtering"),
    ("udp_stream", 'rate = "2 k/s"\ndatagram_size = "1000 B"', "2 s", lose_datagrams, "path_loss"),
    ("udp_stream", 'rate = "2 k/s"\ndatagram_size = "1000 B"', "5 s", police_datagrams, "policer"),
    ("tcp_crr", "connections = 4", "5 s", lose_connection_requests, "connection_setup_loss"),
    ("tcp_rr", "connections = 4", "2 s", lose_segments, "path_loss"),
]


@pytest.mark.parametrize(("workload", "levels", "duration", "fault", "cause"), CASES)
def test_the_cause_of_a_fault_from_outside_is_named_first(
    tmp_path: Path, workload: str, levels: str, duration: str, fault: Fault, cause: str
) -> None:
    study = STUDY.format(workload=workload, levels=levels, duration=duration)
    # Other programs and their packets limit the load too, and rightly come first where they limit it more.
    with quiet_machine_required():
        # The fault precedes the first trial and stays on the testbed.
        summary = measure_with_fault(tmp_path, study, fault, {0}, Moment.BEFORE_LOAD)
        finding = next(each for each in explain(summary).findings if each.kind != "failed")
        assert finding.details["cause"] == cause, finding.text
    if fault is shape_acks_at_port:
        assert "port a1 towards a1, which carries the acknowledgements, tbf" in finding.text
    if fault is shape_what_arrives:
        assert "interface shaped0 of b1, tbf" in finding.text
    if fault is shape_data_at_port:
        assert "port b1 towards b1, which carries the data, tbf" in finding.text
