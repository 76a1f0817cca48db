"""Causes that make trials differ, or their beginning from their end."""

from __future__ import annotations

from bench.corpus.disturb.knobs import at_ends
from bench.corpus.disturb.settings import settings
from bench.corpus.disturb.shaped import shaped
from bench.corpus.disturb.spinning import SPUN, spinning
from bench.corpus.disturb.super_frames import super_frames
from bench.corpus.disturb.varying import DISTURBED, by_trial, in_some_trials, shaped_ever_less
from bench.corpus.proof import all_of, differs, falls, spreads, tells
from bench.corpus.recipe import Dose, Pace, Recipe, doses

_LONG = "4096 131072 67108864"
LONG_BUFFERS = settings("ab", {"net/ipv4/tcp_wmem": _LONG, "net/ipv4/tcp_rmem": _LONG})
"""No window but the congestion window is a limit on a path of tenths of a second."""
MANY = Pace(trials=24, duration_s=0.5, interval_s=0.05)


def _packets_elsewhere(packets: int) -> Dose:
    """Frames of so many packets, taken in by CPU 3 in some trials, in the others by the CPU that sent."""
    elsewhere = at_ends("ab", {"rps_cpus": "3"})
    return Dose(
        f"frames of {packets} packets, all on CPU 3",
        disturb=(super_frames(packets), in_some_trials(0.5, elsewhere)),
    )


RECIPES = (
    Recipe(
        ("two_modes",),
        "another process on the sender's CPU in some trials",
        doses(
            (1, 2, 4, 3),
            "{} processes",
            disturb=lambda count: in_some_trials(0.5, spinning(count, frozenset({0}))),
        ),
        ("bridge", "router", "jumbo6"),
        differs(0.25, DISTURBED),
        levels={"cpus": "0/1"},
        pace=MANY,
        accepted=("shared_by_vms",),
    ),
    Recipe(
        ("two_modes",),
        "receive processing elsewhere in some trials",
        tuple(_packets_elsewhere(packets) for packets in (5, 4, 2, 3)),
        ("bridge", "router", "jumbo6"),
        differs(0.15, DISTURBED),
        # Each end has one thread and a CPU of its own: what shares none is not held up in both modes.
        levels={"cpus": "0/1", "irq_cpus": "off"},
        accepted=("receive_processing",),
        pace=MANY,
    ),
    Recipe(
        ("two_modes",),
        "a slower link in some trials",
        doses((2e9, 1e9, 5e8, 7e8), "{:g} bit/s", disturb=lambda rate: in_some_trials(0.5, shaped(rate))),
        ("uplink",),
        differs(0.25, DISTURBED),
        pace=MANY,
        accepted=("link_full",),
    ),
    Recipe(
        ("drift",),
        "a link that gets slower from trial to trial",
        doses(
            (0.985, 0.97, 0.95, 0.96),
            "{} times in each",
            disturb=lambda share: by_trial(lambda number: shaped(2e9 * share**number)),
        ),
        ("bridge", "uplink", "router", "jumbo6"),
        spreads(0.15),
        pace=MANY,
        accepted=("link_full",),
    ),
    Recipe(
        ("drift",),
        "a link that gets slower within trials",
        doses(
            (0.8, 0.6, 0.4, 0.5),
            "to {} of its rate",
            disturb=lambda share: shaped_ever_less(2e9, 2e9 * share, 1.2),
        ),
        ("bridge", "router", "jumbo6"),
        falls(0.3),
        accepted=("link_full",),
    ),
    Recipe(
        ("warm_up",),
        "a path so long that trials end in slow start",
        doses(("50 ms", "60 ms", "80 ms", "70 ms"), "{} away", lambda delay: {"link_delay": delay}),
        ("direct", "router", "uplink"),
        falls(0.3),
        control={"link_delay": "none"},
        ground=(LONG_BUFFERS,),
        accepted=("congestion_window",),
    ),
    Recipe(
        ("machine_busy",),
        "processes that compute",
        doses((4, 8, 16, 12), "{} processes", disturb=spinning),
        ("bridge", "router", "jumbo6"),
        all_of(falls(0.1), tells(SPUN, 2)),
    ),
)
