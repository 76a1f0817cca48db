"""Causes in guests: shared resources of their host, and settings of their adapters."""

from __future__ import annotations

from bench.corpus.disturbances.busy_processes import SPUN_CPU_S, busy_processes
from bench.corpus.disturbances.cpu_quota import THROTTLED_S, vm_cpu_quota
from bench.corpus.disturbances.shaped_links import shaped_links
from bench.corpus.effect_checks import (
    accept_any,
    require_all,
    require_disturbance_value,
    require_slowdown,
    require_speed_share,
)
from bench.corpus.scenario import Levels, Scenario, make_strengths
from vnetbench.study.workloads import TCP_RR, UDP_STREAM

GUESTS = ("virtio-net", "e1000e", "vmxnet3")
COUNTS = (1, 2, 4, 3)


def _streams(count: int) -> Levels:
    return {"streams": count}


RECIPES = (
    Scenario(
        ("sender_cpu",),
        "guests as fast as they go",
        make_strengths(COUNTS, "{} streams", _streams),
        GUESTS,
        accept_any,
        accepted_causes=("receiver_cpu", "receive_processing", "shared_with_packets"),
        has_fault=False,
        repeat_count=2,
    ),
    Scenario(
        ("nothing",),
        "guests, datagrams at a rate",
        make_strengths(
            ("5 Mbit/s", "10 Mbit/s", "20 Mbit/s", "15 Mbit/s"), "{}", lambda rate: {"bit_rate": rate}
        ),
        GUESTS,
        require_speed_share(0.99),
        workload=UDP_STREAM,
        levels={"datagram_size": "1472 B", "pacing": "sleep"},
        has_fault=False,
        repeat_count=2,
    ),
    Scenario(
        ("request_response",),
        "guests, one at a time",
        make_strengths(
            ("1 B", "256 B", "1 KiB", "600 B"),
            "{}",
            lambda size: {"request_size": size, "response_size": size},
        ),
        GUESTS,
        accept_any,
        workload=TCP_RR,
        has_fault=False,
        repeat_count=2,
    ),
    Scenario(
        ("shared_by_vms",),
        "vCPUs on one CPU",
        make_strengths(COUNTS, "{} streams", lambda count: {"streams": count, "vcpu_pin": "1"}),
        GUESTS,
        require_slowdown(0.15),
        control_levels={"vcpu_pin": "1/2"},
    ),
    Scenario(
        ("shared_with_packets",),
        "QEMU's thread on the vCPU's CPU",
        make_strengths(COUNTS, "{} streams", lambda count: {"streams": count, "emulator_pin": "own"}),
        GUESTS,
        require_slowdown(0.05),
        control_levels={"emulator_pin": "apart"},
    ),
    Scenario(
        ("cpu_quota",),
        "QEMU's",
        make_strengths(
            (0.6, 0.45, 0.3, 0.4), "{} of a CPU", disturbance=lambda cpus: vm_cpu_quota("b1", cpus)
        ),
        GUESTS,
        require_all(require_slowdown(0.1), require_disturbance_value(THROTTLED_S, 0.1)),
        accepted_causes=("steal",),
    ),
    Scenario(
        ("link_full",),
        "tbf at the guest's port",
        make_strengths((2e8, 1e8, 2e7, 5e7), "{:g} bit/s", disturbance=shaped_links),
        GUESTS,
        require_slowdown(0.15),
    ),
    Scenario(
        ("segmentation_off",),
        "the guests' TSO and GSO off",
        make_strengths(COUNTS, "{} streams", lambda count: {"streams": count, "tso": "off", "gso": "off"}),
        GUESTS,
        require_slowdown(0.1),
        control_levels={"tso": "on", "gso": "on"},
    ),
    Scenario(
        ("aggregation_off",),
        "the guests' GRO off",
        make_strengths(COUNTS, "{} streams", lambda count: {"streams": count, "gro": "off"}),
        ("e1000e", "vmxnet3"),
        require_slowdown(0.1),
        control_levels={"gro": "on"},
    ),
    Scenario(
        ("small_messages",),
        "guests, small calls",
        make_strengths(
            ("512 B", "256 B", "64 B", "128 B"), "messages of {}", lambda size: {"message_size": size}
        ),
        GUESTS,
        require_slowdown(0.2),
        control_levels={"message_size": "1 MiB"},
    ),
    Scenario(
        ("machine_busy",),
        "processes beside guests",
        make_strengths((8, 16, 24, 12), "{} processes", disturbance=busy_processes),
        GUESTS,
        require_all(require_slowdown(0.1), require_disturbance_value(SPUN_CPU_S, 2)),
        accepted_causes=("shared_by_vms",),
    ),
)
