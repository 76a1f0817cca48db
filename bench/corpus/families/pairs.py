"""Two causes at once: each of them takes part of the load, or is seen by itself."""

from __future__ import annotations

from bench.corpus.disturb.black_hole import black_hole
from bench.corpus.disturb.knobs import at_ends
from bench.corpus.disturb.quota import quota
from bench.corpus.disturb.shaped import shaped
from bench.corpus.disturb.spinning import spinning
from bench.corpus.proof import falls
from bench.corpus.recipe import Dose, Recipe, doses

TWO = ("bridge", "router", "jumbo6")
EACH = {"cpus": "0/1"}
CUT = at_ends("a", {"tso": False, "gso": False})

RECIPES = (
    Recipe(
        ("small_messages", "cpu_quota"),
        "small calls, and little CPU for them",
        tuple(
            Dose(f"256 B, {cpus} of a CPU", disturb=(quota("a1", cpus),)) for cpus in (0.5, 0.3, 0.15, 0.2)
        ),
        TWO,
        falls(0.3),
        levels={**EACH, "message_size": "256 B"},
        control={"message_size": "1 MiB"},
    ),
    Recipe(
        ("small_messages", "shared_by_vms"),
        "small calls, and others on the CPU",
        tuple(Dose(f"256 B, {n} others", disturb=(spinning(n, frozenset({0})),)) for n in (1, 2, 4, 3)),
        TWO,
        falls(0.3),
        levels={**EACH, "message_size": "256 B"},
        control={"message_size": "1 MiB"},
    ),
    Recipe(
        ("segmentation_off", "cpu_quota"),
        "TSO and GSO off, and little CPU",
        tuple(
            Dose(f"off, {cpus} of a CPU", disturb=(CUT, quota("a1", cpus))) for cpus in (0.4, 0.25, 0.1, 0.15)
        ),
        TWO,
        falls(0.3),
        levels=EACH,
    ),
    Recipe(
        ("segmentation_off", "machine_busy"),
        "TSO and GSO off, and other work",
        tuple(Dose(f"off, {n} processes", disturb=(CUT, spinning(n))) for n in (4, 8, 16, 12)),
        TWO,
        falls(0.3),
    ),
    Recipe(
        ("mtu_black_hole", "segmentation_off"),
        "packets that are cut by their sender, and a port that drops them",
        doses((1400, 1280, 800, 1000), "MTU {}", disturb=lambda mtu: black_hole(mtu, 0.7, 1.35)),
        ("bridge",),
        falls(0.1),
        levels={"tso": "off", "gso": "off"},
        control={"tso": "on", "gso": "on"},
    ),
    Recipe(
        ("link_full", "path_loss"),
        "a shaped link that loses",
        doses(
            ("0.05 %", "0.2 %", "1 %", "0.5 %"), "{}", lambda loss: {"link_loss": loss}, lambda _: shaped(5e8)
        ),
        ("uplink",),
        falls(0.3),
        control={"link_loss": "0 %"},
    ),
    Recipe(
        ("path_loss", "reordering"),
        "a line that does both",
        doses(
            ("0.05 %", "0.2 %", "1 %", "0.5 %"),
            "{}",
            lambda share: {"link_loss": share, "link_reordering": share},
        ),
        TWO,
        falls(0.2),
        control={"link_loss": "0 %", "link_reordering": "0 %"},
    ),
    Recipe(
        ("receive_window", "path_loss"),
        "a small window, and a line that loses",
        doses(
            ("0.05 %", "0.2 %", "1 %", "0.5 %"),
            "64 KiB, {}",
            lambda loss: {"link_loss": loss, "socket_buffer": "64 KiB", "link_delay": "1 ms"},
        ),
        TWO,
        falls(0.3),
        control={"link_loss": "0 %", "socket_buffer": "auto"},
    ),
)
