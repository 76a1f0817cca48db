"""The factors of frames that are made and counted at the endpoints' interfaces."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.frame_sizes import IMIX, MAX_FRAME_BYTES, MIN_FRAME_BYTES
from vnetbench.study.workloads import CONSTANT_LOAD_WORKLOADS, FRAME_LATENCY, FRAME_WORKLOADS, SOAK

UNPACED_LOAD = "max"
"""The level of `frame_load` that leaves it to the generator."""

FRAME_FACTORS = (
    Factor(
        "frame_size",
        value_types.integers(MIN_FRAME_BYTES, MAX_FRAME_BYTES, IMIX, unit="B"),
        "B",
        MIN_FRAME_BYTES,
        "Bytes of a frame from its destination address to its frame check sequence, as RFC 2544 counts them: "
        "64 are the smallest (with IPv6 84, with each VLAN tag 4 more), and those are sent where none is "
        "named; 1518 fill an MTU of 1500, and larger ones raise an `mtu` that is not named. `imix`: of "
        "twelve frames seven of 64 bytes, four of 570 and one of 1518, the simple Internet mix (FD.io CSIT's "
        "IMIX_v4_1).",
        ('"64, 128, 256, 512, 1024, 1280, 1518"', '[64, "imix"]'),
        FRAME_WORKLOADS,
    ),
    Factor(
        "frame_load",
        value_types.frame_loads(1, 10**9, UNPACED_LOAD),
        "frame/s",
        UNPACED_LOAD,
        "The load offered in each direction of each pair. A rate; `max`: as fast as the generator goes; of "
        "`frame_latency` and `soak` also a share of the throughput, which is searched first in every trial. "
        "Not together with `[search]` of `frames`, which chooses the loads.",
        ('["100 kframe/s", "1 Mframe/s"]', '["50 %", "90 %", "100 %"]'),
        CONSTANT_LOAD_WORKLOADS,
        workload_defaults={FRAME_LATENCY: "100 %", SOAK: "100 %"},
    ),
    Factor(
        "flows",
        value_types.integers(1, 1_000_000),
        "1",
        1,
        "Flows that each generator CPU sends in turn: they differ in their UDP ports, so that receive-side "
        "scaling spreads them.",
        ('"1, 100, 10000"', "[1, 1000000]"),
        FRAME_WORKLOADS,
    ),
    Factor(
        "generators",
        value_types.integers(1, 64),
        "1",
        1,
        "CPUs that generate frames, in each direction of each pair. Which, `thread_cpus` says.",
        ("[1, 2]", "2"),
        FRAME_WORKLOADS,
    ),
    Factor(
        "vlan_tags",
        value_types.integers(0, 2),
        "1",
        0,
        "VLAN tags of every frame (two: IEEE 802.1ad).",
        ("[0, 1]", "2"),
        FRAME_WORKLOADS,
    ),
)
