"""Causes in the packets: too many, too large for a hop, lost in a queue, or all in one queue."""

from __future__ import annotations

from bench.corpus.disturbances.knobs import endpoint_knobs, port_knobs, uplink_knobs
from bench.corpus.disturbances.mtu_black_hole import mtu_black_hole
from bench.corpus.disturbances.sysctls import endpoint_sysctls, machine_sysctls
from bench.corpus.disturbances.transmit_queues import single_transmit_queue
from bench.corpus.effect_checks import require_all, require_counter_rate, require_slowdown
from bench.corpus.scenario import CauseStrength, RunTiming, Scenario, make_strengths
from vnetbench.study.workloads import UDP_STREAM

PORT_SEGMENTATION_OFF = port_knobs({"tso": False, "gso": False})
"""The virtual switch segments large packets, as a physical link requires."""
UPLINK_SEGMENTATION_OFF = uplink_knobs({"tso": False, "gso": False})
"""The same at the uplink, so that single packets reach the ports of the other virtual switch."""
MTUS = (9000, 4000, 1500, 3000)


def _mtu(mtu: object) -> dict[str, int]:
    return {"mtu": int(str(mtu))}


RECIPES = (
    Scenario(
        ("segmentation_off",),
        "TSO and GSO off behind the bench",
        make_strengths(
            MTUS, "off, MTU {}", _mtu, lambda mtu: endpoint_knobs("a", {"tso": False, "gso": False})
        ),
        ("bridge", "direct", "router", "jumbo6", "streams"),
        require_slowdown(0.2),
    ),
    Scenario(
        ("segmentation_off",),
        "TSO and GSO off by the study",
        make_strengths(MTUS, "off, MTU {}", lambda mtu: {"mtu": mtu, "tso": "off", "gso": "off"}),
        ("bridge",),
        require_slowdown(0.2),
        control_levels={"tso": "on", "gso": "on"},
    ),
    Scenario(
        ("aggregation_off",),
        "GRO off, and packets come cut",
        make_strengths((2, 4, 8, 6), "off, {} streams", lambda streams: {"streams": streams, "gro": "off"}),
        ("bridge", "router", "jumbo6"),
        require_slowdown(0.1),
        levels={"cpus": "0,2/1", "irq_cpus": "3"},
        control_levels={"gro": "on"},
        preparation=(PORT_SEGMENTATION_OFF,),
        # The preparation itself splits packets at a port.
        accepted_causes=("offload_off_on_path",),
    ),
    Scenario(
        ("small_mtu",),
        "packets come cut",
        make_strengths((1000, 768, 576, 900), "MTU {}", _mtu),
        ("bridge", "router", "streams"),
        require_slowdown(0.15),
        levels={"gro": "on"},
        control_levels={"mtu": 1500},
        preparation=(PORT_SEGMENTATION_OFF,),
    ),
    Scenario(
        ("mtu_black_hole",),
        "a port, for a part of the trial",
        make_strengths(
            (1400, 1280, 800, 1000),
            "a port with MTU {}",
            disturbance=lambda mtu: mtu_black_hole(mtu, 0.7, 1.35),
        ),
        ("uplink",),
        require_slowdown(0.1),
        preparation=(UPLINK_SEGMENTATION_OFF,),
        repeat_count=2,
    ),
    Scenario(
        ("mtu_black_hole",),
        "a port, and probing",
        tuple(
            CauseStrength(
                f"a port with MTU {mtu}, tcp_mtu_probing = 1",
                disturbances=(
                    endpoint_sysctls("a", {"net/ipv4/tcp_mtu_probing": "1", "net/ipv4/tcp_retries1": "1"}),
                    mtu_black_hole(mtu),
                ),
            )
            for mtu in (1400, 1280, 1100, 1200)
        ),
        ("uplink",),
        require_slowdown(0.1),
        preparation=(UPLINK_SEGMENTATION_OFF,),
        repeat_count=2,
        timing=RunTiming(duration_s=2.4),
    ),
    Scenario(
        ("one_queue",),
        "XPS onto the first",
        make_strengths(
            (4, 8, 16, 12),
            "{} streams",
            lambda streams: {"streams": streams, "queues": 4, "gro": "on"},
            lambda _: single_transmit_queue(),
        ),
        ("bridge", "router", "jumbo6"),
        require_slowdown(0.15),
        preparation=(
            port_knobs({"queues": 4}),
            PORT_SEGMENTATION_OFF,
            endpoint_knobs("b", {"napi_cpus": "0-3"}),
        ),
        repeat_count=2,
    ),
    Scenario(
        ("overflow",),
        "a short backlog",
        make_strengths(
            (8, 3, 1, 5),
            "netdev_max_backlog of {}",
            disturbance=lambda length: machine_sysctls({"net/core/netdev_max_backlog": str(length)}),
        ),
        ("bridge", "direct", "router", "jumbo6", "streams"),
        require_all(require_slowdown(0.1), require_counter_rate("host softnet_dropped", 10)),
    ),
    Scenario(
        ("overflow",),
        "a tiny UDP buffer",
        make_strengths(
            ("4 KiB", "3 KiB", "2 KiB", "2500 B"), "SO_RCVBUF of {}", lambda size: {"socket_buffer": size}
        ),
        ("bridge", "router", "jumbo6"),
        require_slowdown(0.03),
        workload=UDP_STREAM,
        levels={"datagram_size": "1472 B", "bit_rate": "400 Mbit/s", "pacing": "sleep", "streams": 2},
        control_levels={"socket_buffer": "auto"},
    ),
    Scenario(
        ("checksum_software",),
        "checksum offload off behind the bench",
        make_strengths(
            MTUS,
            "off, MTU {}",
            _mtu,
            lambda mtu: endpoint_knobs("ab", {"tx_checksum": False, "rx_checksum": False}),
        ),
        ("bridge", "direct", "router", "jumbo6"),
        require_slowdown(0.15),
    ),
    Scenario(
        ("checksum_software",),
        "checksum offload off by the study",
        make_strengths(MTUS, "off, MTU {}", lambda mtu: {"mtu": mtu, "checksum_offload": "off"}),
        ("bridge",),
        require_slowdown(0.15),
        control_levels={"checksum_offload": "on"},
    ),
)
