"""Causes in guests: what they share on their host, and what their adapters are told."""

from __future__ import annotations

from bench.corpus.disturb.quota import THROTTLED, quota
from bench.corpus.disturb.shaped import shaped
from bench.corpus.disturb.spinning import SPUN, spinning
from bench.corpus.proof import all_of, anything, carries, falls, tells
from bench.corpus.recipe import Levels, Recipe, doses
from vnetbench.study.workloads import UDP_STREAM, TCP_RR

GUESTS = ("virtio-net", "e1000e", "vmxnet3")
COUNTS = (1, 2, 4, 3)


def _streams(count: int) -> Levels:
    return {"streams": count}


RECIPES = (
    Recipe(
        ("sender_cpu",),
        "guests as fast as they go",
        doses(COUNTS, "{} streams", _streams),
        GUESTS,
        anything,
        accepted=("receiver_cpu", "receive_processing", "shared_with_packets"),
        is_wrong=False,
        repeats=2,
    ),
    Recipe(
        ("nothing",),
        "guests, datagrams at a rate",
        doses(("5 Mbit/s", "10 Mbit/s", "20 Mbit/s", "15 Mbit/s"), "{}", lambda rate: {"bit_rate": rate}),
        GUESTS,
        carries(0.99),
        workload=UDP_STREAM,
        levels={"datagram_size": "1472 B", "pacing": "sleep"},
        is_wrong=False,
        repeats=2,
    ),
    Recipe(
        ("request_response",),
        "guests, one at a time",
        doses(
            ("1 B", "256 B", "1 KiB", "600 B"),
            "{}",
            lambda size: {"request_size": size, "response_size": size},
        ),
        GUESTS,
        anything,
        workload=TCP_RR,
        is_wrong=False,
        repeats=2,
    ),
    Recipe(
        ("shared_by_vms",),
        "vCPUs on one CPU",
        doses(COUNTS, "{} streams", lambda count: {"streams": count, "vcpu_pin": "1"}),
        GUESTS,
        falls(0.15),
        control={"vcpu_pin": "1/2"},
    ),
    Recipe(
        ("shared_with_packets",),
        "QEMU's thread on the vCPU's CPU",
        doses(COUNTS, "{} streams", lambda count: {"streams": count, "emulator_pin": "own"}),
        GUESTS,
        falls(0.05),
        control={"emulator_pin": "apart"},
    ),
    Recipe(
        ("cpu_quota",),
        "QEMU's",
        doses((0.6, 0.45, 0.3, 0.4), "{} of a CPU", disturb=lambda cpus: quota("b1", cpus)),
        GUESTS,
        all_of(falls(0.1), tells(THROTTLED, 0.1)),
        accepted=("steal",),
    ),
    Recipe(
        ("link_full",),
        "tbf at the guest's port",
        doses((2e8, 1e8, 2e7, 5e7), "{:g} bit/s", disturb=shaped),
        GUESTS,
        falls(0.15),
    ),
    Recipe(
        ("segmentation_off",),
        "the guests' TSO and GSO off",
        doses(COUNTS, "{} streams", lambda count: {"streams": count, "tso": "off", "gso": "off"}),
        GUESTS,
        falls(0.1),
        control={"tso": "on", "gso": "on"},
    ),
    Recipe(
        ("aggregation_off",),
        "the guests' GRO off",
        doses(COUNTS, "{} streams", lambda count: {"streams": count, "gro": "off"}),
        ("e1000e", "vmxnet3"),
        falls(0.1),
        control={"gro": "on"},
    ),
    Recipe(
        ("small_messages",),
        "guests, small calls",
        doses(("512 B", "256 B", "64 B", "128 B"), "messages of {}", lambda size: {"message_size": size}),
        GUESTS,
        falls(0.2),
        control={"message_size": "1 MiB"},
    ),
    Recipe(
        ("machine_busy",),
        "processes beside guests",
        doses((8, 16, 24, 12), "{} processes", disturb=spinning),
        GUESTS,
        all_of(falls(0.1), tells(SPUN, 2)),
        accepted=("shared_by_vms",),
    ),
)
