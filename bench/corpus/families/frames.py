"""Causes of frames that do not arrive, or are not sent: links, lines, the switch, the sink, the generator.

A veth's ring holds 256 frames: what takes them in and is kept from its CPU for a few milliseconds loses some.
So the loads are far below what the switch forwards where that is not the cause itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.corpus.disturb.knobs import at_ends, at_ports
from bench.corpus.disturb.settings import machine_settings
from bench.corpus.disturb.shaped import shaped
from bench.corpus.disturb.spinning import SPUN, spinning
from bench.corpus.proof import all_of, busy, carries, counts, falls, short_of, tells
from bench.corpus.recipe import Dose, Levels, Recipe, doses
from bench.corpus.scene import Disturb
from vnetbench.study.factors.frame_sizes import MIN_FRAME_BYTES
from vnetbench.study.workloads import FRAMES

WITH_SWITCH = ("bridge", "router", "jumbo6")
WITHOUT = ("direct", "macvlan")
CALM: Levels = {"frame_load": "50 kframe/s"}
BUSY: Levels = {"frame_load": "100 kframe/s"}
TWO_CPUS: Levels = {"cpus": "0-1", "device_cpus": "2-3"}
SHARES = (0.75, 0.85, 0.95, 0.9)
"""Of the time: what takes frames in wakes so often that it is let run before a process that computes less."""


def _load(load: str) -> Levels:
    return {"frame_load": load}


def _beside(cpus: Sequence[int], share: float) -> Disturb:
    """A process on each of these CPUs, at work for this share of the time."""
    return spinning(len(cpus), frozenset(cpus), share)


RECIPES = tuple(
    replace(recipe, workload=FRAMES)
    for recipe in (
        Recipe(
            ("link_full",),
            "frames, tbf behind the bench",
            doses((15e6, 10e6, 4e6, 7e6), "{:g} bit/s", disturb=shaped),
            (*WITH_SWITCH, "uplink"),
            falls(0.1),
            levels=CALM,
        ),
        Recipe(
            ("path_loss",),
            "frames, a line that loses",
            doses(("2 %", "5 %", "20 %", "10 %"), "{}", lambda loss: {"link_loss": loss}),
            (*WITH_SWITCH, "uplink"),
            falls(0.015),
            levels={"frame_load": "20 kframe/s"},
            control={"link_loss": "0 %"},
        ),
        Recipe(
            ("switch_cpu",),
            "frames, more than the switch forwards",
            doses(("1 Mframe/s", "1200 kframe/s", "max", "2 Mframe/s"), "{}", _load),
            (*WITH_SWITCH, "uplink"),
            short_of(0.9 * 1e6 * MIN_FRAME_BYTES),
            is_wrong=False,
        ),
        Recipe(
            ("shared_by_vms",),
            "frames, another process on the switch's CPUs",
            doses(SHARES, "for {} of the time", disturb=lambda share: _beside((2, 3), share)),
            WITH_SWITCH,
            all_of(falls(0.03), tells(SPUN, 0.5)),
            levels={**BUSY, **TWO_CPUS},
            ground=(at_ports({"napi_first": False}),),
        ),
        Recipe(
            ("shared_by_vms",),
            "frames, another process on the sink's CPU",
            doses(SHARES, "for {} of the time", disturb=lambda share: _beside((1,), share)),
            WITH_SWITCH,
            all_of(falls(0.03), tells(SPUN, 0.5)),
            levels={**BUSY, **TWO_CPUS},
            ground=(at_ends("b", {"napi_first": False}),),
        ),
        Recipe(
            ("overflow",),
            "frames, a short backlog",
            tuple(
                Dose(
                    f"RPS, netdev_max_backlog of {length}",
                    disturb=(
                        at_ports({"rps_cpus": "3"}, "a"),
                        machine_settings({"net/core/netdev_max_backlog": str(length)}),
                    ),
                )
                for length in (4, 2, 1, 3)
            ),
            WITH_SWITCH,
            all_of(falls(0.03), counts("host softnet_dropped", 100)),
            levels=BUSY,
        ),
        Recipe(
            ("instrument_limit",),
            "frames, a rate beyond the generator",
            doses(("20 Mframe/s", "30 Mframe/s", "50 Mframe/s", "40 Mframe/s"), "{}", _load),
            WITHOUT,
            short_of(0.9 * 20e6 * MIN_FRAME_BYTES),
        ),
        Recipe(
            ("generator_cpu",),
            "frames, as fast as they go",
            doses((64, 512, 1518, 1024), "{} bytes", lambda size: {"frame_size": size}),
            WITHOUT,
            busy("a1", 0.7),
            is_wrong=False,
        ),
        Recipe(
            ("nothing",),
            "frames at a rate",
            doses(("5 kframe/s", "20 kframe/s", "50 kframe/s", "35 kframe/s"), "{}", _load),
            (*WITH_SWITCH, *WITHOUT, "uplink"),
            carries(0.995),
            is_wrong=False,
        ),
        Recipe(
            ("nothing",),
            "frames of all sizes at a rate",
            doses((128, 512, 1518, 1024), "{} bytes", lambda size: {"frame_size": size}),
            ("bridge", "direct", "jumbo6"),
            carries(0.995),
            levels={"frame_load": "20 kframe/s"},
            is_wrong=False,
        ),
    )
)
