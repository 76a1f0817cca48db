"""Causes that are links: full, shared with other load, lossy, out of order."""

from __future__ import annotations

from bench.corpus import team
from bench.corpus.disturb.rivals import CARRIED, rivals
from bench.corpus.disturb.settings import switch_settings
from bench.corpus.disturb.shaped import shaped
from bench.corpus.proof import all_of, falls, tells
from bench.corpus.recipe import Recipe, doses
from vnetbench.study.workloads import UDP_STREAM

BY_ADDRESSES = switch_settings({team.HASH_POLICY: team.BY_ADDRESSES})
BY_PORTS = switch_settings({team.HASH_POLICY: team.BY_PORTS})
RATES = (5e9, 1e9, 100e6, 300e6)

RECIPES = (
    Recipe(
        ("link_full",),
        "tbf behind the bench",
        doses(RATES, "{:g} bit/s", disturb=shaped),
        ("bridge", "direct", "router", "jumbo6", "uplink"),
        falls(0.3),
    ),
    Recipe(
        ("link_full",),
        "htb behind the bench",
        doses(RATES, "{:g} bit/s", disturb=lambda rate: shaped(rate, "htb")),
        ("uplink", "router", "jumbo6"),
        falls(0.3),
    ),
    Recipe(
        ("link_full",),
        "link_rate",
        doses(("4 Gbit/s", "500 Mbit/s", "100 Mbit/s", "200 Mbit/s"), "{}", lambda rate: {"link_rate": rate}),
        ("bridge", "pairs"),
        falls(0.3),
        control={"link_rate": "none"},
    ),
    Recipe(
        ("path_loss",),
        "a line that loses",
        doses(("0.02 %", "0.1 %", "1 %", "0.5 %"), "{}", lambda loss: {"link_loss": loss}),
        ("bridge", "router", "jumbo6", "uplink"),
        falls(0.2),
        levels={"link_delay": "500 us"},
        control={"link_loss": "0 %"},
    ),
    Recipe(
        ("reordering",),
        "a line that holds packets back",
        doses(("0.5 %", "2 %", "10 %", "5 %"), "{}", lambda share: {"link_reordering": share}),
        ("bridge", "direct", "router", "jumbo6"),
        falls(0.1),
        control={"link_reordering": "0 %"},
    ),
    Recipe(
        ("one_uplink",),
        "flows told apart by addresses alone",
        doses(
            ("2 Gbit/s", "500 Mbit/s", "100 Mbit/s", "250 Mbit/s"),
            "two uplinks of {}",
            lambda rate: {"link_rate": rate},
            lambda _: BY_ADDRESSES,
        ),
        ("team",),
        falls(0.25),
        levels={"streams": 8},
        ground=(BY_PORTS,),
        repeats=2,
    ),
    Recipe(
        ("one_uplink",),
        "fewer flows, told apart by addresses alone",
        doses(
            ("1 Gbit/s", "300 Mbit/s", "150 Mbit/s", "200 Mbit/s"),
            "two uplinks of {}",
            lambda rate: {"link_rate": rate},
            lambda _: BY_ADDRESSES,
        ),
        ("team",),
        falls(0.2),
        levels={"streams": 4},
        ground=(BY_PORTS,),
        repeats=2,
    ),
    Recipe(
        ("other_load",),
        "other VMs' datagrams",
        doses(
            (3e8, 5e8, 8e8, 6e8),
            "{:g} bit/s of 1e9",
            disturb=lambda rate: rivals({"bit_rate": rate, "datagram_size": 1472}, UDP_STREAM),
        ),
        ("uplink",),
        all_of(falls(0.15), tells(CARRIED, 1e6)),
        levels={"link_rate": "1 Gbit/s"},
    ),
    Recipe(
        ("other_load",),
        "other VMs' streams",
        doses((1, 3, 8, 5), "{} streams", disturb=lambda streams: rivals({"streams": streams})),
        ("uplink",),
        all_of(falls(0.15), tells(CARRIED, 1e6)),
        levels={"link_rate": "1 Gbit/s"},
    ),
    Recipe(
        ("other_load",),
        "other programs' streams in the same VMs",
        doses((1, 3, 8, 5), "{} streams", disturb=lambda streams: rivals({"streams": streams}, inside=True)),
        ("bridge", "router", "jumbo6"),
        all_of(falls(0.15), tells(CARRIED, 1e6)),
        levels={"link_rate": "1 Gbit/s"},
    ),
)
