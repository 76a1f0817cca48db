"""Causes of lost or unsent frames: in links, in the switch, in the sink and in the generator.

The ring of a veth holds 256 frames, so a receiver that waits a few milliseconds for its CPU loses frames.
Unless the switch is the cause, the loads are therefore far below its forwarding rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.corpus.disturbance import Disturbance
from bench.corpus.disturbances.busy_processes import SPUN_CPU_S, busy_processes
from bench.corpus.disturbances.knobs import endpoint_knobs, port_knobs
from bench.corpus.disturbances.shaped_links import shaped_links
from bench.corpus.disturbances.sysctls import machine_sysctls
from bench.corpus.effect_checks import (
    require_all,
    require_counter_rate,
    require_cpu_use,
    require_disturbance_value,
    require_slowdown,
    require_speed_below,
    require_speed_share,
)
from bench.corpus.scenario import CauseStrength, Levels, Scenario, make_strengths
from vnetbench.study.factors.frame_sizes import MIN_FRAME_BYTES
from vnetbench.study.workloads import FRAMES

WITH_SWITCH = ("bridge", "router", "jumbo6")
WITHOUT = ("direct", "macvlan")
CALM: Levels = {"frame_load": "50 kframe/s"}
BUSY: Levels = {"frame_load": "100 kframe/s"}
TWO_CPUS: Levels = {"cpus": "0-1", "device_cpus": "2-3"}
SHARES = (0.75, 0.85, 0.95, 0.9)
"""Shares of the time for which a process is busy. Against less busy processes, the scheduler prefers the
receiver, which wakes often."""


def _load(load: str) -> Levels:
    return {"frame_load": load}


def _processes_on_cpus(cpus: Sequence[int], share: float) -> Disturbance:
    """Return a disturbance with a process on each of these CPUs that is busy for this share of the time."""
    return busy_processes(len(cpus), frozenset(cpus), share)


RECIPES = tuple(
    replace(scenario, workload=FRAMES)
    for scenario in (
        Scenario(
            ("link_full",),
            "frames, tbf behind the bench",
            make_strengths((15e6, 10e6, 4e6, 7e6), "{:g} bit/s", disturbance=shaped_links),
            (*WITH_SWITCH, "uplink"),
            require_slowdown(0.1),
            levels=CALM,
        ),
        Scenario(
            ("path_loss",),
            "frames, a line that loses",
            make_strengths(("2 %", "5 %", "20 %", "10 %"), "{}", lambda loss: {"link_loss": loss}),
            (*WITH_SWITCH, "uplink"),
            require_slowdown(0.015),
            levels={"frame_load": "20 kframe/s"},
            control_levels={"link_loss": "0 %"},
        ),
        Scenario(
            ("switch_cpu",),
            "frames, more than the switch forwards",
            make_strengths(("1 Mframe/s", "1200 kframe/s", "max", "2 Mframe/s"), "{}", _load),
            (*WITH_SWITCH, "uplink"),
            require_speed_below(0.9 * 1e6 * MIN_FRAME_BYTES),
            has_fault=False,
        ),
        Scenario(
            ("shared_by_vms",),
            "frames, another process on the switch's CPUs",
            make_strengths(
                SHARES, "for {} of the time", disturbance=lambda share: _processes_on_cpus((2, 3), share)
            ),
            WITH_SWITCH,
            require_all(require_slowdown(0.03), require_disturbance_value(SPUN_CPU_S, 0.5)),
            levels={**BUSY, **TWO_CPUS},
            preparation=(port_knobs({"napi_has_priority": False}),),
        ),
        Scenario(
            ("shared_by_vms",),
            "frames, another process on the sink's CPU",
            make_strengths(
                SHARES, "for {} of the time", disturbance=lambda share: _processes_on_cpus((1,), share)
            ),
            WITH_SWITCH,
            require_all(require_slowdown(0.03), require_disturbance_value(SPUN_CPU_S, 0.5)),
            levels={**BUSY, **TWO_CPUS},
            preparation=(endpoint_knobs("b", {"napi_has_priority": False}),),
        ),
        Scenario(
            ("overflow",),
            "frames, a short backlog",
            tuple(
                CauseStrength(
                    f"RPS, netdev_max_backlog of {length}",
                    disturbances=(
                        port_knobs({"rps_cpus": "3"}, "a"),
                        machine_sysctls({"net/core/netdev_max_backlog": str(length)}),
                    ),
                )
                for length in (4, 2, 1, 3)
            ),
            WITH_SWITCH,
            require_all(require_slowdown(0.03), require_counter_rate("host softnet_dropped", 100)),
            levels=BUSY,
        ),
        Scenario(
            ("instrument_limit",),
            "frames, a rate beyond the generator",
            make_strengths(("20 Mframe/s", "30 Mframe/s", "50 Mframe/s", "40 Mframe/s"), "{}", _load),
            WITHOUT,
            require_speed_below(0.9 * 20e6 * MIN_FRAME_BYTES),
        ),
        Scenario(
            ("generator_cpu",),
            "frames, as fast as they go",
            make_strengths((64, 512, 1518, 1024), "{} bytes", lambda size: {"frame_size": size}),
            WITHOUT,
            require_cpu_use("a1", 0.7),
            has_fault=False,
        ),
        Scenario(
            ("nothing",),
            "frames at a rate",
            make_strengths(("5 kframe/s", "20 kframe/s", "50 kframe/s", "35 kframe/s"), "{}", _load),
            (*WITH_SWITCH, *WITHOUT, "uplink"),
            require_speed_share(0.995),
            has_fault=False,
        ),
        Scenario(
            ("nothing",),
            "frames of all sizes at a rate",
            make_strengths((128, 512, 1518, 1024), "{} bytes", lambda size: {"frame_size": size}),
            ("bridge", "direct", "jumbo6"),
            require_speed_share(0.995),
            levels={"frame_load": "20 kframe/s"},
            has_fault=False,
        ),
    )
)
