"""Two simultaneous causes, each of which reduces the load or is visible on its own."""

from __future__ import annotations

from bench.corpus.disturbances.busy_processes import busy_processes
from bench.corpus.disturbances.cpu_quota import vm_cpu_quota
from bench.corpus.disturbances.knobs import endpoint_knobs
from bench.corpus.disturbances.mtu_black_hole import mtu_black_hole
from bench.corpus.disturbances.shaped_links import shaped_links
from bench.corpus.effect_checks import require_slowdown
from bench.corpus.scenario import CauseStrength, Scenario, make_strengths

TOPOLOGIES = ("bridge", "router", "jumbo6")
ONE_CPU_PER_VM = {"cpus": "0/1"}
SEGMENTATION_OFF = endpoint_knobs("a", {"tso": False, "gso": False})

RECIPES = (
    Scenario(
        ("small_messages", "cpu_quota"),
        "small calls, and little CPU for them",
        tuple(
            CauseStrength(f"256 B, {cpus} of a CPU", disturbances=(vm_cpu_quota("a1", cpus),))
            for cpus in (0.5, 0.3, 0.15, 0.2)
        ),
        TOPOLOGIES,
        require_slowdown(0.3),
        levels={**ONE_CPU_PER_VM, "message_size": "256 B"},
        control_levels={"message_size": "1 MiB"},
    ),
    Scenario(
        ("small_messages", "shared_by_vms"),
        "small calls, and others on the CPU",
        tuple(
            CauseStrength(f"256 B, {n} others", disturbances=(busy_processes(n, frozenset({0})),))
            for n in (1, 2, 4, 3)
        ),
        TOPOLOGIES,
        require_slowdown(0.3),
        levels={**ONE_CPU_PER_VM, "message_size": "256 B"},
        control_levels={"message_size": "1 MiB"},
    ),
    Scenario(
        ("segmentation_off", "cpu_quota"),
        "TSO and GSO off, and little CPU",
        tuple(
            CauseStrength(f"off, {cpus} of a CPU", disturbances=(SEGMENTATION_OFF, vm_cpu_quota("a1", cpus)))
            for cpus in (0.4, 0.25, 0.1, 0.15)
        ),
        TOPOLOGIES,
        require_slowdown(0.3),
        levels=ONE_CPU_PER_VM,
    ),
    Scenario(
        ("segmentation_off", "machine_busy"),
        "TSO and GSO off, and other work",
        tuple(
            CauseStrength(f"off, {n} processes", disturbances=(SEGMENTATION_OFF, busy_processes(n)))
            for n in (4, 8, 16, 12)
        ),
        TOPOLOGIES,
        require_slowdown(0.3),
    ),
    Scenario(
        ("mtu_black_hole", "segmentation_off"),
        "packets that are cut by their sender, and a port that drops them",
        make_strengths(
            (1400, 1280, 800, 1000), "MTU {}", disturbance=lambda mtu: mtu_black_hole(mtu, 0.7, 1.35)
        ),
        ("bridge",),
        require_slowdown(0.1),
        levels={"tso": "off", "gso": "off"},
        control_levels={"tso": "on", "gso": "on"},
    ),
    Scenario(
        ("link_full", "path_loss"),
        "a shaped link that loses",
        make_strengths(
            ("0.05 %", "0.2 %", "1 %", "0.5 %"),
            "{}",
            lambda loss: {"link_loss": loss},
            lambda _: shaped_links(5e8),
        ),
        ("uplink",),
        require_slowdown(0.3),
        control_levels={"link_loss": "0 %"},
    ),
    Scenario(
        ("path_loss", "reordering"),
        "a line that does both",
        make_strengths(
            ("0.05 %", "0.2 %", "1 %", "0.5 %"),
            "{}",
            lambda share: {"link_loss": share, "link_reordering": share},
        ),
        TOPOLOGIES,
        require_slowdown(0.2),
        control_levels={"link_loss": "0 %", "link_reordering": "0 %"},
    ),
    Scenario(
        ("receive_window", "path_loss"),
        "a small window, and a line that loses",
        make_strengths(
            ("0.05 %", "0.2 %", "1 %", "0.5 %"),
            "64 KiB, {}",
            lambda loss: {"link_loss": loss, "socket_buffer": "64 KiB", "link_delay": "1 ms"},
        ),
        TOPOLOGIES,
        require_slowdown(0.3),
        control_levels={"link_loss": "0 %", "socket_buffer": "auto"},
    ),
)
