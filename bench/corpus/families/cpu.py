"""Causes that are CPUs: too little of one, or two that want the same."""

from __future__ import annotations

from bench.corpus.disturb.quota import THROTTLED, quota
from bench.corpus.disturb.spinning import spinning
from bench.corpus.disturb.super_frames import super_frames
from bench.corpus.proof import all_of, busy, falls, has_rest, tells
from bench.corpus.recipe import Levels, Recipe, doses
from bench.corpus.scene import Disturb

EACH = {"cpus": "0/1"}
"""Each end has a CPU of its own; packets are processed where they are sent."""
MANY_FRAMES = super_frames(5)
SIZES = ("1 MiB", "512 KiB", "256 KiB", "384 KiB")


def _messages(size: str) -> Levels:
    return {"message_size": size}


def _beside(cpu: int, count: int) -> Disturb:
    return spinning(count, frozenset({cpu}))


RECIPES = (
    Recipe(
        ("sender_cpu",),
        "its own CPU",
        doses(SIZES, "messages of {}", _messages),
        ("bridge", "direct", "router", "jumbo6"),
        busy("CPU 0", 0.9),
        levels={**EACH, "irq_cpus": "off"},
        is_wrong=False,
        repeats=2,
    ),
    Recipe(
        ("receiver_cpu",),
        "copies, and the sender does not",
        doses(SIZES, "messages of {}", _messages),
        ("bridge", "direct", "router", "jumbo6"),
        all_of(busy("CPU 1", 0.85), has_rest("CPU 0", 0.25)),
        levels={**EACH, "irq_cpus": "off", "send_mode": "sendfile", "receive_mode": "copy"},
        is_wrong=False,
        repeats=2,
    ),
    Recipe(
        ("receive_processing",),
        "RPS onto one CPU",
        doses((3, 6, 9, 4), "{} streams, all packets on CPU 3", lambda n: {"streams": n, "irq_cpus": "3"}),
        ("bridge", "direct", "router", "jumbo6"),
        all_of(falls(0.1), busy("CPU 3", 0.85)),
        levels={"cpus": "0-2"},
        control={"irq_cpus": "off"},
        ground=(MANY_FRAMES,),
    ),
    Recipe(
        ("shared_with_packets",),
        "RPS onto the receiver's CPU",
        doses((2, 4, 8, 6), "{} streams", lambda n: {"streams": n, "irq_cpus": "1"}),
        ("bridge", "direct", "macvlan", "router", "jumbo6"),
        all_of(busy("CPU 1", 0.9), busy("softirq CPU 1", 0.25), busy("b1", 0.25)),
        levels={"cpus": "0,2-3/1"},
        control={"irq_cpus": "off"},
        ground=(MANY_FRAMES,),
    ),
    Recipe(
        ("shared_by_vms",),
        "pairs of VMs on one CPU",
        doses((2, 3, 4, 5), "{} pairs on CPU 0", lambda pairs: {"pairs": pairs, "cpus": "0"}),
        ("bridge", "direct", "router", "jumbo6"),
        falls(0.1),
        control={"cpus": "any"},
    ),
    Recipe(
        ("shared_by_vms",),
        "another process on the sender's CPU",
        doses((1, 2, 4, 3), "{} processes", disturb=lambda count: _beside(0, count)),
        ("bridge", "direct", "router", "jumbo6"),
        falls(0.1),
        levels=EACH,
    ),
    Recipe(
        ("shared_by_vms",),
        "another process on the receiver's CPU",
        doses((1, 2, 4, 3), "{} processes", disturb=lambda count: _beside(1, count)),
        ("macvlan", "router", "jumbo6"),
        falls(0.1),
        levels=EACH,
    ),
    Recipe(
        ("cpu_quota",),
        "the sender's",
        doses((0.5, 0.35, 0.15, 0.25), "{} of a CPU", disturb=lambda cpus: quota("a1", cpus)),
        ("bridge", "macvlan", "router", "jumbo6"),
        all_of(falls(0.1), tells(THROTTLED, 0.1)),
        levels=EACH,
    ),
    Recipe(
        ("cpu_quota",),
        "the receiver's",
        doses((0.3, 0.2, 0.1, 0.15), "{} of a CPU", disturb=lambda cpus: quota("b1", cpus)),
        ("bridge", "direct", "router", "jumbo6"),
        all_of(falls(0.1), tells(THROTTLED, 0.1)),
        levels={**EACH, "receive_mode": "copy"},
    ),
    Recipe(
        ("too_few_threads",),
        "one for all",
        doses((4, 8, 16, 12), "{} streams", lambda n: {"streams": n, "threads": 1}),
        ("bridge", "direct", "router", "jumbo6"),
        falls(0.15),
        control={"threads": "auto"},
    ),
)
