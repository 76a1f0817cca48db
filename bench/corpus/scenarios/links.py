"""Causes in the links: saturation, competing load, loss and reordering."""

from __future__ import annotations

from bench.corpus import multipath_testbed
from bench.corpus.disturbances.competing_load import COMPETING_BYTES, competing_load
from bench.corpus.disturbances.shaped_links import shaped_links
from bench.corpus.disturbances.sysctls import switch_sysctls
from bench.corpus.effect_checks import require_all, require_disturbance_value, require_slowdown
from bench.corpus.scenario import Scenario, make_strengths
from vnetbench.study.workloads import UDP_STREAM

BY_ADDRESSES = switch_sysctls({multipath_testbed.HASH_POLICY: multipath_testbed.BY_ADDRESSES})
BY_PORTS = switch_sysctls({multipath_testbed.HASH_POLICY: multipath_testbed.BY_PORTS})
RATES = (5e9, 1e9, 100e6, 300e6)

RECIPES = (
    Scenario(
        ("link_full",),
        "tbf behind the bench",
        make_strengths(RATES, "{:g} bit/s", disturbance=shaped_links),
        ("bridge", "direct", "router", "jumbo6", "uplink"),
        require_slowdown(0.3),
    ),
    Scenario(
        ("link_full",),
        "htb behind the bench",
        make_strengths(RATES, "{:g} bit/s", disturbance=lambda rate: shaped_links(rate, "htb")),
        ("uplink", "router", "jumbo6"),
        require_slowdown(0.3),
    ),
    Scenario(
        ("link_full",),
        "link_rate",
        make_strengths(
            ("4 Gbit/s", "500 Mbit/s", "100 Mbit/s", "200 Mbit/s"), "{}", lambda rate: {"link_rate": rate}
        ),
        ("bridge", "pairs"),
        require_slowdown(0.3),
        control_levels={"link_rate": "none"},
    ),
    Scenario(
        ("path_loss",),
        "a line that loses",
        make_strengths(("0.02 %", "0.1 %", "1 %", "0.5 %"), "{}", lambda loss: {"link_loss": loss}),
        ("bridge", "router", "jumbo6", "uplink"),
        require_slowdown(0.2),
        levels={"link_delay": "500 us"},
        control_levels={"link_loss": "0 %"},
    ),
    Scenario(
        ("reordering",),
        "a line that holds packets back",
        make_strengths(("0.5 %", "2 %", "10 %", "5 %"), "{}", lambda share: {"link_reordering": share}),
        ("bridge", "direct", "router", "jumbo6"),
        require_slowdown(0.1),
        control_levels={"link_reordering": "0 %"},
    ),
    Scenario(
        ("one_uplink",),
        "flows told apart by addresses alone",  # codespell:ignore told
        make_strengths(
            ("2 Gbit/s", "500 Mbit/s", "100 Mbit/s", "250 Mbit/s"),
            "two uplinks of {}",
            lambda rate: {"link_rate": rate},
            lambda _: BY_ADDRESSES,
        ),
        ("team",),
        require_slowdown(0.25),
        levels={"streams": 8},
        preparation=(BY_PORTS,),
        repeat_count=2,
    ),
    Scenario(
        ("one_uplink",),
        "fewer flows, told apart by addresses alone",  # codespell:ignore told
        make_strengths(
            ("1 Gbit/s", "300 Mbit/s", "150 Mbit/s", "200 Mbit/s"),
            "two uplinks of {}",
            lambda rate: {"link_rate": rate},
            lambda _: BY_ADDRESSES,
        ),
        ("team",),
        require_slowdown(0.2),
        levels={"streams": 4},
        preparation=(BY_PORTS,),
        repeat_count=2,
    ),
    Scenario(
        ("other_load",),
        "other VMs' datagrams",
        make_strengths(
            (3e8, 5e8, 8e8, 6e8),
            "{:g} bit/s of 1e9",
            disturbance=lambda rate: competing_load({"bit_rate": rate, "datagram_size": 1472}, UDP_STREAM),
        ),
        ("uplink",),
        require_all(require_slowdown(0.15), require_disturbance_value(COMPETING_BYTES, 1e6)),
        levels={"link_rate": "1 Gbit/s"},
    ),
    Scenario(
        ("other_load",),
        "other VMs' streams",
        make_strengths(
            (1, 3, 8, 5), "{} streams", disturbance=lambda streams: competing_load({"streams": streams})
        ),
        ("uplink",),
        require_all(require_slowdown(0.15), require_disturbance_value(COMPETING_BYTES, 1e6)),
        levels={"link_rate": "1 Gbit/s"},
    ),
    Scenario(
        ("other_load",),
        "other programs' streams in the same VMs",
        make_strengths(
            (1, 3, 8, 5),
            "{} streams",
            disturbance=lambda streams: competing_load({"streams": streams}, in_same_vms=True),
        ),
        ("bridge", "router", "jumbo6"),
        require_all(require_slowdown(0.15), require_disturbance_value(COMPETING_BYTES, 1e6)),
        levels={"link_rate": "1 Gbit/s"},
    ),
)
