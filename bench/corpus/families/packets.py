"""Causes that are packets: too many, too large for a hop, lost on the way up, all in one queue."""

from __future__ import annotations

from bench.corpus.disturb.black_hole import black_hole
from bench.corpus.disturb.knobs import at_ends, at_ports, at_uplink
from bench.corpus.disturb.settings import machine_settings, settings
from bench.corpus.disturb.transmit_queues import one_transmit_queue
from bench.corpus.proof import all_of, counts, falls
from bench.corpus.recipe import Dose, Pace, Recipe, doses
from vnetbench.study.workloads import UDP_STREAM

CUT = at_ports({"tso": False, "gso": False})
"""The virtual switch hands on packets, as a wire does, and not what a sender left to be cut."""
CUT_AT_UPLINK = at_uplink({"tso": False, "gso": False})
"""The same where packets leave for the other virtual switch: so they meet its ports as packets."""
MTUS = (9000, 4000, 1500, 3000)


def _mtu(mtu: object) -> dict[str, int]:
    return {"mtu": int(str(mtu))}


RECIPES = (
    Recipe(
        ("segmentation_off",),
        "TSO and GSO off behind the bench",
        doses(MTUS, "off, MTU {}", _mtu, lambda mtu: at_ends("a", {"tso": False, "gso": False})),
        ("bridge", "direct", "router", "jumbo6", "streams"),
        falls(0.2),
    ),
    Recipe(
        ("segmentation_off",),
        "TSO and GSO off by the study",
        doses(MTUS, "off, MTU {}", lambda mtu: {"mtu": mtu, "tso": "off", "gso": "off"}),
        ("bridge",),
        falls(0.2),
        control={"tso": "on", "gso": "on"},
    ),
    Recipe(
        ("aggregation_off",),
        "GRO off, and packets come cut",
        doses((2, 4, 8, 6), "off, {} streams", lambda streams: {"streams": streams, "gro": "off"}),
        ("bridge", "router", "jumbo6"),
        falls(0.1),
        levels={"cpus": "0,2/1", "irq_cpus": "3"},
        control={"gro": "on"},
        ground=(CUT,),
    ),
    Recipe(
        ("small_mtu",),
        "packets come cut",
        doses((1000, 768, 576, 900), "MTU {}", _mtu),
        ("bridge", "router", "streams"),
        falls(0.15),
        levels={"gro": "on"},
        control={"mtu": 1500},
        ground=(CUT,),
    ),
    Recipe(
        ("mtu_black_hole",),
        "a port, for a part of the trial",
        doses((1400, 1280, 800, 1000), "a port with MTU {}", disturb=lambda mtu: black_hole(mtu, 0.7, 1.35)),
        ("uplink",),
        falls(0.1),
        ground=(CUT_AT_UPLINK,),
        repeats=2,
    ),
    Recipe(
        ("mtu_black_hole",),
        "a port, and probing",
        tuple(
            Dose(
                f"a port with MTU {mtu}, tcp_mtu_probing = 1",
                disturb=(
                    settings("a", {"net/ipv4/tcp_mtu_probing": "1", "net/ipv4/tcp_retries1": "1"}),
                    black_hole(mtu),
                ),
            )
            for mtu in (1400, 1280, 1100, 1200)
        ),
        ("uplink",),
        falls(0.1),
        ground=(CUT_AT_UPLINK,),
        repeats=2,
        pace=Pace(duration_s=2.4),
    ),
    Recipe(
        ("one_queue",),
        "XPS onto the first",
        doses(
            (4, 8, 16, 12),
            "{} streams",
            lambda streams: {"streams": streams, "queues": 4, "gro": "on"},
            lambda _: one_transmit_queue(),
        ),
        ("bridge", "router", "jumbo6"),
        falls(0.15),
        ground=(at_ports({"queues": 4}), CUT, at_ends("b", {"napi_cpus": "0-3"})),
        repeats=2,
    ),
    Recipe(
        ("overflow",),
        "a short backlog",
        doses(
            (8, 3, 1, 5),
            "netdev_max_backlog of {}",
            disturb=lambda length: machine_settings({"net/core/netdev_max_backlog": str(length)}),
        ),
        ("bridge", "direct", "router", "jumbo6", "streams"),
        all_of(falls(0.1), counts("host softnet_dropped", 10)),
    ),
    Recipe(
        ("overflow",),
        "a tiny UDP buffer",
        doses(("4 KiB", "3 KiB", "2 KiB", "2500 B"), "SO_RCVBUF of {}", lambda size: {"socket_buffer": size}),
        ("bridge", "router", "jumbo6"),
        falls(0.03),
        workload=UDP_STREAM,
        levels={"datagram_size": "1472 B", "bit_rate": "400 Mbit/s", "pacing": "sleep", "streams": 2},
        control={"socket_buffer": "auto"},
    ),
    Recipe(
        ("checksum_software",),
        "checksum offload off behind the bench",
        doses(
            MTUS, "off, MTU {}", _mtu, lambda mtu: at_ends("ab", {"tx_checksum": False, "rx_checksum": False})
        ),
        ("bridge", "direct", "router", "jumbo6"),
        falls(0.15),
    ),
    Recipe(
        ("checksum_software",),
        "checksum offload off by the study",
        doses(MTUS, "off, MTU {}", lambda mtu: {"mtu": mtu, "checksum_offload": "off"}),
        ("bridge",),
        falls(0.15),
        control={"checksum_offload": "on"},
    ),
)
