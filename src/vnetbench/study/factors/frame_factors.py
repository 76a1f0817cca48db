"""Factors of the frame workloads, whose frames are generated and counted at the endpoints' interfaces."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.frame_sizes import (
    ETHERNET_OVERHEAD_BYTES,
    IMIX,
    MAX_FRAME_BYTES,
    MIN_FRAME_BYTES,
    MIN_FRAME_BYTES_BY_IP_VERSION,
    VLAN_TAG_BYTES,
    parse_frame_mix,
)
from vnetbench.study.factors.testbed_factors import IP_VERSION
from vnetbench.study.model import Level
from vnetbench.study.workloads import (
    FRAME_LATENCY,
    FRAME_WORKLOAD_NAMES,
    NAMES_OF_WORKLOADS_WITH_FRAME_LOAD,
    SOAK,
)

UNPACED_LOAD = "max"
"""Level of `frame_load` at which the generator sends as fast as it can."""

FRAME_SIZE = Factor(
    "frame_size",
    value_types.integers(MIN_FRAME_BYTES, MAX_FRAME_BYTES, IMIX, unit="B"),
    unit="B",
    default=MIN_FRAME_BYTES,
    description="Bytes of a frame from its destination address to its frame check sequence, as RFC 2544 "
    "counts them. The default is the smallest: 64 bytes (IPv6: 84), and 4 more for each VLAN tag. "
    "1518 bytes fill an MTU of 1500. Larger frames raise `mtu` if the study does not name it. `imix`: "
    "of twelve frames, seven have 64 bytes, four have 570 and one has 1518 (the simple Internet mix, "
    "IMIX_v4_1 of FD.io CSIT).",
    examples=('"64, 128, 256, 512, 1024, 1280, 1518"', '[64, "imix"]'),
    workloads=FRAME_WORKLOAD_NAMES,
    phrase_template="frames of {}",
)

FRAME_LOAD = Factor(
    "frame_load",
    value_types.frame_rates_or_throughput_shares(1, 10**9, UNPACED_LOAD),
    unit="frame/s",
    default=UNPACED_LOAD,
    description="Offered load in each direction of each pair. A frame rate, or `max`: as fast as the "
    "generator can send. With `frame_latency` and `soak`, it can also be a share of the throughput, such "
    "as `90 %`; every trial then searches the throughput first. Cannot be combined with the `[search]` "
    "of `frames`, which chooses the loads.",
    examples=('["100 kframe/s", "1 Mframe/s"]', '["50 %", "90 %", "100 %"]'),
    workloads=NAMES_OF_WORKLOADS_WITH_FRAME_LOAD,
    workload_defaults={FRAME_LATENCY: "100 %", SOAK: "100 %"},
    phrase_template="load {}",
)

FLOWS_PER_GENERATOR = Factor(
    "flows",
    value_types.integers(1, 1_000_000),
    unit="1",
    default=1,
    description="Number of flows that each generator CPU sends in turn. Flows differ in their UDP ports, "
    "so that "
    "receive-side scaling distributes them.",
    examples=('"1, 100, 10000"', "[1, 1000000]"),
    workloads=FRAME_WORKLOAD_NAMES,
    counted_noun="flow",
    agent_parameter="flows",
)

GENERATORS_PER_DIRECTION = Factor(
    "generators",
    value_types.integers(1, 64),
    unit="1",
    default=1,
    description="Number of CPUs that generate frames in each direction of each pair. `thread_cpus` names "
    "them.",
    examples=("[1, 2]", "2"),
    workloads=FRAME_WORKLOAD_NAMES,
    counted_noun="generator",
    is_stream_count=True,
)

VLAN_TAGS = Factor(
    "vlan_tags",
    value_types.integers(0, 2),
    unit="1",
    default=0,
    description="Number of VLAN tags of every frame (two: IEEE 802.1ad).",
    examples=("[0, 1]", "2"),
    workloads=FRAME_WORKLOAD_NAMES,
    label="VLAN tags",
    counted_noun="VLAN tag",
)

FRAME_FACTORS = (
    FRAME_SIZE, FRAME_LOAD, FLOWS_PER_GENERATOR, GENERATORS_PER_DIRECTION, VLAN_TAGS,
)  # fmt: skip


def compute_smallest_frame_bytes(levels: Mapping[str, Level]) -> int:
    """Return the bytes of the smallest frame with a treatment's IP version and VLAN tags."""
    tags = int(VLAN_TAGS.read_level(levels))
    return MIN_FRAME_BYTES_BY_IP_VERSION[str(IP_VERSION.read_level(levels))] + VLAN_TAG_BYTES * tags


def compute_largest_packet_bytes(levels: Mapping[str, Level]) -> int:
    """Return the bytes of the IP packet in the largest frame of a treatment: the MTU that it needs.

    Linux accepts frames that are one VLAN tag longer (xdp_ok_fwd_dev in net/core/filter.c), so only a second
    tag counts.
    """
    largest = max(size for size, _ in parse_frame_mix(levels[FRAME_SIZE.name]))
    return largest - ETHERNET_OVERHEAD_BYTES - VLAN_TAG_BYTES * min(1, int(VLAN_TAGS.read_level(levels)))
